// Package reports has the report of a run, its renderers, the comparison of two
// reports, and the merging of shards. A Report is plain data, and all renderers
// use only that.
package reports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Schema is the version of the JSON form.
const Schema = 1

// A Report is one run of gpurig.
type Report struct {
	Schema  int       `json:"schema"`
	Tool    string    `json:"tool"` // "gpurig v0.1.0"
	Started time.Time `json:"started"`
	TookMS  float64   `json:"took_ms,omitempty"` // of the whole run; of merged parts all together
	CI      CI        `json:"ci,omitzero"`
	Machine Machine   `json:"machine"`
	Notes   []string  `json:"notes,omitempty"` // what a reader must know of the run, a sentence each
	// Degraded is what is lost or broken on a real machine that the run was on, a line
	// each: its results are of what is left.
	Degraded []string `json:"degraded,omitempty"`
	// Allowed says that such a machine was accepted.
	Allowed bool   `json:"degradedAllowed,omitempty"`
	Shard   string `json:"shard,omitempty"` // "2/5"
	// Selection is a digest of all that was selected, of which the shard is a part:
	// shards of different runs have different ones. Empty: the report is no shard.
	Selection string `json:"selection,omitempty"`
	// Choices are what the digest is of beside Tool, by name: "--target": "sim,lxc".
	Choices  map[string]string `json:"choices,omitempty"`
	Complete bool              `json:"complete"` // false: the run was cut short
	Totals   Totals            `json:"totals"`
	// Values are texts of results that did not pass, by digest: the scenario, a Spec, a
	// plan. There are MaxValues bytes of them at most; of what has no room the name stands
	// in the result.
	Values  map[string]string `json:"values,omitempty"`
	Results []Result          `json:"results"` // by scenario, variant, target

	size int // of Values, in bytes, as Keep adds to them
}

// CI is the job that made the run, of GitHub or GitLab; zero: none did.
type CI struct {
	Commit string `json:"commit,omitempty"`
	Link   string `json:"link,omitempty"` // of its page, https
}

// A Machine is where the run took place.
type Machine struct {
	OS       string            `json:"os"`
	Kernel   string            `json:"kernel"`
	Arch     string            `json:"arch"`
	Product  string            `json:"product,omitempty"` // as its firmware names it
	CPUs     int               `json:"cpus"`
	GPUs     []string          `json:"gpus,omitempty"`     // of a run on hardware, a line each
	Versions map[string]string `json:"versions,omitempty"` // "go", "lxc", "nvidia-container-toolkit", …
}

// Totals count results by verdict. They add up to len(Results).
type Totals struct {
	Pass   int `json:"pass"`
	Fail   int `json:"fail"`
	Broken int `json:"broken"`
	Skip   int `json:"skip"`
	Differ int `json:"differ,omitempty"`
}

// A Verdict is one of five. Broken is never folded into fail.
type Verdict string

// The verdicts. Differ is for targets whose manager passes GPUs by itself: its
// implementation is under test there, not ours.
const (
	Pass   Verdict = "pass"
	Fail   Verdict = "fail"   // the product is wrong
	Broken Verdict = "broken" // we could not judge
	Skip   Verdict = "skip"   // this machine cannot, and why
	Differ Verdict = "differ" // the manager's own implementation does it another way
)

// A Result is one scenario, in one variant of its matrix, on one target.
type Result struct {
	Scenario   string            `json:"scenario"`          // path below the scenarios folder, without ".yaml": "mig/one-of-two"
	Title      string            `json:"title"`             // its first comment
	Variant    map[string]string `json:"variant,omitempty"` // matrix keys: {"cgroup": "v2"}
	Host       string            `json:"host"`              // profile
	Target     string            `json:"target"`            // "sim", "lxc", …
	Labels     []string          `json:"labels,omitempty"`
	File       string            `json:"file,omitempty"` // of the scenario; a shipped one's below the scenarios folder
	Line       int               `json:"line,omitempty"` // there: of what is not as expected first, else 1
	Run        string            `json:"run,omitempty"`  // the command that runs this result again
	Verdict    Verdict           `json:"verdict"`
	Reason     string            `json:"reason,omitempty"`   // why it is skip or broken
	Evidence   []string          `json:"evidence,omitempty"` // lines that tell more of why it is broken: the end of a daemon's log
	Notes      []string          `json:"notes,omitempty"`    // steps that do not apply to the target, and why
	Warnings   []Warning         `json:"warnings,omitempty"` // of containers that started, by step
	DurationMS float64           `json:"duration_ms"`
	Findings   []Finding         `json:"findings,omitempty"`
	Stations   Stations          `json:"stations"`
	Values     []Value           `json:"values,omitempty"` // what it went through, where it did not pass
	Across     []Agreement       `json:"across,omitempty"` // with what was seen on other targets of its kind
}

// A Value is one of Report.Values: "plan for c1, step 1: start c1".
type Value struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// MaxValues is how many bytes of values a report keeps.
const MaxValues = 4 << 20

// Keep adds a value to the report and to a result that did not pass.
func (r *Report) Keep(res *Result, name, text string) {
	sum := sha256.Sum256([]byte(text))
	v := Value{name, hex.EncodeToString(sum[:6])}
	if slices.ContainsFunc(res.Values, func(o Value) bool { return o.Digest == v.Digest }) {
		return // as at the step before
	}
	res.Values = append(res.Values, v)
	r.keep(v.Digest, text)
}

// Full reports whether there is hardly room for another value.
func (r *Report) Full() bool { return r.size > MaxValues-MaxValues/16 }

// keep adds a value where there is room.
func (r *Report) keep(digest, text string) {
	if _, has := r.Values[digest]; has || r.size+len(text) > MaxValues {
		return
	}
	if r.Values == nil {
		r.Values = map[string]string{}
	}
	r.Values[digest] = text
	r.size += len(text)
}

// A Warning is what the product did not get as it was planned, in a container that it
// let start, or that a result is Flaky.
type Warning struct {
	Reason    string `json:"reason"`    // "library-shadowed"
	Container string `json:"container"` // empty where it is Flaky
	Step      string `json:"step"`      // "1: start c1"; likewise
	Text      string `json:"text"`
}

// Line is the warning on one line.
func (w Warning) Line() string {
	if w.Container == "" {
		return w.Reason + ": " + w.Text
	}
	return fmt.Sprintf("%s: %s, step %s: %s", w.Reason, w.Container, w.Step, w.Text)
}

// An Agreement is what was seen of one scenario on two targets whose containers must be
// alike, entry by entry: a node, a mount, a link, a library, whether it runs. Each
// entry that differs is a finding.
type Agreement struct {
	With    string `json:"with"`    // the other target
	Entries int    `json:"entries"` // that were compared
	Agree   int    `json:"agree"`
}

// A Finding is one thing that is not as expected. A result that failed or differs
// has at least one; a passed one has none.
type Finding struct {
	Station   string `json:"station"` // first station of the path that differs: "spec", "plan", "configuration", "mounts", "inside", "host", "across"
	Container string `json:"container,omitempty"`
	Step      string `json:"step,omitempty"` // "2: restart c1"
	What      string `json:"what"`           // the thing: "/dev/nvidia-uvm"
	Want      string `json:"want"`
	Got       string `json:"got"`
	Line      int    `json:"line,omitempty"` // of the scenario's file, that expects it
	Next      string `json:"next,omitempty"` // the command that shows where to look next, a comment behind it
}

// Stations are digests (SHA-256, hex, 12 characters) of the values along the
// path, so that two reports tell what changed between them.
type Stations struct {
	Host string            `json:"host,omitempty"`
	Spec string            `json:"spec,omitempty"`
	Plan map[string]string `json:"plan,omitempty"` // by container
	Seen map[string]string `json:"seen,omitempty"` // by container
}
