package runner

import (
	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/vfio"
	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A Trace is the whole path of one variant on one target: every station as a
// value. It shares what it holds with the run: read it, do not change it.
type Trace struct {
	Variant scenarios.Variant `json:"variant"`
	Target  string            `json:"target"`
	Steps   []StepTrace       `json:"steps"`
	Result  reports.Result    `json:"result"`
}

// A StepTrace is one step. Step 0 is the host before anything happens.
type StepTrace struct {
	Step       string           `json:"step"`           // "2: restart c1"
	Host       *host.Model      `json:"host,omitempty"` // the host as discovered after the step, where the step changed it
	Containers []ContainerTrace `json:"containers,omitempty"`
	Looked     *observe.Host    `json:"looked,omitempty"` // what was judged of the host; nil: nothing
}

// A ContainerTrace is what became of one container in one step. Stations that
// the step did not touch are nil.
type ContainerTrace struct {
	Container     string               `json:"container"`
	Specs         []cdi.Source         `json:"-"`
	Warnings      []verdict.Warning    `json:"warnings,omitempty"`
	Edits         []cdi.Edits          `json:"-"`
	Plan          *plan.Plan           `json:"plan,omitempty"`
	VFIOPlan      *vfio.Plan           `json:"machine,omitempty"` // of a virtual machine, in place of Plan
	Configuration string               `json:"configuration,omitempty"`
	Seen          *observe.Observation `json:"seen,omitempty"`
	Error         string               `json:"error,omitempty"`
	At            verdict.Station      `json:"at,omitempty"` // where Error came
}
