package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/runner/smoke"
)

// A Smoke is what came of the smoke workload, in what must be alike wherever it ran.
type Smoke struct {
	Step    smoke.Step  `json:"step,omitempty"` // that failed; empty: none did
	Cause   smoke.Cause `json:"cause,omitempty"`
	Code    int         `json:"code,omitempty"`    // the CUresult; zero: none
	Devices []string    `json:"devices,omitempty"` // UUIDs, sorted
	Kernels string      `json:"kernels,omitempty"` // smoke.Pass, or what is wrong with the first that is; empty: none ran
	Reason  string      `json:"reason,omitempty"`  // of a failure, for people; not compared
}

// SmokeOf is a workload's answer as an observation has it.
func SmokeOf(r smoke.Result) *Smoke {
	out := &Smoke{}
	if f := r.Failure; f != nil {
		out.Step, out.Cause, out.Code, out.Reason = f.Step, f.Cause, f.Code, f.Reason
	}
	for _, d := range r.Devices {
		out.Devices = append(out.Devices, d.UUID)
	}
	slices.Sort(out.Devices)
	for _, k := range r.Kernels {
		if out.Kernels == "" || out.Kernels == smoke.Pass {
			out.Kernels = k.Result
		}
	}
	return out
}

// Work asks for the smoke workload.
type Work struct {
	// State is the fake host's, for its libcuda.so.1 (package nvmllib); empty: the
	// libraries are real.
	State string `json:"state,omitempty"`
	// Model is the host, for who foretells what the workload would say.
	Model *host.Model `json:"-"`
}

// A Worker is a View that can run the smoke workload, or foretell what it says.
type Worker interface {
	Smoke(w Work, at Workplace) (smoke.Result, error)
}

// A Workplace is what was seen of a container that matters to the workload.
type Workplace struct {
	Loader string // path of the container's own
	Musl   bool
	CUDA   Library // what the loader finds for the driver's two libraries
	NVML   Library
	Nodes  []Node
}

// lookSmoke has the workload run. A root without a loader runs no program that is not
// static.
func (l *looker) lookSmoke(w *Work) {
	if w == nil {
		return
	}
	worker, ok := l.v.(Worker)
	if !ok {
		l.problem("smoke workload", fmt.Errorf("it cannot run in a %T", l.v))
		return
	}
	loaders, problem := l.loaders()
	if problem != "" {
		l.o.Smoke = &Smoke{Step: smoke.Library, Cause: smoke.NotFound, Reason: problem}
		return
	}
	r, err := worker.Smoke(*w, Workplace{
		Loader: loaders[0].Path, Musl: loaders[0].Musl != "", Nodes: l.o.Nodes,
		CUDA: l.resolve(loaders, "libcuda.so.1"), NVML: l.resolve(loaders, "libnvidia-ml.so.1"),
	})
	if err != nil {
		l.problem("smoke workload", err)
		return
	}
	l.o.Smoke = SmokeOf(r)
}

func (s *Smoke) entry() entry {
	text := "passed"
	if s.Step != "" {
		text = strings.TrimSpace(fmt.Sprintf("%s: %s", s.Step, s.Cause))
	}
	if s.Code != 0 {
		text += fmt.Sprintf(" (%d)", s.Code)
	}
	return entry{"smoke workload", fmt.Sprintf("%s; devices %s; kernels %s", text, cmp.Or(strings.Join(s.Devices, ", "), "none"), cmp.Or(s.Kernels, "none"))}
}

func smokeEntries(s *Smoke) []entry {
	if s == nil {
		return nil
	}
	return []entry{s.entry()}
}
