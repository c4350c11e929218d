package lxd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) { targettest.Main(m) }

// A rig is a target and the images that it uses.
type rig struct {
	l      *lxd.LXD
	images *image.Set
}

// each runs a test with LXD and once more with Incus.
func each(t *testing.T, test func(t *testing.T, f lxdapi.Flavour)) {
	for _, f := range []lxdapi.Flavour{lxdapi.LXD, lxdapi.Incus} {
		t.Run(string(f), func(t *testing.T) { test(t, f) })
	}
}

// requireLXD returns a target, or skips with the reason why this machine has
// none. GPURIG_REQUIRE_LXD and GPURIG_REQUIRE_INCUS turn the skip into a failure.
func requireLXD(t testing.TB, f lxdapi.Flavour, cgroup string) rig {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, f, "target %s: needs root", f)
	}
	if _, err := exec.LookPath(f.Daemon()); err != nil {
		cannot(t, f, "target %s: %v", f, err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	images := image.NewSet(nil)
	l := lxd.New(lxd.Options{Flavour: f, Socket: lxd.Private, Images: images, Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")})
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := l.Can(context.Background(), target.Config{Name: "c", Cgroup: cgroup}); err != nil {
		cannot(t, f, "%v", err)
	}
	return rig{l, images}
}

func cannot(t testing.TB, f lxdapi.Flavour, format string, args ...any) {
	t.Helper()
	targettest.Cannot(t, "GPURIG_REQUIRE_"+strings.ToUpper(string(f)), format, args...)
}

// The simulation of LXD is right only if it agrees with LXD: every story, told
// by both, shows the same at every step. Incus has no simulation of its own: it
// does as LXD does.
func TestStoriesAreAsSimulated(t *testing.T) { each(t, storiesAreAsSimulated) }

func storiesAreAsSimulated(t *testing.T, f lxdapi.Flavour) {
	r := requireLXD(t, f, "v1")
	s, err := sim.NewLXD(r.images)
	if err != nil {
		t.Fatal(err)
	}
	targettest.Agree(t, s, r.l, func(t *testing.T, _ *targettest.Story) { t.Parallel() }) // one daemon serves them all
}
