package podman_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/podman"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) { targettest.Main(m) }

// requirePodman returns a target, or skips with the reason why this machine has none.
// GPURIG_REQUIRE_PODMAN turns the skip into a failure.
func requirePodman(t testing.TB) (*podman.Podman, *image.Set) {
	t.Helper()
	p, images := newPodman(t)
	if err := p.Can(context.Background(), target.Config{Name: "c", Cgroup: "v1"}); err != nil {
		targettest.Cannot(t, "GPURIG_REQUIRE_PODMAN", "%v", err)
	}
	return p, images
}

// newPodman returns a target that has not tried yet whether it can make containers.
func newPodman(t testing.TB) (*podman.Podman, *image.Set) {
	t.Helper()
	images := image.NewSet(nil)
	opts := podman.Options{Images: images, Probe: os.Args[0], Hook: os.Args[0]}
	if _, err := podman.Open(opts); err != nil { // before anything is built
		targettest.Cannot(t, "GPURIG_REQUIRE_PODMAN", "%v", err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	opts.Probe, opts.Hook = filepath.Join(dir, "gpurig-probe"), filepath.Join(dir, "cdi-hook")
	p := podman.New(opts)
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p, images
}

// The simulation of Podman is right only if it agrees with Podman: every story, told
// by both, shows the same at every step.
func TestStoriesAreAsSimulated(t *testing.T) {
	p, images := requirePodman(t)
	s, err := sim.NewEngine(images, observe.Podman)
	if err != nil {
		t.Fatal(err)
	}
	targettest.Agree(t, s, p, func(t *testing.T, story *targettest.Story) {
		if c, ok := errors.AsType[*target.CannotError](p.Can(t.Context(), story.Config)); ok {
			t.Skip(c.Why) // id maps
		}
		t.Parallel()
	})
}

// What Podman lacks, and a Podman that dies, is no answer to a plan.
func TestFaultsAreBroken(t *testing.T) {
	requirePodman(t)
	for name, script := range map[string]string{
		"killed":  "kill -9 $$",
		"a panic": "echo 'panic: runtime error: index out of range' >&2; exit 2",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// The first container is the one that the target tries itself by.
			script := "#!/bin/sh\n[ -e " + dir + "/tried ] || { : >" + dir + "/tried; exec " + path(t, "podman") + " \"$@\"; }\n" + script + "\n"
			if err := os.WriteFile(filepath.Join(dir, "podman"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			p, _ := requirePodman(t)
			c, err := p.Create(t.Context(), target.Config{Name: "c", Image: "none", Cgroup: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Remove(t.Context())
			none := tree.New()
			err = c.Start(t.Context(), target.Host{Root: none, Sum: none.Sum}, plan.Plan{})
			if _, ok := errors.AsType[*target.EndedError](err); !ok || !errors.Is(err, target.ErrBroken) {
				t.Errorf("Start() = %v; want broken, with the end of podman as cause", err)
			}
		})
	}
	t.Run("no container at all", func(t *testing.T) {
		dir := t.TempDir()
		script := "#!/bin/sh\necho 'Error: could not find \"netavark\"' >&2\nexit 125\n"
		if err := os.WriteFile(filepath.Join(dir, "podman"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		p, _ := newPodman(t)
		err := p.Can(t.Context(), target.Config{Name: "c", Image: "none", Cgroup: "v1"})
		if cannot, ok := errors.AsType[*target.CannotError](err); !ok || !strings.Contains(cannot.Why, "netavark") {
			t.Errorf("Can() = %v; want a CannotError that names netavark", err)
		}
	})
}

func path(t *testing.T, program string) string {
	t.Helper()
	p, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A container that ends leaves nothing of Podman: no process, lock, or Spec.
func TestNothingIsLeft(t *testing.T) {
	before := map[string]bool{}
	for _, at := range []string{"/dev/shm/libpod_lock", "/etc/cdi"} {
		_, err := os.Stat(at)
		before[at] = err == nil
	}
	p, _ := requirePodman(t)
	for _, end := range []string{"stop", "crash", "remove"} {
		c, err := p.Create(t.Context(), target.Config{Name: "left", Image: "glibc", Cgroup: "v2"})
		if err != nil {
			t.Fatal(err)
		}
		host, err := targettest.Host(targettest.Version)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context(), host, targettest.Plan(targettest.Version, false)); err != nil {
			t.Fatal(err)
		}
		switch end {
		case "stop":
			err = c.Stop(t.Context())
		case "crash":
			err = c.Crash(t.Context())
		}
		if err := errors.Join(err, c.Remove(t.Context())); err != nil {
			t.Fatalf("%s: %v", end, err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(processes) == 0 {
		t.Fatalf("%d processes, %v", len(processes), err)
	}
	for _, f := range processes {
		if line, _ := os.ReadFile(f); strings.Contains(string(line), "/gpurig-"+strconv.Itoa(os.Getpid())) {
			t.Errorf("left: %s", strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	for _, at := range []string{"/dev/shm/libpod_lock", "/etc/cdi"} {
		if _, err := os.Stat(at); err == nil && !before[at] {
			t.Errorf("left: %s", at)
		}
	}
}
