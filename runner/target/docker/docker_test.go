package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) {
	docker.Init()
	targettest.Main(m)
}

// A rig is a target and the images that it uses.
type rig struct {
	d      *docker.Docker
	images *image.Set
}

// requireDocker returns a target, or skips with the reason why this machine has
// none. GPURIG_REQUIRE_DOCKER turns the skip into a failure.
func requireDocker(t testing.TB, c target.Config) rig {
	t.Helper()
	images := image.NewSet(nil)
	opts := docker.Options{Images: images, Probe: os.Args[0], Hook: os.Args[0]}
	if _, err := docker.Open(opts); err != nil { // before anything is built
		cannot(t, "%v", err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	opts.Probe, opts.Hook = filepath.Join(dir, "gpurig-probe"), filepath.Join(dir, "cdi-hook")
	d := docker.New(opts)
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := d.Can(context.Background(), c); err != nil {
		cannot(t, "%v", err)
	}
	return rig{d, images}
}

func cannot(t testing.TB, format string, args ...any) {
	t.Helper()
	targettest.Cannot(t, "GPURIG_REQUIRE_DOCKER", format, args...)
}

// The simulation of Docker is right only if it agrees with Docker: every story,
// told by both, shows the same at every step.
func TestStoriesAreAsSimulated(t *testing.T) {
	r := requireDocker(t, target.Config{Name: "c", Cgroup: "v1"})
	s, err := sim.NewEngine(r.images, observe.Docker)
	if err != nil {
		t.Fatal(err)
	}
	targettest.Agree(t, s, r.d, func(t *testing.T, _ *targettest.Story) { t.Parallel() }) // one engine serves all of a kind
}
