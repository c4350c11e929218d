package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurig/core/show"
)

// A Comparison says what changed between two reports.
type Comparison struct {
	NewlyFailing []Change `json:"newlyFailing"` // pass or skip or absent before, fail now
	NewlyBroken  []Change `json:"newlyBroken"`
	Fixed        []Change `json:"fixed"`               // fail or broken before, pass now
	NewlySkipped []Change `json:"newlySkipped"`        // judged before, skipped now
	Gone         []Change `json:"gone"`                // in the base only
	Added        []Change `json:"added"`               // in the new report only, and passing or skipped
	Differing    []Change `json:"differing,omitempty"` // a manager's own implementation goes another way, and did not
	Changed      []Change `json:"changed"`             // same verdict; Spec, plan or observation differ
	Environment  []string `json:"environment"`         // "lxc: 5.0.2 -> 6.0.1"
	Base         string   `json:"base"`                // what NEW was compared with, a line
}

// A Change is one result that is not as it was.
type Change struct {
	Key    string   `json:"key"`
	Was    Verdict  `json:"was,omitempty"`
	Is     Verdict  `json:"is,omitempty"`
	Detail []string `json:"detail,omitempty"` // findings, reasons, or the stations that changed
}

// Regression reports whether NEW is worse than BASE: something fails or is
// broken that was not, or is no longer judged at all.
func (c Comparison) Regression() bool {
	return len(c.NewlyFailing)+len(c.NewlyBroken)+len(c.NewlySkipped)+len(c.Gone) > 0
}

// Compare compares two reports, result by result.
func Compare(base, now Report) Comparison {
	var c Comparison
	was := make(map[string]*Result, len(base.Results))
	for i := range base.Results {
		was[base.Results[i].Key()] = &base.Results[i]
	}
	for _, r := range now.Results {
		key := r.Key()
		old, had := was[key]
		if !had {
			old = &Result{}
		}
		c.add(key, *old, had, r)
		delete(was, key)
	}
	for key, r := range was {
		c.Gone = append(c.Gone, Change{Key: key, Was: r.Verdict})
	}
	c.Environment = environment(base, now)
	c.Base = fmt.Sprintf("%s of %s UTC: %s", base.Tool, base.Started.UTC().Format(time.DateTime), headline(base))
	slices.SortFunc(c.Differing, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	for _, list := range []*[]Change{&c.NewlyFailing, &c.NewlyBroken, &c.Fixed, &c.NewlySkipped, &c.Gone, &c.Added, &c.Changed} {
		if *list == nil {
			*list = []Change{} // so that JSON has an empty list, not null
		}
		slices.SortFunc(*list, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	}
	return c
}

func (c *Comparison) add(key string, old Result, had bool, r Result) {
	ch := Change{Key: key, Is: r.Verdict}
	if had {
		ch.Was = old.Verdict
	}
	bad := old.Verdict == Fail || old.Verdict == Broken
	switch {
	case r.Verdict == Fail && old.Verdict != Fail:
		for _, f := range r.Findings {
			ch.Detail = append(ch.Detail, f.Text())
		}
		c.NewlyFailing = append(c.NewlyFailing, ch)
	case r.Verdict == Broken && old.Verdict != Broken:
		ch.Detail = []string{r.Reason}
		c.NewlyBroken = append(c.NewlyBroken, ch)
	case !had:
		c.Added = append(c.Added, ch)
	case r.Verdict == Pass && bad:
		c.Fixed = append(c.Fixed, ch)
	case r.Verdict == Skip && old.Verdict != Skip:
		ch.Detail = []string{r.Reason}
		c.NewlySkipped = append(c.NewlySkipped, ch)
	case r.Verdict == Differ && old.Verdict != Differ:
		for _, f := range r.Findings {
			ch.Detail = append(ch.Detail, f.Text())
		}
		c.Differing = append(c.Differing, ch)
	default:
		if ch.Detail = stationChanges(old.Stations, r.Stations); len(ch.Detail) > 0 {
			c.Changed = append(c.Changed, ch)
		}
	}
}

func stationChanges(a, b Stations) []string {
	var out []string
	one := func(name, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("%s %s -> %s", name, orNone(x), orNone(y)))
		}
	}
	one("host", a.Host, b.Host)
	one("spec", a.Spec, b.Spec)
	both := func(kind string, x, y map[string]string) {
		names := map[string]bool{}
		for k := range x {
			names[k] = true
		}
		for k := range y {
			names[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(names)) {
			one(kind+" of "+k, x[k], y[k])
		}
	}
	both("plan", a.Plan, b.Plan)
	both("observation", a.Seen, b.Seen)
	return out
}

func orNone(s string) string { return cmp.Or(s, "none") }

func environment(a, b Report) []string {
	was, is := environmentOf(a), environmentOf(b)
	names := map[string]bool{}
	for k := range was {
		names[k] = true
	}
	for k := range is {
		names[k] = true
	}
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		if was[k] != is[k] {
			out = append(out, fmt.Sprintf("%s: %s -> %s", k, orNone(was[k]), orNone(is[k])))
		}
	}
	return out
}

func environmentOf(r Report) map[string]string {
	m := map[string]string{"tool": r.Tool, "os": r.Machine.OS, "kernel": r.Machine.Kernel, "arch": r.Machine.Arch, "cpus": fmt.Sprint(r.Machine.CPUs)}
	for k, v := range r.Machine.Versions {
		m[k] = v
	}
	if !r.Complete {
		m["run"] = "cut short"
	}
	if len(r.Degraded) > 0 {
		m["degraded"] = strings.Join(r.Degraded, "; ")
	}
	return m
}

// alikeChanges puts changes together that say the same of one scenario, in the order of
// their first.
func alikeChanges(list []Change) [][]Change {
	var out [][]Change
	at := map[string]int{}
	for _, ch := range list {
		key := fmt.Sprintf("%q %q %q %q", scenarioOf(ch.Key), ch.Was, ch.Is, ch.Detail)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], ch)
	}
	return out
}

// scenarioOf is the name of the scenario in the key of a result.
func scenarioOf(key string) string {
	name, _, variant := strings.Cut(key, "[")
	if !variant {
		name, _, _ = strings.Cut(key, " on ")
	}
	return name
}

// changeNames names the results of a group: the first, and some of the others.
func changeNames(group []Change) string {
	const some = 3
	names := []string{group[0].Key}
	for _, ch := range group[1:min(len(group), some)] {
		names = append(names, strings.TrimSpace(strings.TrimPrefix(ch.Key, scenarioOf(ch.Key))))
	}
	if n := len(group) - some; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// Text returns the comparison for a terminal or a log; empty parts are left out.
func (c Comparison) Text() string {
	var b strings.Builder
	part := func(title string, list []Change) {
		if len(list) == 0 {
			return
		}
		show.Fprintf(&b, "%s: %d\n", title, len(list))
		all := alikeChanges(list)
		told := 0
		for i, group := range all {
			ch := group[0]
			if i == maxListed {
				show.Fprintf(&b, "  and %d more: --output json has all\n", len(list)-told)
				break
			}
			told += len(group)
			show.Fprintf(&b, "  %s", clean(changeNames(group)))
			if ch.Was != "" && ch.Is != "" && ch.Was != ch.Is {
				show.Fprintf(&b, " (%s -> %s)", ch.Was, ch.Is)
			}
			show.Fprintln(&b)
			for _, d := range ch.Detail {
				show.Fprintf(&b, "    %s\n", oneLine(d))
			}
		}
	}
	part("newly failing", c.NewlyFailing)
	part("newly broken", c.NewlyBroken)
	part("no longer judged", c.NewlySkipped)
	part("gone", c.Gone)
	part("fixed", c.Fixed)
	part("added", c.Added)
	part("newly differing", c.Differing)
	part("same verdict, but changed on the way", c.Changed)
	if len(c.Environment) > 0 {
		show.Fprintf(&b, "environment: %d\n", len(c.Environment))
		for _, e := range c.Environment {
			show.Fprintf(&b, "  %s\n", clean(e))
		}
	}
	if b.Len() == 0 {
		return "no difference\n"
	}
	return b.String()
}
