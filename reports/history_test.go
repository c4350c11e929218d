package reports_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/reports"
)

// runsOf makes one report for each verdict of the words, by letter: "PPF"; "-" is a run
// without the result. Each takes ms milliseconds, the last of them the last.
func runsOf(words map[string]string, ms ...float64) []reports.Report {
	var out []reports.Report
	for i := range len(words["a/x"]) {
		r := reports.Report{Tool: "gpurig test", Started: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)}
		for name, letters := range words {
			verdict, ok := map[byte]reports.Verdict{'P': reports.Pass, 'F': reports.Fail, 'B': reports.Broken, 'S': reports.Skip}[letters[i]]
			if !ok {
				continue
			}
			res := reports.Result{Scenario: name, Title: "X.", Host: "h\x1b[2J</td>", Target: "sim", Verdict: verdict, DurationMS: ms[min(i, len(ms)-1)]}
			if verdict == reports.Fail {
				res.Findings = []reports.Finding{{Station: "plan", What: "w", Want: "1", Got: "2"}}
			}
			r.Results = append(r.Results, res)
		}
		r.Finish(true)
		out = append(out, r)
	}
	return out
}

func TestHistorySaysWhatBecameOfEachResult(t *testing.T) {
	runs := runsOf(map[string]string{"a/x": "PPPPF", "a/flaky": "PFPFP", "a/mended": "FPPPP", "a/good": "PPPPP", "a/gone": "FF---", "a/skipped": "FSSFS"}, 10)
	slices.Reverse(runs) // they come in any order
	h := reports.NewHistory(runs)
	if h.Good != 1 || len(h.Runs) != 5 || !h.Runs[0].Started.Before(h.Runs[4].Started) {
		t.Errorf("%d always passed, runs %+v", h.Good, h.Runs)
	}
	text := h.Text()
	for _, want := range []string{
		"\nhost h\\u001b[2J</td>, target sim\n",
		"  PPPPF  a/x on sim: fails since run 5, 2026-01-05 00:00:00\n    plan: w: want 1, got 2\n",
		"  PFPFP  a/flaky on sim: flaky\n",
		"  FPPPP  a/mended on sim: passes again\n",
		"  FF---  a/gone on sim: fails since run 1, ",
		"  FSSFS  a/skipped on sim: fails since run 1, ",
		"\n1 results always passed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the history lacks %q:\n%s", want, text)
		}
	}
	page, err := h.HTML()
	if err != nil || balanced(page) != "" || len(outside(parse(t, page))) > 0 || strings.Contains(string(page), "\x1b") {
		t.Errorf("the page: %v, %s", err, balanced(page))
	}
}

func TestHistoryNamesWhatBecameSlower(t *testing.T) {
	for _, tc := range []struct {
		ms   []float64
		want float64
	}{{[]float64{100, 120, 110, 400}, 400. / 110}, {[]float64{1, 1, 1, 4}, 0}, {[]float64{1000, 1000, 1000, 1500}, 0}, {[]float64{100, 400, 400, 100}, 0}} {
		h := reports.NewHistory(runsOf(map[string]string{"a/x": "PPPP"}, tc.ms...))
		got := 0.0
		if len(h.Lines) > 0 {
			got = h.Lines[0].Slower
		}
		if got != tc.want {
			t.Errorf("%v: %.2f times as slow, want %.2f", tc.ms, got, tc.want)
		}
	}
}
