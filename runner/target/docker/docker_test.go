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

func TestMain(m *testing.M) { targettest.Main(m) }

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

// cannot skips a test that this machine cannot run, or fails it where the machine
// was to be able to.
func cannot(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("GPURIG_REQUIRE_DOCKER") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// The simulation of Docker is right only if it agrees with Docker: every story,
// told by both, shows the same at every step.
func TestStoriesAreAsSimulated(t *testing.T) {
	r := requireDocker(t, target.Config{Name: "c", Cgroup: "v1"})
	s, err := sim.NewDocker(r.images)
	if err != nil {
		t.Fatal(err)
	}
	stories, err := targettest.Stories()
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			t.Parallel() // one engine serves all of a kind
			ctx := context.Background()
			want, err := targettest.Tell(ctx, s, story)
			if err != nil {
				t.Fatal(err)
			}
			got, err := targettest.Tell(ctx, r.d, story)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, want, got)
		})
	}
}

func compare(t *testing.T, want, got []targettest.Seen) {
	t.Helper()
	for i := range want {
		if (want[i].Err == "") != (got[i].Err == "") {
			t.Errorf("step %d, %s: simulated %q, real %q", i+1, want[i].Step, want[i].Err, got[i].Err)
			continue
		}
		for _, d := range observe.Diff(want[i].Obs, got[i].Obs) {
			t.Errorf("step %d, %s (simulated | real): %s", i+1, want[i].Step, d)
		}
		if got[i].Err != "" {
			t.Logf("step %d: simulated: %s\nreal: %s", i+1, want[i].Err, got[i].Err)
		}
	}
}
