// Package verdict judges: it compares what a scenario expects with the evidence,
// and says at which station the first difference is.
//
// It starts nothing and looks at nothing by itself: package runner runs the variant
// and passes the Evidence.
package verdict

import (
	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/core/vfio"
	"gpurig/reports"
	"gpurig/runner/observe"
)

// A Station is a place on the path from the scenario to what the container
// sees, in the words of reports.Finding.
type Station string

// The stations, in order. Across is the comparison of two targets.
const (
	Spec          Station = "spec"
	Plan          Station = "plan"
	Configuration Station = "configuration"
	Mounts        Station = "mounts"
	Inside        Station = "inside"
	Host          Station = "host" // what became of it
	Across        Station = "across"
)

var order = map[Station]int{Spec: 0, Plan: 1, Configuration: 2, Mounts: 3, Inside: 4, Host: 5, Across: 6}

// A Warning is something that the product said without refusing.
type Warning struct {
	Reason string `json:"reason"` // a stable word
	Text   string `json:"text"`   // one line
}

// Evidence is what is known of one container at one moment.
type Evidence struct {
	Container string
	Step      string // "2: restart c1"

	// Err is the refusal of the last start or plug, and At where on the path it
	// came; nil: the container got what it asked for.
	Err error
	At  Station

	Warnings      []Warning            // of the last start or plug
	Devices       []string             // qualified names that the CDI Specs offer
	Edits         []cdi.Edits          // that the request was resolved to
	Plan          *plan.Plan           // nil: none was made
	VM            bool                 // it is a virtual machine
	VFIOPlan      *vfio.Plan           // of one, in place of Plan
	Configuration string               // what the target was given, as text
	Native        string               // target whose manager passed the devices itself, so that what is expected of Spec, plan and words of the product does not apply; empty: none did
	NoLines       bool                 // it is not in liblxc's lines: what is expected of those does not apply
	Running       bool                 // whether the container runs
	Seen          *observe.Observation // nil: not running
	Others        map[string]Evidence  // the other containers now, for same-as; may be nil
	Host, Before  *observe.Host        // the host now and before the first step; nil: nobody asked

	// Real returns a path of the container with the links of its image in the
	// directories on the way resolved: where a mount is seen. nil: there are none.
	Real func(path string) string
}

// real is Real, where there is one.
func (ev *Evidence) real(p string) string {
	if ev.Real == nil {
		return p
	}
	return ev.Real(p)
}

// finding makes a Finding of this evidence.
func (ev *Evidence) finding(at Station, what, want, got string) reports.Finding {
	return reports.Finding{Station: string(at), Container: ev.Container, Step: ev.Step, What: what, Want: want, Got: got}
}
