package reports

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrMerge marks reports that do not make one run.
var ErrMerge = errors.New("these reports do not make one run")

// Merge joins the reports of the shards of one run, MaxResults results at most. The joined
// report is complete if it has each result that was selected; Notes name the shards that
// are missing or were cut short.
//
// A shard that was run twice, as by a machine that was lost and came back, counts once. A
// result that it has twice with different verdicts has the worse of those that were judged,
// and the warning Flaky. No result may be in two shards.
func Merge(parts []Report) (Report, error) {
	if len(parts) == 0 {
		return Report{}, fmt.Errorf("%w: none was given", ErrMerge)
	}
	all := 0
	for _, p := range parts {
		if all += len(p.Results); all > MaxResults {
			return Report{}, fmt.Errorf("%w: more than %d results", ErrMerge, MaxResults)
		}
	}
	out := parts[0]
	out.Shard, out.Selection, out.Choices, out.TookMS, out.Values = "", "", nil, 0, nil
	out.Results = make([]Result, 0, all)
	at := make(map[string]int, all) // place in out.Results, by key
	in := make([]int, 0, all)       // shard of out.Results
	ends := map[int]bool{}          // by shard: one that was not cut short
	others := map[string][]string{} // shards by how their machine differs from that of the first
	of := 0
	for i, p := range parts {
		k, n, err := parseShard(p.Shard)
		if err != nil {
			return Report{}, fmt.Errorf("%w: report %d: %w", ErrMerge, i+1, err)
		}
		if of = cmp.Or(of, n); n != of {
			return Report{}, fmt.Errorf("%w: shard %s beside others of %d", ErrMerge, p.Shard, of)
		}
		if err := sameRun(p, parts[0]); err != nil {
			return Report{}, fmt.Errorf("%w: %w", ErrMerge, err)
		}
		ends[k] = ends[k] || p.Complete
		if how := otherMachine(p, parts[0]); how != "" {
			others[how] = append(others[how], p.Shard)
		}
		if p.Started.Before(out.Started) {
			out.Started = p.Started
		}
		out.TookMS += p.TookMS
		for _, digest := range slices.Sorted(maps.Keys(p.Values)) {
			out.keep(digest, p.Values[digest])
		}
		out.Allowed = out.Allowed && p.Allowed || len(out.Degraded) == 0 && p.Allowed
		for _, d := range p.Degraded {
			if !slices.Contains(out.Degraded, d) {
				out.Degraded = append(slices.Clip(out.Degraded), d)
			}
		}
		for _, r := range p.Results {
			j, twice := at[r.Key()]
			switch {
			case !twice:
				at[r.Key()] = len(out.Results)
				out.Results, in = append(out.Results, r), append(in, k)
			case in[j] != k:
				return Report{}, fmt.Errorf("%w: %s is in shard %d/%d and in %s", ErrMerge, r.Key(), in[j], of, p.Shard)
			default:
				out.Results[j] = worse(out.Results[j], r)
			}
		}
	}
	out.Notes = slices.Clip(out.Notes)
	complete := true
	note := func(shards []string, format string, args ...any) {
		if n := len(shards) - 3; n > 0 {
			shards = append(shards[:3:3], fmt.Sprintf("%d more", n))
		}
		if len(shards) > 0 {
			out.Notes = append(out.Notes, "shard "+strings.Join(shards, ", ")+" "+fmt.Sprintf(format, args...))
		}
	}
	want := parts[0].Choices[ChosenResults]
	if whole := want != "" && KeysDigest(maps.Keys(at)) == want; !whole {
		var missing, cut []string
		for k := 1; k <= of; k++ {
			if end, there := ends[k]; !there {
				missing = append(missing, fmt.Sprintf("%d/%d", k, of))
			} else if !end {
				cut = append(cut, fmt.Sprintf("%d/%d", k, of))
			}
		}
		complete = len(missing)+len(cut) == 0
		if complete && want != "" {
			return Report{}, fmt.Errorf("%w: their %d results are not those that were selected", ErrMerge, len(at))
		}
		note(missing, "is missing: nothing of it was judged")
		note(cut, "was cut short: the rest of it was not judged")
	}
	for _, how := range slices.Sorted(maps.Keys(others)) {
		note(others[how], "ran elsewhere than shard %s: %s", parts[0].Shard, how)
	}
	out.Finish(complete)
	return out, nil
}

// sameRun says what a part was run with, and the first was not.
func sameRun(p, first Report) error {
	switch {
	case p.Selection != first.Selection:
		return fmt.Errorf("shard %s is of another run than shard %s: %s", p.Shard, first.Shard, differ(p, first))
	case p.Selection != "" && p.Selection != Digest(p.Tool, p.Choices):
		return fmt.Errorf("shard %s: its choices are not those that it was run with", p.Shard)
	case p.Tool != first.Tool:
		return fmt.Errorf("made by %q and %q", first.Tool, p.Tool)
	}
	return nil
}

// worse joins what two runs of the same say: a judgement counts more than none, and of two
// the worse.
func worse(a, b Result) Result {
	order := []Verdict{Skip, Broken, Pass, Differ, Fail}
	if slices.Index(order, a.Verdict) > slices.Index(order, b.Verdict) {
		a, b = b, a
	}
	if a.Verdict != b.Verdict {
		b.AddFlaky(a)
	}
	return b
}

// ChosenResults is the choice that Merge knows: a digest of the keys of all results that
// the run is to have.
const ChosenResults = "results"

// KeysDigest names a set of results by their keys.
func KeysDigest(keys iter.Seq[string]) string {
	sum := sha256.New()
	for _, k := range slices.Sorted(keys) {
		fmt.Fprintf(sum, "%q\n", k)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// otherMachine says how the machine of a part differs from that of another, in what
// results depend on; empty: it does not.
func otherMachine(p, other Report) string {
	is, was := environmentOf(p), environmentOf(other)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if k != "run" && k != "degraded" && k != "cpus" && is[k] != was[k] {
			out = append(out, fmt.Sprintf("%s %s, not %s", k, is[k], orNone(was[k])))
		}
	}
	return strings.Join(out, "; ")
}

// Digest names what was chosen for a run: Report.Selection.
func Digest(tool string, choices map[string]string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", tool)
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		fmt.Fprintf(sum, "%q %q\n", name, choices[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// differ says what a part was run with, and another was not.
func differ(p, other Report) string {
	var out []string
	add := func(name, is, was string) {
		if is != was {
			out = append(out, fmt.Sprintf("%s: %s, not %s", name, cmp.Or(is, "none"), cmp.Or(was, "none")))
		}
	}
	add("made by", p.Tool, other.Tool)
	names := maps.Clone(p.Choices)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, other.Choices)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != ChosenResults { // which follow from the others
			add(name, p.Choices[name], other.Choices[name])
		}
	}
	return cmp.Or(strings.Join(out, "; "), "another selection")
}

func parseShard(s string) (k, n int, err error) {
	if s == "" {
		return 0, 0, errors.New("it is of a whole run, no shard")
	}
	a, b, ok := strings.Cut(s, "/")
	k, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || k < 1 || k > n {
		return 0, 0, fmt.Errorf("shard %q is not K/N", s)
	}
	return k, n, nil
}
