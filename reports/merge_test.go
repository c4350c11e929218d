package reports_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpurig/reports"
)

// fleet are the reports of n shards of one run of many results, all of which passed.
func fleet(n, results int) []reports.Report {
	parts := make([]reports.Report, n)
	var keys []string
	for i := range results {
		r := reports.Result{Scenario: fmt.Sprintf("area/s%05d", i), Host: "t4-server", Target: "sim", Verdict: reports.Pass, DurationMS: 1}
		keys = append(keys, r.Key())
		parts[i%n].Results = append(parts[i%n].Results, r)
	}
	choices := map[string]string{"--target": "sim", reports.ChosenResults: reports.KeysDigest(slices.Values(keys))}
	for k := range parts {
		p := &parts[k]
		p.Tool, p.Shard, p.Choices = "gpurig v1", fmt.Sprintf("%d/%d", k+1, n), choices
		p.Selection = reports.Digest(p.Tool, choices)
		p.Machine.Kernel = "6.1"
		p.Finish(true)
	}
	return parts
}

// again is a part with the verdict of one of its results changed, and only the first n
// results where n is not 0.
func again(p reports.Report, n int, verdict reports.Verdict) reports.Report {
	p.Results = slices.Clone(p.Results)
	complete := n == 0
	if !complete {
		p.Results = p.Results[:n]
	}
	p.Results[0].Verdict = verdict
	switch verdict {
	case reports.Fail:
		p.Results[0].Findings = []reports.Finding{{Station: "inside", What: "/dev/nvidia0", Want: "there", Got: "absent"}}
	case reports.Broken:
		p.Results[0].Reason = "took too long: 2m0s"
	}
	p.Finish(complete)
	return p
}

// Of 100 machines one is lost, one is cut short and one writes its part twice: what was
// judged is all there, what was not is named, and once it is run again nothing is missing.
func TestMergeOfManyMachinesLosesNothing(t *testing.T) {
	const n, all = 100, 10_000
	parts := fleet(n, all)
	lost, cut, twice := parts[16], again(parts[40], 30, reports.Pass), parts[73]
	came := slices.Delete(slices.Clone(parts), 16, 17)
	came[39] = cut // shard 41, after shard 17 is gone
	came = append(came, twice)

	got, err := reports.Merge(came)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"shard 17/100 is missing: nothing of it was judged", "shard 41/100 was cut short: the rest of it was not judged"}
	if got.Complete || got.Totals.Pass != all-100-70 || !slices.Equal(got.Notes, want) {
		t.Errorf("complete %v, %d passed, notes %q; want %d and %q", got.Complete, got.Totals.Pass, got.Notes, all-170, want)
	}

	// A shard that ended once is not cut short, whichever report of it comes last.
	got, err = reports.Merge(append(slices.Clone(came), parts[40], cut))
	if err != nil || got.Complete || !slices.Equal(got.Notes, want[:1]) {
		t.Errorf("with one missing: complete %v, notes %q, %v; want %q", got.Complete, got.Notes, err, want[:1])
	}

	// What came late is added, in whatever order, and the part that was cut short stays.
	slices.Reverse(came)
	got, err = reports.Merge(append(came, lost, parts[40]))
	if err != nil || !got.Complete || got.Totals != (reports.Totals{Pass: all}) || got.Notes != nil || strings.Contains(reports.Summary(got, 0), reports.Flaky) {
		t.Errorf("with all: complete %v, %+v, notes %q, %v", got.Complete, got.Totals, got.Notes, err)
	}
}

// Who ran a shard twice has the worse of two judgements, and sees that there were two.
func TestMergeOfAShardThatWasRunTwice(t *testing.T) {
	parts := fleet(2, 6)
	for _, tc := range []struct {
		name         string
		first, again reports.Verdict
		want         reports.Verdict
		flaky        string // what the warning has of the other
	}{
		{"alike", reports.Pass, reports.Pass, reports.Pass, ""},
		{"a failure stays red", reports.Fail, reports.Pass, reports.Fail, "another run of it was pass"},
		{"a failure that comes later is red", reports.Pass, reports.Fail, reports.Fail, "another run of it was pass"},
		{"what was broken has been judged", reports.Broken, reports.Pass, reports.Pass, "another run of it was broken: took too long: 2m0s"},
		{"a failure beside a broken one", reports.Broken, reports.Fail, reports.Fail, "another run of it was broken: took too long: 2m0s"},
		{"what was skipped has been judged", reports.Skip, reports.Pass, reports.Pass, "another run of it was skip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := reports.Merge([]reports.Report{again(parts[0], 0, tc.first), parts[1], again(parts[0], 0, tc.again)})
			if err != nil || !got.Complete || len(got.Results) != 6 || got.Results[0].Verdict != tc.want {
				t.Fatalf("Merge = %v, complete %v, %d results, the first %v; want 6 and %v", err, got.Complete, len(got.Results), got.Results[0].Verdict, tc.want)
			}
			xml, err := reports.JUnit(got)
			if err != nil {
				t.Fatal(err)
			}
			for kind, text := range map[string]string{"summary": reports.Summary(got, 0), "Markdown": string(reports.Markdown(got)), "JUnit": string(xml)} {
				if has := strings.Contains(text, "flaky: area/s00000 on sim: "+tc.flaky); has != (tc.flaky != "") {
					t.Errorf("%s says flaky: %v\n%s", kind, has, text)
				}
			}
			if has := strings.Contains(reports.Summary(got, 0), ", 1 flaky in "); has != (tc.flaky != "") {
				t.Errorf("the last line counts it: %v", has)
			}
		})
	}
}

// Two halves of a shard are the whole of it.
func TestMergeOfHalves(t *testing.T) {
	parts := fleet(2, 6)
	half := again(parts[0], 1, reports.Pass)
	rest := parts[0]
	rest.Results = rest.Results[1:]
	rest.Finish(false)
	got, err := reports.Merge([]reports.Report{half, rest, parts[1]})
	if err != nil || !got.Complete || got.Totals.Pass != 6 {
		t.Errorf("Merge = %v, complete %v, %+v", err, got.Complete, got.Totals)
	}
}

func TestMergeRefusesPartsOfSeveralRuns(t *testing.T) {
	parts := fleet(2, 6)
	change := func(f func(*reports.Report)) reports.Report {
		p := parts[1]
		p.Choices = map[string]string{"--target": "sim", reports.ChosenResults: p.Choices[reports.ChosenResults]}
		f(&p)
		p.Finish(p.Complete)
		return p
	}
	for name, tc := range map[string]struct {
		parts []reports.Report
		want  string
	}{
		"nothing":             {nil, "none was given"},
		"a result in both":    {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Results = parts[0].Results })}, "area/s00000 on sim is in shard 1/2 and in 2/2"},
		"one lacks a result":  {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Results = p.Results[1:] })}, "their 5 results are not those"},
		"of another number":   {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Shard = "2/3" })}, "shard 2/3 beside others of 2"},
		"a whole run":         {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Shard = "" })}, "no shard"},
		"a number over range": {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Shard = "3/2" })}, "not K/N"},
		"other choices": {[]reports.Report{parts[0], change(func(p *reports.Report) {
			p.Choices["--target"] = "lxc"
			p.Selection = reports.Digest(p.Tool, p.Choices)
		})}, "--target: lxc, not sim"},
		"choices that changed": {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Choices["--target"] = "lxc" })}, "not those that it was run with"},
		"another version":      {[]reports.Report{parts[0], change(func(p *reports.Report) { p.Tool = "gpurig v2"; p.Selection = reports.Digest(p.Tool, p.Choices) })}, "made by: gpurig v2"},
	} {
		if _, err := reports.Merge(tc.parts); !errors.Is(err, reports.ErrMerge) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Merge = %v; want %q", name, err, tc.want)
		}
	}
}
