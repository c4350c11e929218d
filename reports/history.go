package reports

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurig/core/show"
)

// A History is what several reports of the same scenarios say one after the other.
type History struct {
	Runs  []HistoryRun  `json:"runs"`  // by date
	Lines []HistoryLine `json:"lines"` // by host, target, key: of all that did not always pass, or that became slower
	Good  int           `json:"good"`  // results of the last run that are no line
}

// A HistoryRun is one report.
type HistoryRun struct {
	Tool    string    `json:"tool"`
	Started time.Time `json:"started"`
	Commit  string    `json:"commit,omitempty"`
	Totals  Totals    `json:"totals"`
}

// A HistoryLine is one result from run to run.
type HistoryLine struct {
	Key      string    `json:"key"`
	Host     string    `json:"host"`
	Target   string    `json:"target"`
	Verdicts []Verdict `json:"verdicts"`          // of each run; empty: it was not in that one
	Since    int       `json:"since"`             // the run, from 0, in which the failure of the last run began; -1: it does not fail
	Flaky    bool      `json:"flaky,omitempty"`   // it went from passing to failing and back
	Slower   float64   `json:"slower,omitempty"`  // how many times as long as before it takes; 0: no longer than that
	Finding  string    `json:"finding,omitempty"` // the first of the last failure, or why it is broken
}

// Slower is what counts as such: twice as long as the median before, by a tenth of a second.
const (
	slowerTimes = 2
	slowerMS    = 100
)

// NewHistory puts reports in order of their dates.
func NewHistory(all []Report) History {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Report) int { return a.Started.Compare(b.Started) })
	h := History{Lines: []HistoryLine{}}
	lines := map[string]*HistoryLine{}
	took := map[string][]float64{} // of runs that judged it
	for n, r := range all {
		h.Runs = append(h.Runs, HistoryRun{r.Tool, r.Started, r.CI.Commit, r.Totals})
		for _, res := range r.Results {
			key := res.Key()
			l := lines[key]
			if l == nil {
				l = &HistoryLine{Key: key, Target: res.Target, Verdicts: make([]Verdict, len(all)), Since: -1}
				lines[key] = l
			}
			l.Host, l.Verdicts[n] = res.Host, res.Verdict
			switch {
			case len(res.Findings) > 0:
				l.Finding = res.Findings[0].Text()
			case res.Verdict == Broken:
				l.Finding = res.Reason
			}
			if res.Verdict != Skip {
				took[key] = append(took[key], res.DurationMS)
			}
		}
	}
	for key, l := range lines {
		l.judge()
		l.Slower = slower(took[key])
		if l.Flaky || l.Slower > 0 || slices.ContainsFunc(l.Verdicts, bad) {
			h.Lines = append(h.Lines, *l)
		} else if last := len(all) - 1; l.Verdicts[last] != "" {
			h.Good++
		}
	}
	slices.SortFunc(h.Lines, func(a, b HistoryLine) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Key, b.Key))
	})
	return h
}

func bad(v Verdict) bool { return v == Fail || v == Broken }

// judge finds since when it fails, and whether it is flaky. Runs that did not judge it
// do not count.
func (l *HistoryLine) judge() {
	last, changes := Verdict(""), 0
	for i, v := range l.Verdicts {
		if v == "" || v == Skip {
			continue
		}
		if bad(v) && !bad(last) {
			l.Since = i
		}
		if last != "" && bad(v) != bad(last) {
			changes++
		}
		if last = v; !bad(v) {
			l.Since = -1
		}
	}
	l.Flaky = changes > 1
}

// slower compares the last duration with the median of those before.
func slower(ms []float64) float64 {
	if len(ms) < 3 {
		return 0
	}
	last, before := ms[len(ms)-1], slices.Sorted(slices.Values(ms[:len(ms)-1]))
	median := before[len(before)/2]
	if median <= 0 || last < slowerTimes*median || last-median < slowerMS {
		return 0
	}
	return last / median
}

// says is what is to be said of a line, in words.
func (l HistoryLine) says(runs []HistoryRun) string {
	var out []string
	if l.Since >= 0 {
		out = append(out, fmt.Sprintf("fails since run %d, %s", l.Since+1, runs[l.Since].Started.UTC().Format(time.DateTime)))
	}
	if l.Flaky {
		out = append(out, "flaky")
	}
	if l.Slower > 0 {
		out = append(out, fmt.Sprintf("%.1f times as slow", l.Slower))
	}
	if len(out) == 0 {
		out = []string{"passes again"}
	}
	return strings.Join(out, ", ")
}

// letters are the verdicts of a line, one for each run.
func (l HistoryLine) letters() string {
	var b strings.Builder
	for _, v := range l.Verdicts {
		b.WriteString(letter(v))
	}
	return b.String()
}

func letter(v Verdict) string {
	if v == "" {
		return "-"
	}
	return strings.ToUpper(string(v[:1]))
}

// Text returns the history for a terminal, host by host and target by target.
func (h History) Text() string {
	var b strings.Builder
	for i, r := range h.Runs {
		show.Fprintf(&b, "run %d: %s, %s: %s\n", i+1, r.Started.UTC().Format(time.DateTime), r.Tool, r.Totals.words())
	}
	var at [2]string
	for i, l := range h.Lines {
		if i == maxLines {
			show.Fprintf(&b, "\nand %d more: --output json has all\n", len(h.Lines)-i)
			break
		}
		if now := [2]string{l.Host, l.Target}; now != at {
			at = now
			show.Fprintf(&b, "\nhost %s, target %s\n", oneLine(l.Host), oneLine(l.Target))
		}
		show.Fprintf(&b, "  %s  %s: %s\n", l.letters(), oneLine(l.Key), l.says(h.Runs))
		if l.Since >= 0 && l.Finding != "" {
			show.Fprintf(&b, "    %s\n", oneLine(l.Finding))
		}
	}
	show.Fprintf(&b, "\n%d results always passed\n", h.Good)
	return b.String()
}

// maxLines is how many lines of a history are told.
const maxLines = 1000

//go:embed page/history.html
var historyText string

var historyTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("history").Parse(historyText)) })

// HTML returns the history as one page without a script.
func (h History) HTML() ([]byte, error) {
	type cell struct {
		Verdict Verdict
		Letter  string
	}
	type row struct {
		Key, Says, Finding string
		Cells              []cell
	}
	type part struct {
		Host, Target string
		Fails, Flaky int
		Rows         []row
	}
	type run struct {
		Number                int
		Started, Tool, Commit string
		Words                 string
	}
	p := struct {
		Policy     template.HTMLAttr
		Style      template.CSS
		Runs       []run
		Parts      []*part
		Good, More int
	}{Policy: template.HTMLAttr(`content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src ` + source(pageStyle) + `"`), Style: template.CSS(pageStyle), Good: h.Good}
	for i, r := range h.Runs {
		p.Runs = append(p.Runs, run{i + 1, r.Started.UTC().Format(time.DateTime), oneLine(r.Tool), oneLine(r.Commit), r.Totals.words()})
	}
	parts := map[[2]string]*part{}
	for i, l := range h.Lines {
		if i == maxLines {
			p.More = len(h.Lines) - i
			break
		}
		x := parts[[2]string{l.Host, l.Target}]
		if x == nil {
			x = &part{Host: oneLine(l.Host), Target: oneLine(l.Target)}
			parts[[2]string{l.Host, l.Target}] = x
		}
		y := row{Key: oneLine(l.Key), Says: l.says(h.Runs)}
		if l.Since >= 0 {
			x.Fails++
			y.Finding = clean(l.Finding)
		}
		if l.Flaky {
			x.Flaky++
		}
		for _, v := range l.Verdicts {
			y.Cells = append(y.Cells, cell{v, letter(v)})
		}
		x.Rows = append(x.Rows, y)
	}
	for _, key := range slices.SortedFunc(maps.Keys(parts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p.Parts = append(p.Parts, parts[key])
	}
	var b bytes.Buffer
	if err := historyTemplate().Execute(&b, p); err != nil {
		return nil, fmt.Errorf("history as HTML: %w", err)
	}
	return b.Bytes(), nil
}
