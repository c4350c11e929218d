// Package quarantine reads the list of results that are known to be bad for now, and
// keeps them from failing a run until their day.
//
//	list:
//	  - scenario: hardware/gpu-computes      # or one variant: mig/x[cgroup=v2]
//	    target: lxc                          # none: every target
//	    until: 2026-12-31                    # the last day
//	    why: the T4 of lab-3 is to be replaced
//
// What is on the list runs all the same. If it does not pass, the result is a skip that
// says what it would be; after its day it is what it is.
package quarantine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"gpurig/core/strictdoc"
	"gpurig/reports"
)

// A List is what is in quarantine. Its methods may be called from several goroutines.
type List struct {
	entries []Entry
	now     time.Time

	mu    sync.Mutex
	used  []bool
	notes []string
}

type document struct {
	List []Entry `yaml:"list"`
}

// An Entry is a scenario that is known to be bad.
type Entry struct {
	Scenario string `yaml:"scenario"`         // name, or name and variant as in a report
	Target   string `yaml:"target,omitempty"` // empty: every target
	Until    string `yaml:"until"`            // the last day, YYYY-MM-DD, in UTC
	Why      string `yaml:"why"`
}

var form = strictdoc.New[document](strictdoc.Options{What: "quarantine list", Bytes: 1 << 20, Entries: 10_000, Words: true})

// Parse reads a list for a run that starts now. The error has every mistake.
func Parse(name string, data []byte, now time.Time) (*List, error) {
	var doc document
	d, ok := form.Read(name, data, &doc)
	if !ok {
		return nil, d.Err()
	}
	for i, e := range doc.List {
		at := strictdoc.Path("list").Item(i)
		if e.Scenario == "" || e.Why == "" {
			d.At(at, "Name the scenario, the last day, and why.", "an entry needs scenario, until and why")
		}
		if _, err := time.Parse(time.DateOnly, e.Until); err != nil && e.Until != "" {
			d.At(at.Key("until"), "", "%q: want a day such as 2026-12-31, after which it counts again", e.Until)
		} else if err != nil {
			d.At(at, "Say when it is looked at again: until: 2026-12-31.", "an entry needs its last day")
		}
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &List{entries: doc.List, now: now, used: make([]bool, len(doc.List))}, nil
}

// over reports whether the last day of an entry is gone.
func (l *List) over(e Entry) bool { return l.now.UTC().Format(time.DateOnly) > e.Until }

// Apply changes the verdict of a result that is in quarantine.
func (l *List) Apply(r *reports.Result) {
	i := slices.IndexFunc(l.entries, func(e Entry) bool {
		return (e.Scenario == r.Scenario || e.Scenario == r.ID()) && (e.Target == "" || e.Target == r.Target)
	})
	if i < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[i] = true
	e := l.entries[i]
	bad := r.Verdict == reports.Fail || r.Verdict == reports.Broken
	switch {
	case bad && l.over(e):
		l.notes = append(l.notes, fmt.Sprintf("%s was in quarantine until %s (%s): its verdict counts again", r.Key(), e.Until, e.Why))
	case bad:
		r.Reason = fmt.Sprintf("in quarantine until %s (%s): %s", e.Until, e.Why, r.Says())
		r.Verdict, r.Findings, r.Evidence = reports.Skip, nil, nil
	case r.Verdict == reports.Pass:
		l.notes = append(l.notes, fmt.Sprintf("%s passes, and is in quarantine until %s: it can leave the list", r.Key(), e.Until))
	}
}

// Notes say what a reader of the report must know of the list, once all has run.
func (l *List) Notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Sorted(slices.Values(l.notes))
	for i, e := range l.entries {
		if !l.used[i] {
			out = append(out, fmt.Sprintf("%s is in quarantine, and nothing of that name was run", e.Scenario))
		}
	}
	return out
}
