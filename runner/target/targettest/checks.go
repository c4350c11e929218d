package targettest

import (
	"context"
	"fmt"
	"strings"

	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// DefaultIDMap is that of an ordinary unprivileged container.
func DefaultIDMap() []plan.IDMap { return []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}} }

// Request asks for everything that Plan brings.
func Request() observe.Request {
	r := observe.Request{
		Dirs:    []string{LibDir, "/dev/dri/by-path", "/usr/lib/x86_64-linux-gnu/new/dir"},
		SONAMEs: append([]string{"libnvidia-nothing.so.1"}, libraries...),
		Paths: []string{"/usr/bin/nvidia-smi", "/usr/share/nvidia/nvoptix.bin", "/dev/nvidia1", "/etc/ld.so.cache", "/etc/ld-musl-x86_64.path",
			"/etc/ld.so.conf.d/00-cdi-hook.conf", "/dev/dri", "/opt/deep/er/share", "/opt/deep", "/bin/nvidia-debugdump", "/etc/hostname"},
	}
	return r
}

// A Story is one container's life. Each step does something and may look at the
// result; what it saw is kept under the step's name.
type Story struct {
	Name   string
	Config target.Config
	Steps  []Step
}

// A Step is one thing that happens to a container.
type Step struct {
	Name string
	Do   func(ctx context.Context, c target.Container) error
	Look bool // observe afterwards
}

// A Seen is what one step showed, or the error that it ended with.
type Seen struct {
	Step string
	Err  string
	Obs  observe.Observation
}

// Tell plays a story on a target and returns what was seen at each step. The
// error is a fault of the harness; a refused start is among what was seen.
func Tell(ctx context.Context, t target.Target, s Story) (seen []Seen, err error) {
	if err := t.Can(ctx, s.Config); err != nil {
		return nil, err
	}
	c, err := t.Create(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if rerr := c.Remove(ctx); err == nil && rerr != nil {
			err = fmt.Errorf("remove: %w", rerr)
		}
	}()
	for _, step := range s.Steps {
		one := Seen{Step: step.Name}
		if err := step.Do(ctx, c); err != nil {
			one.Err = err.Error()
		} else if step.Look {
			if one.Obs, err = c.Observe(ctx, Request()); err != nil {
				return seen, fmt.Errorf("%s: %w", step.Name, err)
			}
		}
		seen = append(seen, one)
	}
	return seen, nil
}

// Text renders what was seen, one entry a line: what golden files hold.
func Text(seen []Seen) string {
	var b strings.Builder
	for _, s := range seen {
		fmt.Fprintf(&b, "== %s\n", s.Step)
		if s.Err != "" {
			fmt.Fprintf(&b, "error: %s\n", s.Err)
		}
		for _, d := range observe.Diff(s.Obs, observe.Observation{}) {
			fmt.Fprintf(&b, "%s: %s: %s\n", d.Part, d.What, d.A)
		}
	}
	return b.String()
}
