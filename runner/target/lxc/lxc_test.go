package lxc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) { targettest.Main(m) }

func programsDir(t testing.TB) string {
	t.Helper()
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A rig is a target and the images that it uses.
type rig struct {
	l      *lxc.LXC
	images *image.Set
}

// requireLXC returns a target, or skips with the reason why this machine has
// none. GPURIG_REQUIRE_LXC turns the skip into a failure.
func requireLXC(t testing.TB, cgroup string) rig {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, "target lxc: needs root")
	}
	if _, err := exec.LookPath("lxc-start"); err != nil {
		cannot(t, "target lxc: %v", err)
	}
	dir := programsDir(t)
	images := image.NewSet(nil)
	l := lxc.New(lxc.Options{Images: images, Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")})
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if v, ok := lxc.Installed(); ok {
		if none := liblxc.Can("lxc", cgroup, v); none != nil {
			t.Skip(none)
		}
	}
	if err := l.Can(context.Background(), target.Config{Name: "c", Cgroup: cgroup}); err != nil {
		cannot(t, "%v", err)
	}
	return rig{l, images}
}

// anyCgroup is v1 where the LXC at hand has it.
func anyCgroup() string {
	if v, ok := lxc.Installed(); ok && !v.CgroupV1() {
		return "v2"
	}
	return "v1"
}

func cannot(t testing.TB, format string, args ...any) {
	t.Helper()
	targettest.Cannot(t, "GPURIG_REQUIRE_LXC", format, args...)
}

// The simulation is right only if it agrees with liblxc: every story, told by
// both, shows the same at every step.
func TestStoriesAreAsSimulated(t *testing.T) {
	r := requireLXC(t, anyCgroup())
	s, err := sim.New(r.images)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := lxc.Installed()
	s.As(v)
	targettest.Agree(t, s, r.l, func(t *testing.T, story *targettest.Story) {
		if !strings.Contains(story.Name, story.Config.Cgroup) { // it is not about that
			story.Config.Cgroup = anyCgroup()
		}
		if none := liblxc.Can("lxc", story.Config.Cgroup, v); none != nil {
			t.Skip(none)
		}
	})
}

// liblxc names an abstract socket after folder and name of a container: those
// of two targets, or of two cgroup versions, must not be taken for one.
func TestContainersOfOneNameRunAtOnce(t *testing.T) {
	for range 2 {
		for _, cgroup := range slices.Compact([]string{anyCgroup(), "v2"}) {
			start(t, requireLXC(t, cgroup).l, cgroup)
		}
	}
	both := requireLXC(t, anyCgroup()).l
	start(t, both, anyCgroup())
	start(t, both, "v2")
	start(t, both, "v2")
}
