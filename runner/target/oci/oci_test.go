package oci_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gpurig/fakehw/mntns"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/oci"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) {
	mntns.Init()
	targettest.Main(m)
}

// A rig is a target and the images that it uses.
type rig struct {
	t      *oci.OCI
	images *image.Set
}

// requireOCI returns a target, or skips with the reason why this machine has
// none. GPURIG_REQUIRE_OCI turns the skip into a failure.
func requireOCI(t testing.TB, runtime string) rig {
	t.Helper()
	images := image.NewSet(nil)
	opts := oci.Options{Images: images, Runtime: runtime, Probe: os.Args[0], Hook: os.Args[0]}
	if _, err := oci.Open(opts); err != nil { // before anything is built
		cannot(t, "%v", err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	opts.Probe, opts.Hook = filepath.Join(dir, "gpurig-probe"), filepath.Join(dir, "cdi-hook")
	o := oci.New(opts)
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := o.Can(context.Background(), target.Config{Name: "c", Cgroup: "v1"}); err != nil {
		cannot(t, "%v", err)
	}
	return rig{o, images}
}

func cannot(t testing.TB, format string, args ...any) {
	t.Helper()
	targettest.Cannot(t, "GPURIG_REQUIRE_OCI", format, args...)
}

// The simulation is right only if it agrees with the runtimes: every story, told
// by both, shows the same at every step.
func TestStoriesAreAsSimulated(t *testing.T) {
	for _, runtime := range oci.Runtimes {
		t.Run(runtime, func(t *testing.T) {
			r := requireOCI(t, runtime)
			s, err := sim.NewOCI(r.images, runtime)
			if err != nil {
				t.Fatal(err)
			}
			targettest.Agree(t, s, r.t, func(t *testing.T, story *targettest.Story) {
				if c, ok := errors.AsType[*target.CannotError](r.t.Can(t.Context(), story.Config)); ok {
					t.Skip(c.Why) // crun on cgroup v2, without CAP_SYS_RESOURCE
				}
			})
		})
	}
}
