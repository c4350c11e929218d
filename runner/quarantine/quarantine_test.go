package quarantine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/reports"
	"gpurig/runner/quarantine"
)

const list = `list:
  - {scenario: hardware/gpu-computes, target: lxc, until: 2026-06-30, why: card of lab-3}
  - {scenario: "mig/x[cgroup=v2]", until: 2026-06-30, why: ticket 12}
  - {scenario: dgpu/gone, until: 2026-06-30, why: renamed}
`

func day(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestApply(t *testing.T) {
	finding := []reports.Finding{{Station: "inside", Container: "c1", What: "/dev/nvidia0", Want: "there", Got: "absent"}}
	computes := reports.Result{Scenario: "hardware/gpu-computes", Target: "lxc", Verdict: reports.Fail, Findings: finding}
	with := func(f func(*reports.Result)) reports.Result { r := computes; f(&r); return r }
	for _, tc := range []struct {
		name, now string
		result    reports.Result
		want      reports.Verdict
		says      string // the reason, or the only note that is not of another entry
	}{
		{"fails on its last day", "2026-06-30 23:59:59", computes, reports.Skip, "in quarantine until 2026-06-30 (card of lab-3): fail: inside, c1: /dev/nvidia0: want there, got absent"},
		{"fails after it", "2026-07-01 00:00:00", computes, reports.Fail, "was in quarantine until 2026-06-30 (card of lab-3): its verdict counts again"},
		{"is broken", "2026-06-01 00:00:00", with(func(r *reports.Result) { r.Verdict, r.Findings, r.Reason = reports.Broken, nil, "took too long" }), reports.Skip, "broken: took too long"},
		{"passes", "2026-06-01 00:00:00", with(func(r *reports.Result) { r.Verdict, r.Findings = reports.Pass, nil }), reports.Pass, "on lxc passes, and is in quarantine until 2026-06-30"},
		{"another target", "2026-06-01 00:00:00", with(func(r *reports.Result) { r.Target = "lxd" }), reports.Fail, ""},
		{"one variant", "2026-06-01 00:00:00", with(func(r *reports.Result) { r.Scenario, r.Variant = "mig/x", map[string]string{"cgroup": "v2"} }), reports.Skip, "ticket 12"},
		{"another variant", "2026-06-01 00:00:00", with(func(r *reports.Result) { r.Scenario, r.Variant = "mig/x", map[string]string{"cgroup": "v1"} }), reports.Fail, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, err := quarantine.Parse("q.yaml", []byte(list), day(t, tc.now))
			if err != nil {
				t.Fatal(err)
			}
			r := tc.result
			l.Apply(&r)
			notes := slices.DeleteFunc(l.Notes(), func(n string) bool { return strings.HasSuffix(n, "nothing of that name was run") })
			said := strings.Join(append(notes, r.Reason), "")
			if r.Verdict != tc.want || tc.says == "" && said != tc.result.Reason || !strings.Contains(said, tc.says) {
				t.Errorf("%s, %q; want %s, %q", r.Verdict, said, tc.want, tc.says)
			}
			if r.Verdict == reports.Skip && r.Findings != nil {
				t.Error("a skipped result has findings")
			}
			if gone := "dgpu/gone is in quarantine, and nothing of that name was run"; !slices.Contains(l.Notes(), gone) {
				t.Errorf("notes %q; want %q", l.Notes(), gone)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"list: [{scenario: a, until: 2026-06-30}]":           "q.yaml:1:8: an entry needs scenario, until and why",
		"list: [{until: 2026-06-30, why: x}]":                "an entry needs scenario, until and why",
		"list: [{scenario: a, why: x}]":                      "an entry needs its last day",
		"list: [{scenario: a, until: soon, why: x}]":         `"soon": want a day such as 2026-12-31`,
		"list: [{scenario: a, until: 2026-13-01, why: x}]":   `"2026-13-01": want a day`,
		"list: [{scenario: a, till: 2026-12-01, why: x}]":    "till",
		"- {scenario: a, until: 2026-12-01, why: forever}\n": "q.yaml:1:1",
	} {
		if l, err := quarantine.Parse("q.yaml", []byte(text), time.Now()); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, %v; want an error with %q", text, l, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(list)
	f.Add("list: [{scenario: a, until: 2026-06-30, why: ")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := quarantine.Parse("q.yaml", []byte(text), time.Unix(0, 0))
		if (l == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", l, err)
		}
		if l != nil {
			l.Apply(&reports.Result{Scenario: "a", Verdict: reports.Fail})
			l.Notes()
		}
	})
}
