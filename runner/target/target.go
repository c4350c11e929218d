// Package target defines where containers are made: simulated, in real LXC, and so
// on. A target carries out a plan and reports what the container sees; it judges
// nothing.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"gpurig/core/hookspec"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/vfio"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// A Target makes containers.
type Target interface {
	Name() string // "sim", "lxc"
	Capabilities() Capabilities

	// Can says whether this machine can make such a container; the error is a
	// *CannotError with the reason, shown in the report as a skip.
	Can(ctx context.Context, c Config) error

	// Create makes a container that is not running. Remove must be called,
	// also after a later error.
	Create(ctx context.Context, c Config) (Container, error)

	// Close removes whatever all containers of this target share.
	Close(ctx context.Context) error
}

// Capabilities are what holds of every container of a target. With the zero value it
// is compared with no other target, and makes containers that can be all that a
// scenario may expect.
type Capabilities struct {
	// Family is shared by targets whose containers agree entry by entry: "lxc" for
	// those that liblxc makes, "oci-runc" for those of that OCI runtime. Differences
	// between families are no fault of either.
	Family string
	// Manager is the name of the container manager in sentences: "LXD". Empty: none.
	Manager string
	// PlanTarget is the target that has the same manager carry out our plan, "lxd";
	// containers of this one are given the devices themselves, as a Native is. Empty:
	// this one carries out the plan.
	PlanTarget string
	// Simulated says that containers are values in memory.
	Simulated bool
	// LXCLines says that containers are configured by liblxc's lines.
	LXCLines bool
	// Nesting says that there is a word for containers that have containers of their own.
	Nesting bool
	// OnlyVMs says that this is about virtual machines; what stands beside them is simulated.
	OnlyVMs bool
	// PlainDisks says that of a mount's options only "ro" reaches the container.
	PlainDisks bool
	// RootOpensNodes says that the manager makes each node for the container's root,
	// so that no mode keeps it from opening one.
	RootOpensNodes bool
}

// A Config is what a container is made of.
type Config struct {
	Name    string            // letters, digits, "-"
	Image   string            // of package image: "glibc", "musl", "none", …
	Content scenarios.Content // of its root, on top of the image
	Cgroup  string            // "v1" or "v2"
	IDMap   []plan.IDMap      // empty: privileged
	// Nesting lets it have containers of its own, where the target has a word for that.
	Nesting bool
	// Options are those of the instance, nvidia.*, which only a Native is given: the
	// plan has what they mean.
	Options map[string]string
	// Alone has a daemon for the containers that have the same word here, and no
	// other: it is restarted, or its host is. Empty: it serves all. Virtual machines
	// with the same word are on one host, which no other is on.
	Alone string
}

// A Served is a Container of a daemon, which it outlives.
type Served interface {
	Container
	// Daemon is the same for containers of the same daemon; nil: none yet.
	Daemon() any
	// RestartDaemon restarts it in good order; containers go on. A *CannotError says
	// that it is not ours to restart.
	RestartDaemon(ctx context.Context) error
	// RebootHost ends it, and all that is in memory, after its containers were stopped
	// or, in a crash, lost; then it is started on the state that it kept.
	RebootHost(ctx context.Context, crash bool) error
}

// A Container has a root file system that outlives its runs.
type Container interface {
	// Start carries out p on h and starts the container. h is the host as it is
	// now: sources of the plan are paths of its tree.
	Start(ctx context.Context, h Host, p plan.Plan) error
	// Plug carries out p, the plan with one more device, on the running container.
	// A *CannotError says that no container of this target can.
	Plug(ctx context.Context, h Host, p plan.Plan) error
	// Unplug makes the running container fit p, the plan with a device less.
	Unplug(ctx context.Context, h Host, p plan.Plan) error
	// Observe looks at the running container.
	Observe(ctx context.Context, r observe.Request) (observe.Observation, error)
	// Stop stops it in good order; Crash as by power loss: no clean-up runs.
	Stop(ctx context.Context) error
	Crash(ctx context.Context) error
	Running() bool
	// Configuration is what the target was last given, as text a person can
	// read: the lxc.* lines, the JSON of an instance.
	Configuration() string
	// Warnings are what cdi-hook said of the last Start, Plug or Unplug that was
	// carried out.
	Warnings() ([]hookspec.Warning, error)
	// Remove removes it and everything of it, running or not. Twice is once.
	Remove(ctx context.Context) error
}

// A Runner is a Container in which programs of its own can be run.
type Runner interface {
	Container
	// Run runs a program of the running container to its end, as its root. The error says
	// that it could not be run: a *CannotError, or ErrBroken.
	Run(ctx context.Context, p observe.Program) (observe.Ran, error)
}

// A Native is a Container whose manager is given the devices themselves, and looks
// at the host on its own: that manager's implementation is under test.
type Native interface {
	Container
	// Ask says what the next Start, Plug or Unplug is about, all devices of the
	// container by name, each with its options. Plans are not looked at.
	Ask(devices map[string]map[string]string)
}

// A Hypervisor is a Target that makes virtual machines too.
type Hypervisor interface {
	Target
	// VM makes one that is not running, as Create makes a container. The error is
	// a *CannotError where it cannot here.
	VM(ctx context.Context, c Config) (VM, error)
}

// A VM is a Container that is a virtual machine. What it is given is no part of
// the host's any more: the host changes at its start, and is returned at its end.
type VM interface {
	Container
	// Give says what the next Start hands to its monitor. Plans of containers are not
	// looked at.
	Give(p vfio.Plan)
	// LookAtHost looks at the files of the host as the monitor finds them. The machine
	// need not run.
	LookAtHost(ctx context.Context, h Host) (observe.Host, error)
}

// A Sys is a host whose sysfs can be written to, and whose nodes can be opened.
type Sys interface {
	vfio.Sys
	// Open opens a device node for reading and writing and keeps it open until it is
	// closed. That no driver of this machine is behind it is no error.
	Open(path string) (io.Closer, error)
}

// A Host is the machine that plans are carried out on.
type Host struct {
	Root host.Root
	// Sum is a digest of a tree in memory: equal sums, equal trees; empty for other roots. A target that needs
	// real files keeps one copy for each.
	Sum func() string
	// Works returns what is to work of the fake host: its files, by path, each with
	// the file of this machine whose content it then has. Nil: nothing need work. Who
	// simulates does not ask.
	Works func(ctx context.Context) (map[string]string, error)
	// Sys is the host as it changes. Nil: it stays as it is.
	Sys Sys
	// Enter runs programs where the host is the machine that they see. Nil: it is the
	// machine at hand, or only simulated.
	Enter Enter
}

// Enter runs a program to its end with these standard streams. The error says that
// it could not be run, or how it failed.
type Enter func(ctx context.Context, command []string, in, out, errs *os.File) error

// A CannotError says why a target cannot do what a scenario asks for here.
type CannotError struct {
	Target string
	Why    string // "needs root"
	Hint   string // what would make it able, one sentence
}

func (e *CannotError) Error() string { return fmt.Sprintf("target %s: %s", e.Target, e.Why) }

// ErrBroken marks a fault of the harness or the machine, not of the product:
// the verdict is broken.
var ErrBroken = errors.New("could not be judged")
