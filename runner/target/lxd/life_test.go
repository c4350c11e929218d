package lxd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
)

// TestStoppedAndAtOnceStarted (F15): a container is started again as soon as the daemon
// calls it stopped, while cdi-hook's post-stop has yet to run; that one comes when
// the next life is running. The container has what it has at any other start: that
// Stop waits for the last hooks is for those who look, not for the next start.
// Incus 6.0.4 does not wait for a hook that takes its time; LXD 5.0.2 does.
func TestStoppedAndAtOnceStarted(t *testing.T) { each(t, stoppedAndAtOnceStarted) }

func stoppedAndAtOnceStarted(t *testing.T, f lxdapi.Flavour) {
	requireLXD(t, f, "v1")
	ctx := t.Context()
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	// The last hook waits until we say so, and then tells what cdi-hook said.
	program := filepath.Join(at, "hook")
	patience := map[lxdapi.Flavour]int{lxdapi.LXD: 50, lxdapi.Incus: 2000}[f] // in 20 ms
	text := fmt.Sprintf(`#!/bin/sh
if [ "$LXC_HOOK_TYPE" = post-stop ]; then
	n=0
	while [ ! -e %[1]s/go ] && [ $n -lt %[3]d ]; do sleep 0.02; n=$((n+1)); done
	exec %[2]s/cdi-hook "$@" 2>> %[1]s/said
fi
exec %[2]s/cdi-hook "$@"
`, at, dir, patience)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	l := lxd.New(lxd.Options{Flavour: f, Socket: lxd.Private, Images: image.NewSet(nil), Probe: filepath.Join(dir, "gpurig-probe"), Hook: program})
	release := func() {
		if err := os.WriteFile(filepath.Join(at, "go"), nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		release()
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	p := targettest.Plan(targettest.Version, false)
	made, err := l.Create(ctx, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*lxd.Container)
	if err := c.Start(ctx, h, p); err != nil {
		t.Fatal(err)
	}
	want := look(t, c)
	times := 3
	for i := range times {
		if err := os.Remove(filepath.Join(at, "go")); err != nil && i > 0 {
			t.Fatal(err)
		}
		ended, err := lxd.StopAtOnce(ctx, c)
		if err != nil {
			t.Fatalf("stop %d: %v", i, err)
		}
		if err := c.Start(ctx, h, p); err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		release()
		if err := ended(); err != nil {
			t.Fatal(err)
		}
		for _, d := range observe.Diff(want, look(t, c)) {
			t.Errorf("start %d: %s", i, d)
		}
	}
	said, err := os.ReadFile(filepath.Join(at, "said"))
	n := strings.Count(string(said), "was started again")
	t.Logf("%d of %d hooks were late", n, times)
	if err != nil || f == lxdapi.Incus && n != times {
		t.Errorf("%d of %d hooks were late, %v: %s", n, times, err, said)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
