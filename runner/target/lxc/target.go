package lxc

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"gpurig/core/emit/lxc"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/sandbox"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images *image.Set // nil: made from this machine
	Probe  string     // gpurig-probe; empty: beside our own program
	Hook   string     // cdi-hook; empty: beside our own program
}

// An LXC is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type LXC struct {
	*foreground.Sandboxes
	able func() (programs, *target.CannotError) // the programs, or why there can be no container
}

var _ target.Target = (*LXC)(nil)

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *LXC {
	l := &LXC{able: sync.OnceValues(func() (programs, *target.CannotError) { return find(opts) })}
	l.Sandboxes = foreground.NewSandboxs(opts.Images, l.open)
	return l
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all: no root, or a program is missing. Whether it can make one of
// a cgroup version only Can knows, since that takes setting one up.
func Open(opts Options) (*LXC, error) {
	l := New(opts)
	if _, err := l.able(); err != nil {
		return nil, err
	}
	return l, nil
}

// Name is part of target.Target.
func (l *LXC) Name() string { return "lxc" }

// Capabilities is part of target.Target.
func (l *LXC) Capabilities() target.Capabilities {
	return target.Capabilities{Family: "lxc", LXCLines: true}
}

// programs are what is run, by absolute path.
type programs struct {
	sandbox.Programs
	start, cgroup string
	version       lxc.Version
}

// runtimeDir is where liblxc keeps its locks.
const runtimeDir = "/run/lxc"

// find looks for the programs.
func find(o Options) (programs, *target.CannotError) {
	const hint = "install LXC: apt-get install lxc"
	var p programs
	var cerr *target.CannotError
	p.Programs, cerr = sandbox.Find("lxc", o.Probe, o.Hook,
		sandbox.Tool{Name: "lxc-start", Hint: hint, Path: &p.start}, sandbox.Tool{Name: "lxc-cgroup", Hint: hint, Path: &p.cgroup})
	if cerr != nil {
		return p, cerr
	}
	var err error
	if p.version, err = versionOf(p.start); err != nil {
		return p, &target.CannotError{Target: "lxc", Why: err.Error(), Hint: hint}
	}
	return p, nil
}

// versionOf asks lxc-start for its version.
func versionOf(start string) (lxc.Version, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, start, "--version").Output()
	if err == nil {
		var v lxc.Version
		if v, err = lxc.ParseVersion(strings.TrimSpace(string(out))); err == nil {
			return v, nil
		}
	}
	return lxc.Version{}, fmt.Errorf("%s --version: %w", start, err)
}

// Installed returns the version of the LXC on the path; ok is false where there
// is none that says it.
func Installed() (v lxc.Version, ok bool) {
	start, err := exec.LookPath("lxc-start")
	if err != nil {
		return v, false
	}
	v, err = versionOf(start)
	return v, err == nil
}

// open sets up what containers of one cgroup version share.
func (l *LXC) open(cgroup string) (*sandbox.Sandbox, *target.CannotError) {
	p, cannot := l.able()
	if cannot == nil {
		cannot = liblxc.Can("lxc", cgroup, p.version)
	}
	if cannot != nil {
		return nil, cannot
	}
	w, err := sandbox.Open(cgroup, runtimeDir, p.Programs)
	if err != nil {
		return nil, &target.CannotError{Target: "lxc", Why: err.Error()}
	}
	return w, nil
}

// Create is part of target.Target.
func (l *LXC) Create(ctx context.Context, c target.Config) (target.Container, error) {
	base, err := l.Sandboxes.Create(ctx, c)
	if err != nil {
		return nil, err
	}
	prog, _ := l.able() // there is a container
	ctr := &Container{Container: base, prog: prog}
	base.Program = ctr
	return ctr, nil
}
