package lxc_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/lxc"
)

func TestCanSaysWhyNotAndWhatToDo(t *testing.T) {
	l := lxc.New(lxc.Options{Images: image.NewSet(image.Bare{}), Probe: "/nonexistent/gpurig-probe"})
	want := "there is no gpurig-probe: stat /nonexistent/gpurig-probe: no such file or directory"
	if _, err := exec.LookPath("lxc-start"); err != nil {
		want = "there is no lxc-start"
	}
	if os.Geteuid() != 0 {
		want = "needs root"
	}
	for range 2 { // the answer is kept
		err := l.Can(context.Background(), target.Config{Name: "c1", Cgroup: "v1"})
		c, ok := errors.AsType[*target.CannotError](err)
		if !ok || c.Why != want || c.Hint == "" || c.Target != "lxc" {
			t.Errorf("Can() = %#v; want a CannotError with a hint that says %q", err, want)
		}
	}
	err := l.Can(context.Background(), target.Config{Name: "c1", Cgroup: "v1", Image: "alpine"})
	if !errors.Is(err, image.ErrUnknown) {
		t.Errorf("Can(image alpine) = %v; want image.ErrUnknown: the scenario is wrong, not the machine", err)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
