package reports_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurig/fixtures/golden"
	"gpurig/reports"
)

// sample has every verdict, a variant, and texts that an image could have
// chosen to break a terminal, a page or a parser (A37).
func sample() reports.Report {
	r := reports.Report{
		Tool:    "gpurig v0.1.0",
		Notes:   []string{"there is no LXD on this machine: containers are plain LXC's"},
		TookMS:  4500,
		CI:      reports.CI{Commit: "0123456789ab", Link: "https://ci.example/jobs/7"},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: reports.Machine{OS: "Debian 12", Kernel: "6.1.0", Arch: "x86_64", CPUs: 2, Product: "PowerEdge R750", Versions: map[string]string{"lxc": "5.0.2"}},
		Results: []reports.Result{
			{Scenario: "mig/one-of-two", Title: "One of two.", Variant: map[string]string{"idmap": "none", "cgroup": "v2"}, Host: "a100-mig-2g-3g", Target: "sim", Verdict: reports.Pass, DurationMS: 1.25,
				Across:   []reports.Agreement{{With: "lxc", Entries: 2, Agree: 2}},
				Warnings: []reports.Warning{{Reason: "library-shadowed", Container: "c1", Step: "1: start c1", Text: "libcuda.so.1: </script> \x1b[2J|`"}},
				Stations: reports.Stations{Spec: "aaa", Plan: map[string]string{"c1": "bbb"}}},
			{Scenario: "dgpu/uvm", Title: "No uvm.", Host: "t4-server", Target: "sim", Verdict: reports.Fail, DurationMS: 3,
				Across:   []reports.Agreement{{With: "lxc", Entries: 40, Agree: 39}},
				Findings: []reports.Finding{{Station: "inside", Container: "c1", What: "/dev/\x1b[2Jx</script>\u202e|`", Want: "allowed", Got: "denied", Line: 7, Next: "gpurig explain dgpu/uvm --target sim --station plan  # the Spec has it"}}},
			{Scenario: "dgpu/lost", Title: "Lost.", Host: "t4-server", Target: "lxc", Verdict: reports.Broken, Reason: "lxc-start died\nwith \xff", Evidence: []string{"its log", "<b>its end</b> | \x1b[31m"}},
			{Scenario: "dgpu/uvm", Title: "No uvm.", Host: "t4-server", Target: "lxc", Verdict: reports.Skip, Reason: "needs root"},
		},
	}
	for i := range r.Results {
		res := &r.Results[i]
		res.File, res.Line, res.Run = res.Scenario+".yaml", 1, "gpurig run '"+res.ID()+"' --target "+res.Target
		if len(res.Findings) > 0 {
			r.Keep(res, "plan for c1", "nodes:\n- /dev/x </script>\n")
			res.Line = res.Findings[0].Line
		}
	}
	r.Finish(true)
	return r
}

func TestEveryFormatIsAsItWas(t *testing.T) {
	for _, ext := range reports.Formats {
		data, err := reports.Render("report"+ext, sample())
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, "testdata/report"+ext, data)
		if i := strings.IndexFunc(string(data), func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x202e }); i >= 0 && ext != ".json" {
			t.Errorf("%s has a control character at byte %d", ext, i)
		}
	}
}

func TestJSONReadsBackAndItsTotalsMustAddUp(t *testing.T) {
	data, err := reports.JSON(sample())
	if err != nil {
		t.Fatal(err)
	}
	r, err := reports.Parse(data)
	if err != nil || r.Totals.All() != 4 || r.Totals != (reports.Totals{Pass: 1, Fail: 1, Broken: 1, Skip: 1}) {
		t.Fatalf("Parse = %+v, %v", r.Totals, err)
	}
	for _, tc := range []struct{ name, from, to string }{
		{"a pass more than there is (F35)", `"pass": 1`, `"pass": 2`},
		{"another schema", `"schema": 1`, `"schema": 9`},
		{"a verdict nobody gave", `"verdict": "pass"`, `"verdict": "fine"`},
		{"cut in the middle (F3)", `"totals"`, `"totals`},
		{"text behind it", "\n}\n", "\n}\n{}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(string(data), tc.from, tc.to, 1)
			if bad == string(data) {
				t.Fatalf("%q is not in the report", tc.from)
			}
			if _, err := reports.Parse([]byte(bad)); !errors.Is(err, reports.ErrNotReport) {
				t.Errorf("Parse = %v; want ErrNotReport", err)
			}
		})
	}
}

func TestJUnitCountsWhatItHas(t *testing.T) {
	for _, complete := range []bool{true, false} {
		r := sample()
		r.Complete = complete
		data, err := reports.JUnit(r)
		if err != nil {
			t.Fatal(err)
		}
		var x struct {
			Tests  int `xml:"tests,attr"`
			Errors int `xml:"errors,attr"`
			Suites []struct {
				Cases []struct{} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(data, &x); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range x.Suites {
			n += len(s.Cases)
		}
		wantTests, wantErrors := 4, 1
		if !complete { // a run that was cut short never reads as a whole one
			wantTests, wantErrors = 5, 2
		}
		if x.Tests != n || n != wantTests || x.Errors != wantErrors {
			t.Errorf("complete %v: tests=%d, cases=%d, errors=%d; want %d, %d, %d", complete, x.Tests, n, x.Errors, wantTests, wantTests, wantErrors)
		}
	}
}

func TestCompareTellsWhatChanged(t *testing.T) {
	base, now := sample(), sample()
	now.Tool = "gpurig v0.2.0"
	for i := range now.Results {
		r := &now.Results[i]
		switch r.Key() {
		case "dgpu/uvm on sim":
			r.Verdict, r.Findings = reports.Pass, nil
		case "mig/one-of-two[cgroup=v2,idmap=none] on sim":
			r.Stations.Spec = "ccc"
		case "dgpu/lost on lxc":
			r.Verdict, r.Findings = reports.Fail, []reports.Finding{{Station: "plan", What: "x", Want: "1", Got: "2"}}
		}
	}
	now.Results = slices.DeleteFunc(now.Results, func(r reports.Result) bool { return r.Key() == "dgpu/uvm on lxc" })
	now.Finish(true)
	c := reports.Compare(base, now)
	golden.Equal(t, "testdata/compare.txt", []byte(c.Text()))
	if !c.Regression() {
		t.Error("a newly failing result is no regression")
	}
	if same := reports.Compare(base, base); same.Regression() || same.Text() != "no difference\n" {
		t.Errorf("a report compared with itself: %s", same.Text())
	}
}

func TestWriteLeavesOldOrNew(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.json")
	if err := reports.Write(file, sample()); err != nil {
		t.Fatal(err)
	}
	if _, err := reports.Read(file); err != nil {
		t.Fatal(err)
	}
	// B49: a directory, a link, a FIFO, the endless and the full device, standard
	// output and an unknown format are refused before anything is
	// written, and nothing waits.
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": file, "full": "/dev/full", "out": "/dev/stdout", "null": "/dev/null", "dangling": filepath.Join(dir, "new.json")} {
		if err := os.Symlink(to, filepath.Join(dir, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder.json"), 0o755), syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o644)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"link.json", "full.json", "out.json", "null.json", "dangling.json", "folder.json", "pipe.json", "r.pdf", "r", "r.json/x.json"} {
		bad = dir + "/" + bad
		if err := reports.Write(bad, sample()); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), filepath.Dir(bad)) {
			t.Errorf("Write(%s): %v", bad, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(before) {
		t.Errorf("%d entries in the folder, %d before, %v", len(left), len(before), err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(want) {
		t.Errorf("the report behind the link changed, %v", err)
	}
}

func TestWriteMakesTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "b", "r.json")
	if err := reports.CheckFile(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking whether it could be written made the folder: %v", err)
	}
	if err := reports.Write(file, sample()); err != nil {
		t.Fatal(err)
	}
	if _, err := reports.Read(file); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	data, err := reports.JSON(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := reports.Parse(data)
		if err != nil {
			return
		}
		if r.Totals.All() != len(r.Results) {
			t.Fatalf("totals %+v for %d results", r.Totals, len(r.Results))
		}
		for _, ext := range reports.Formats {
			if _, err := reports.Render("r"+ext, r); err != nil {
				t.Fatalf("%s: %v", ext, err)
			}
		}
	})
}

// A file that is no report ends in one line, and never in waiting.
func TestB49WhatIsNoReportIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, file := range []string{pipe, dir, "/dev/zero", filepath.Join(dir, "none.json")} {
		_, err := reports.Read(file)
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Read(%s) = %v; want one line that names it", file, err)
		}
	}
}

// many is a report of one scenario for each area that fails alike in each variant on
// each target, and of one more that fails in a way of its own.
func many(areas int) reports.Report {
	r := reports.Report{}
	for i := range areas {
		for _, target := range []string{"lxc", "sim"} {
			for _, cgroup := range []string{"v1", "v2"} {
				r.Results = append(r.Results, reports.Result{Scenario: fmt.Sprintf("area%d/x", i), Title: "X.", Variant: map[string]string{"cgroup": cgroup},
					Host: "t4-server", Target: target, Verdict: reports.Fail, Findings: []reports.Finding{{Station: "spec", Container: "c1", What: "refusal", Want: "none", Got: "lost"}}})
			}
		}
	}
	r.Results[0].Findings[0].Got = "another"
	r.Finish(true)
	return r
}

// What many results have in common is told once, in every format that people read,
// and none of them is lost.
func TestWhatIsAlikeIsToldOnce(t *testing.T) {
	r := many(8)
	for name, text := range map[string]string{"terminal": reports.Summary(r, 0), "Markdown": string(reports.Markdown(r)), "page": string(render(t, r, nil))} {
		if n := strings.Count(text, "want none, got another") + strings.Count(text, `"got":"another"`); n < 1 || n > 3 {
			t.Errorf("%s: the one of its own is told %d times:\n%s", name, n, text)
		}
		if n := strings.Count(text, "got lost") + strings.Count(text, `"got":"lost"`); n != 8+1 { // each scenario, and the cause of most
			t.Errorf("%s: what 31 have in common is told %d times; want 9:\n%s", name, n, text)
		}
		if !strings.Contains(text, "31") {
			t.Errorf("%s: how many have it in common is not told:\n%s", name, text)
		}
	}
	told := 0
	for _, g := range dataOf(t, render(t, r, nil)).Groups {
		told += len(g.Rows)
	}
	if told != len(r.Results) {
		t.Errorf("%d of %d results are in a group of the page", told, len(r.Results))
	}
}

// A summary is never longer than GitHub takes, and says what it lacks.
func TestMarkdownIsNotTooLong(t *testing.T) {
	r := many(40)
	for i := range r.Results {
		for range 100 {
			r.Results[i].Findings = append(r.Results[i].Findings, reports.Finding{Station: "plan", What: "x", Want: "y", Got: fmt.Sprint(i) + strings.Repeat("z", 3000)})
		}
	}
	text := reports.Markdown(r)
	if n := len(text); n > 1<<20 || n < 1<<19 || !strings.HasSuffix(string(text), "has at most 1 MiB. The other reports have all of it.\n") {
		t.Errorf("%d bytes, the last of them %q", n, text[max(0, n-200):])
	}
}

// A comparison tells once what changed alike in a scenario, and is short however many
// results it is of; as JSON it has each.
func TestAComparisonIsTold(t *testing.T) {
	was := large(3000)
	for i := range was.Results {
		was.Results[i].Verdict, was.Results[i].Findings = reports.Pass, nil
	}
	was.Finish(true)
	c := reports.Compare(was, large(3000))
	text := c.Text()
	if n := strings.Count(text, "\n"); n > 400 || !strings.HasPrefix(text, "newly failing: 2000\n") || !strings.Contains(text, " more: --output json has all\n") {
		t.Errorf("%d lines: %.400s", n, text)
	}
	if len(c.NewlyFailing) != 2000 {
		t.Errorf("%d results fail newly, want 2000", len(c.NewlyFailing))
	}
	same := reports.Compare(reports.Report{}, many(1))
	if text := same.Text(); !strings.Contains(text, "area0/x[cgroup=v1] on sim, [cgroup=v2] on lxc, [cgroup=v2] on sim\n") {
		t.Errorf("what is alike is not told once:\n%s", text)
	}
}
