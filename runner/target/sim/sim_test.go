package sim_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"gpurig/fixtures/golden"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

// newSim returns a target whose images are the same on every machine.
func newSim(t testing.TB) *sim.Sim {
	t.Helper()
	s, err := sim.New(image.NewSet(image.Bare{}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The stories have a source that is gone by the start, among others (F20).
func TestStories(t *testing.T) {
	s := newSim(t)
	stories, err := targettest.Stories()
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			seen, err := targettest.Tell(context.Background(), s, story)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/stories/"+strings.ReplaceAll(story.Name, "/", "-")+".txt", []byte(targettest.Text(seen)))
		})
	}
}

// A container that starts from a remembered loader cache, in parallel with
// others, sees what the first one saw.
func TestStoriesAreTheSameTwiceAndInParallel(t *testing.T) {
	s := newSim(t)
	stories, err := targettest.Stories()
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	for _, story := range stories {
		seen, err := targettest.Tell(context.Background(), s, story)
		if err != nil {
			t.Fatal(err)
		}
		first[story.Name] = targettest.Text(seen)
	}
	var wg sync.WaitGroup
	for _, story := range stories {
		wg.Go(func() {
			seen, err := targettest.Tell(context.Background(), s, story)
			if got := targettest.Text(seen); err != nil || got != first[story.Name] {
				t.Errorf("%s differs the second time (%v):\n%s", story.Name, err, got)
			}
		})
	}
	wg.Wait()
}

func TestCallsThatDoNotFitTheState(t *testing.T) {
	ctx := context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	p := targettest.Plan(targettest.Version, false)
	c, err := newSim(t).Create(ctx, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	broken := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, target.ErrBroken) {
			t.Errorf("%s: %v; want target.ErrBroken", what, err)
		}
	}
	broken("stop before start", c.Stop(ctx))
	broken("crash before start", c.Crash(ctx))
	broken("plug before start", c.Plug(ctx, h, p))
	_, err = c.Observe(ctx, observe.Request{})
	broken("observe before start", err)
	if err := c.Start(ctx, h, p); err != nil || !c.Running() {
		t.Fatalf("Start() = %v, Running() = %v", err, c.Running())
	}
	broken("start twice", c.Start(ctx, h, p))
	if err := errors.Join(c.Remove(ctx), c.Remove(ctx)); err != nil || c.Running() {
		t.Errorf("Remove() twice = %v, Running() = %v", err, c.Running())
	}
	broken("start after remove", c.Start(ctx, h, p))
}

func TestCanNamesWhatIsWrong(t *testing.T) {
	s := newSim(t)
	for _, tc := range []struct{ image, cgroup, want string }{
		{"alpine", "v1", `image "alpine"`},
		{"glibc", "v3", `cgroup version "v3"`},
	} {
		err := s.Can(context.Background(), target.Config{Name: "c1", Image: tc.image, Cgroup: tc.cgroup})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Can(%s, %s) = %v; want it to say %s", tc.image, tc.cgroup, err, tc.want)
		}
	}
}

func TestConfigurationIsWhatWasLastGiven(t *testing.T) {
	ctx := context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newSim(t).Create(ctx, target.Config{Name: "c1", Cgroup: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Configuration(); got != "" {
		t.Errorf("Configuration() before start = %q", got)
	}
	if err := c.Start(ctx, h, targettest.Plan(targettest.Version, false)); err != nil {
		t.Fatal(err)
	}
	got := c.Configuration()
	for _, want := range []string{"lxc.cgroup2.devices.deny = a\n", "lxc.cgroup2.devices.allow = c 195:0 rw\n", "dev/nvidia0", "NVIDIA_VISIBLE_DEVICES=void"} {
		if !strings.Contains(got, want) {
			t.Errorf("Configuration() lacks %q:\n%s", want, got)
		}
	}
}
