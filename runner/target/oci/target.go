// Package oci is the target that makes containers by an OCI runtime, runc or
// crun: a bundle with a configuration of ours, the edits of package core/emit/oci in
// it, and the probe as first process.
//
// What an engine would do beyond that is done here: before each start cdi-hook
// undoes what an earlier one left. Nothing can be plugged into or
// unplugged from a running container, since no runtime supports that.
//
// Inject starts a container the other way, by the CDI reference implementation
// and the hooks that the Spec names, to compare the two.
//
// It runs in a namespace of package sandbox and needs root.
package oci

import (
	"context"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/sandbox"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images  *image.Set // nil: made from this machine
	Probe   string     // gpurig-probe; empty: beside our own program
	Hook    string     // cdi-hook; empty: beside our own program
	Runtime string     // "runc" or "crun"; empty: the first that is installed
}

// An OCI is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type OCI struct {
	*foreground.Sandboxes
	runtime string                                 // "runc" or "crun"
	able    func() (programs, *target.CannotError) // the programs, or why there can be no container
}

var _ target.Target = (*OCI)(nil)

// Runtimes are those that are known here, the one to be preferred first.
var Runtimes = []string{"runc", "crun"}

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *OCI {
	if opts.Runtime == "" {
		opts.Runtime = Runtimes[0]
		for _, r := range Runtimes {
			if _, err := exec.LookPath(r); err == nil {
				opts.Runtime = r
				break
			}
		}
	}
	t := &OCI{runtime: opts.Runtime, able: sync.OnceValues(func() (programs, *target.CannotError) { return find(opts) })}
	t.Sandboxes = foreground.NewSandboxs(opts.Images, t.open)
	return t
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all.
func Open(opts Options) (*OCI, error) {
	t := New(opts)
	if _, err := t.able(); err != nil {
		return nil, err
	}
	return t, nil
}

// Name is part of target.Target.
func (t *OCI) Name() string { return "oci" }

// Capabilities is part of target.Target.
func (t *OCI) Capabilities() target.Capabilities {
	return target.Capabilities{Family: "oci-" + t.runtime}
}

// programs are what is run, by absolute path.
type programs struct {
	sandbox.Programs
	runtime string
}

// find looks for the programs.
func find(o Options) (programs, *target.CannotError) {
	var p programs
	var cannot *target.CannotError
	p.Programs, cannot = sandbox.Find("oci", o.Probe, o.Hook,
		sandbox.Tool{Name: o.Runtime, Hint: "install an OCI runtime: apt-get install runc crun", Path: &p.runtime})
	return p, cannot
}

// mayLoadRules says what keeps crun from loading device rules for cgroup v2: it
// raises the limit of locked memory first, and gives up where it may not.
func mayLoadRules() string {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Max == unix.RLIM_INFINITY {
		return ""
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: l.Cur, Max: unix.RLIM_INFINITY}); err != nil {
		return "crun raises RLIMIT_MEMLOCK for the device rules of cgroup v2, and this machine does not allow that (no CAP_SYS_RESOURCE)"
	}
	// Back to what it was: lowering a limit cannot fail.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l)
	return ""
}

// open sets up what containers of one cgroup version share.
func (t *OCI) open(cgroup string) (*sandbox.Sandbox, *target.CannotError) {
	p, cannot := t.able()
	if cannot != nil {
		return nil, cannot
	}
	if t.runtime == "crun" && cgroup == "v2" {
		if why := mayLoadRules(); why != "" {
			return nil, &target.CannotError{Target: "oci", Why: why, Hint: "install runc, or use cgroup v1"}
		}
	}
	w, err := sandbox.Open(cgroup, "", p.Programs)
	if err != nil {
		return nil, &target.CannotError{Target: "oci", Why: err.Error()}
	}
	return w, nil
}

// Create is part of target.Target.
func (t *OCI) Create(ctx context.Context, c target.Config) (target.Container, error) {
	base, err := t.Sandboxes.Create(ctx, c)
	if err != nil {
		return nil, err
	}
	prog, _ := t.able() // there is a container
	ctr := &Container{Container: base, runtime: t.runtime, program: prog.runtime}
	base.Program = ctr
	return ctr, nil
}
