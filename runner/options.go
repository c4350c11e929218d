// Package runner runs scenarios: for each variant of a scenario, on each
// target, it applies the changes to a host, makes CDI Specs and plans as the
// product under test does, has the target start containers, observes them and
// passes the evidence to package verdict.
//
// Every value on the way is kept (see Trace). Package scenarios defines what a
// scenario may contain, targets make containers, package verdict judges, and
// package reports writes reports.
package runner

import (
	"context"
	"errors"
	"runtime"
	"time"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/fault"
	"gpurig/reports"
	"gpurig/runner/quarantine"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
)

// A SpecSource makes the NVIDIA CDI Spec of a host; *specgen.Generator is one.
// The Spec of an equal request is equal, and is not changed by who gets it.
type SpecSource interface {
	Generate(ctx context.Context, r specgen.Request) (*nvidia.Result, error)
}

// A HostSource knows hosts by the names that scenarios use.
type HostSource interface {
	// Host returns the model of a profile. The file is that of the scenario,
	// beside which a path is meant.
	Host(name, scenarioFile string) (host.Model, error)
}

// A RecordingSource is a HostSource that knows recorded hosts as well.
type RecordingSource interface {
	// Recording returns the text of a recorded host, whose model Host returns;
	// empty for a host that is made of its model alone.
	Recording(name, scenarioFile string) (string, error)
}

// A FaultSource is a HostSource whose hosts can be broken.
type FaultSource interface {
	// Faults returns what lies over the host that Host returns.
	Faults(name, scenarioFile string) (fault.List, error)
}

// Options adjust a run. Targets, Specs and Hosts are required.
type Options struct {
	Targets []target.Target
	Specs   SpecSource
	Hosts   HostSource
	// Hardware is the machine at hand, which takes the place of every host; nil:
	// hosts are fake. Variants go through OnHardware first.
	Hardware *Hardware
	Jobs     int           // scenarios at a time; zero: one for each processor
	Shard    Shard         // zero: everything
	Faults   fault.List    // over every host, beside the scenario's own; a host that cannot have them skips
	Timeout  time.Duration // of one scenario on one target, where it does not say; zero: two minutes
	// Retries is how often a result that failed or is broken is run again. If it passes
	// then, it is reports.Flaky.
	Retries int
	// Quarantine keeps known failures from failing the run; nil: none.
	Quarantine *quarantine.List
	// Flags are what the command that runs a result again has beside scenario, faults
	// and target: "--hardware".
	Flags []string
	// Result is called with each result as it comes, from one goroutine at a
	// time; nil: only the report has them.
	Result func(reports.Result)
	// Trace is called with the whole path of each result, likewise; nil: paths
	// are not kept.
	Trace func(Trace)
	// Failed is called with each run that failed or is broken, as soon as it ends, whatever
	// becomes of its result; likewise.
	Failed func(Trace)
}

func (o Options) check() error {
	switch {
	case len(o.Targets) == 0:
		return errors.New("no target to run on")
	case o.Hardware == nil && (o.Specs == nil || o.Hosts == nil):
		return errors.New("a run needs a source of Specs and one of hosts")
	case o.Hardware != nil && len(o.Faults) > 0:
		return errors.New("faults are for fake hosts: nothing is broken on a real machine")
	}
	return o.Shard.check()
}

func (o Options) jobs() int {
	if o.Jobs > 0 {
		return o.Jobs
	}
	return runtime.NumCPU()
}

func (o Options) timeout() time.Duration {
	if o.Timeout > 0 {
		return o.Timeout
	}
	return 2 * time.Minute
}
