package targettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// Survives kills the helper processes of a target, before each step of a container's life
// and in it. The step is then carried out all the same, or is target.ErrBroken
// with the cause, which is one of words; never is it an answer of the product's. The next
// container finds all that it needs. helper is what a process is called, or an argument
// that it has. Every second case is tried, all with GPURIG_FAULTS=1 (make faults).
func Survives(t *testing.T, d target.Target, c target.Config, helper string, words ...string) {
	t.Helper()
	h, err := Host(Version)
	if err != nil {
		t.Fatal(err)
	}
	one, two := Plan(Version, false), Plan(Version, true)
	var ctr target.Container
	var seen observe.Observation
	plugs := true
	look := func(ctx context.Context) (err error) { seen, err = ctr.Observe(ctx, Request()); return err }
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"create", func(ctx context.Context) (err error) { ctr, err = d.Create(ctx, c); return err }},
		{"start", func(ctx context.Context) error { return ctr.Start(ctx, h, one) }},
		{"observe", look},
		{"plug", func(ctx context.Context) error {
			err := ctr.Plug(ctx, h, two)
			if _, cannot := errors.AsType[*target.CannotError](err); cannot {
				plugs = false
				return nil
			}
			return err
		}},
		{"stop", func(ctx context.Context) error { return ctr.Stop(ctx) }},
		{"start again", func(ctx context.Context) error { return ctr.Start(ctx, h, one) }},
		{"crash", func(ctx context.Context) error { return ctr.Crash(ctx) }},
		{"remove", func(ctx context.Context) error { return ctr.Remove(ctx) }},
	}
	whole := func() (observe.Observation, error) {
		ctr, seen = nil, observe.Observation{}
		for _, s := range steps {
			if err := s.do(t.Context()); err != nil {
				if ctr != nil {
					err = errors.Join(err, ctr.Remove(t.Context()))
				}
				return seen, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return seen, nil
	}
	sound, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	cases := len(helper)
	for i, step := range steps {
		whens := []string{"before", "in"}
		switch step.name {
		case "plug":
			if !plugs {
				continue
			}
		case "start", "stop":
		default: // it takes no time
			whens = whens[:1]
		}
		for _, when := range whens {
			if cases++; cases%2 == 0 && os.Getenv("GPURIG_FAULTS") == "" {
				continue
			}
			t.Run(helper+" killed "+when+" "+step.name, func(t *testing.T) {
				ctr = nil
				for _, s := range steps[:i] {
					if err := s.do(t.Context()); err != nil {
						t.Fatalf("%s: %v", s.name, err)
					}
				}
				var err error
				for k, s := range steps[i:] {
					var done func() int
					switch {
					case k > 0:
					case when == "in":
						done = killWhile(t, helper)
					default:
						t.Logf("%d killed", killAll(t, helper))
					}
					if err = s.do(t.Context()); err != nil {
						err = fmt.Errorf("%s: %w", s.name, err)
					}
					if done != nil {
						t.Logf("%d killed", done())
					}
					if err != nil {
						break
					}
				}
				t.Logf("the container: %v", err)
				named := func(w string) bool { return err != nil && strings.Contains(err.Error(), w) }
				if err != nil && (!errors.Is(err, target.ErrBroken) || !slices.ContainsFunc(words, named)) {
					t.Errorf("%v; want no error, or one that is broken and says one of %q", err, words)
				}
				if diff := observe.Diff(sound, seen); err == nil && len(diff) > 0 {
					t.Errorf("the container has changed: %v", diff[0])
				}
				if ctr != nil {
					_ = ctr.Remove(t.Context()) // as far as that goes
				}
				if _, err := whole(); err != nil {
					t.Errorf("the next container: %v", err)
				}
			})
		}
	}
}

// killWhile kills the first helpers that there are from now on, until done is called.
func killWhile(t *testing.T, helper string) (done func() int) {
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for n == 0 {
			select {
			case <-end:
				ended <- n
				return
			default:
				n = killAll(t, helper)
			}
		}
		<-end
		ended <- n
	}()
	return func() int { close(end); return <-ended }
}

// killAll kills the descendants of this process that are helpers, and waits for their
// ends.
func killAll(t *testing.T, helper string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		args, err := os.ReadFile(dir + "/cmdline")
		words := strings.Split(string(args), "\x00")
		if err != nil || filepath.Base(words[0]) != helper && !strings.HasPrefix(words[0], helper+" ") && !slices.Contains(words[1:], helper) || !descends(pid) {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			continue // it was faster
		}
		n++
		for range 500 {
			if state, _ := status(pid); state == "" || state == "Z" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return n
}

// status returns the state and the parent of a process.
func status(pid int) (state string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

func descends(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		_, pid = status(pid)
	}
	return pid == os.Getpid()
}
