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

// Merge joins the reports of the shards of one run. Each shard must be there
// once, of the same number of shards; no result may be in two, and all together are
// MaxResults at most.
func Merge(parts []Report) (Report, error) {
	if len(parts) == 0 {
		return Report{}, fmt.Errorf("%w: none was given", ErrMerge)
	}
	out := parts[0]
	out.Shard, out.Selection, out.Choices, out.TookMS, out.Values = "", "", nil, 0, nil
	complete := true
	all := 0
	for _, p := range parts {
		if all += len(p.Results); all > MaxResults {
			return Report{}, fmt.Errorf("%w: more than %d results", ErrMerge, MaxResults)
		}
	}
	out.Results = make([]Result, 0, all)
	seen := make(map[string]string, all)
	shards := map[int]bool{}
	others := map[string][]string{} // shards by how their machine differs from that of the first
	var of int
	for i, p := range parts {
		k, n, err := parseShard(p.Shard)
		if err != nil {
			return Report{}, fmt.Errorf("%w: report %d: %w", ErrMerge, i+1, err)
		}
		if p.Selection != parts[0].Selection {
			return Report{}, fmt.Errorf("%w: shard %s is of another run than shard %s: %s", ErrMerge, p.Shard, parts[0].Shard, differ(p, parts[0]))
		}
		if p.Selection != "" && p.Selection != Digest(p.Tool, p.Choices) {
			return Report{}, fmt.Errorf("%w: shard %s: its choices are not those that it was run with", ErrMerge, p.Shard)
		}
		if of == 0 {
			of = n
		}
		if n != of || shards[k] {
			return Report{}, fmt.Errorf("%w: shard %s beside others of %d, or twice", ErrMerge, p.Shard, of)
		}
		shards[k] = true
		if want, known := p.expected(k, n); known && p.Complete && len(p.Results) != want {
			return Report{}, fmt.Errorf("%w: shard %s has %d results, and its run had %d", ErrMerge, p.Shard, len(p.Results), want)
		}
		if how := otherMachine(p, parts[0]); how != "" {
			others[how] = append(others[how], p.Shard)
		}
		if p.Tool != out.Tool {
			return Report{}, fmt.Errorf("%w: made by %q and %q", ErrMerge, out.Tool, p.Tool)
		}
		if p.Started.Before(out.Started) {
			out.Started = p.Started
		}
		complete = complete && p.Complete
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
			if other, ok := seen[r.Key()]; ok {
				return Report{}, fmt.Errorf("%w: %s is in shard %s and in %s", ErrMerge, r.Key(), other, p.Shard)
			}
			seen[r.Key()] = p.Shard
		}
		out.Results = append(out.Results, p.Results...)
	}
	if len(shards) != of {
		return Report{}, fmt.Errorf("%w: only %d of %d shards", ErrMerge, len(shards), of)
	}
	if want := parts[0].Choices[ChosenResults]; want != "" && complete && KeysDigest(maps.Keys(seen)) != want {
		return Report{}, fmt.Errorf("%w: their results are not those that were selected", ErrMerge)
	}
	for _, how := range slices.Sorted(maps.Keys(others)) {
		in := others[how]
		if n := len(in) - 3; n > 0 {
			in = append(in[:3], fmt.Sprintf("%d more", n))
		}
		out.Notes = append(slices.Clip(out.Notes), fmt.Sprintf("shard %s ran elsewhere than shard %s: %s", strings.Join(in, ", "), parts[0].Shard, how))
	}
	out.Finish(complete)
	return out, nil
}

// Names of choices that Merge knows: how many variants were selected, on which
// targets, and a digest of the keys of their results.
const (
	ChosenVariants = "variants"
	ChosenTargets  = "--target"
	ChosenResults  = "results"
)

// KeysDigest names a set of results by their keys.
func KeysDigest(keys iter.Seq[string]) string {
	sum := sha256.New()
	for _, k := range slices.Sorted(keys) {
		fmt.Fprintf(sum, "%q\n", k)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// expected is how many results shard k of n of the run has.
func (r Report) expected(k, n int) (results int, known bool) {
	all, err := strconv.Atoi(r.Choices[ChosenVariants])
	if err != nil {
		return 0, false
	}
	return (all - k + n) / n * (strings.Count(r.Choices[ChosenTargets], ",") + 1), true
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
		if name != ChosenVariants && name != ChosenResults { // which follow from the others
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
