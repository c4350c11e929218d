package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"gpurig/core/show"
	"gpurig/reports"
)

// A progress shows results as they come: on a terminal one line that is written over;
// above it, and elsewhere, a line for each of the first results that failed or are
// broken. Where the summary comes to the same terminal these are counted, since it names
// them.
type progress struct {
	s     Streams
	all   int
	began time.Time
	done  reports.Totals
	shown time.Time
	drawn bool
}

func newProgress(s Streams, all int) *progress { return &progress{s: s, all: all, began: time.Now()} }

// maxBadLines is how many results that did not pass have a line of their own.
const maxBadLines = 20

const redraw = 80 * time.Millisecond

// result is called from one goroutine at a time.
func (p *progress) result(r reports.Result) {
	switch r.Verdict {
	case reports.Pass:
		p.done.Pass++
	case reports.Fail:
		p.done.Fail++
	case reports.Broken:
		p.done.Broken++
	case reports.Skip:
		p.done.Skip++
	case reports.Differ:
		p.done.Differ++
	}
	bad, n := "", p.done.Fail+p.done.Broken
	failed := r.Verdict == reports.Fail || r.Verdict == reports.Broken
	if n > 0 && p.s.Same || n > maxBadLines {
		bad = fmt.Sprintf(", %d not passed", n)
	}
	switch {
	case !failed || p.s.Same || n > maxBadLines+1:
	case n == maxBadLines+1:
		p.clear()
		show.Fprintf(p.s.Err, "more did not pass: the summary names them\n")
	default:
		p.clear()
		p.control("\x1b[31m")
		show.Fprintf(p.s.Err, "%s", strings.ToUpper(string(r.Verdict)))
		p.control("\x1b[0m")
		show.Fprintf(p.s.Err, " %s\n", r.Key())
	}
	if p.s.Terminal && (time.Since(p.shown) > redraw || p.done.All() == p.all) {
		p.shown = time.Now()
		p.clear()
		show.Fprintf(p.s.Err, "%s", p.fit(show.Sprintf("%d of %d%s%s  %s", p.done.All(), p.all, bad, left(time.Since(p.began), p.done.All(), p.all), r.Key())))
		p.drawn = true
	}
}

// left is how long the rest of a run takes if it goes on as it did; empty while that is
// not known, or not worth a word.
func left(took time.Duration, done, all int) string {
	rest := took / time.Duration(max(done, 1)) * time.Duration(all-done)
	if took < 2*time.Second || rest < 5*time.Second {
		return ""
	}
	return fmt.Sprintf(", about %v left", rest.Round(time.Second))
}

// fit cuts a line that the terminal would break: only the last part of it could be
// written over.
func (p *progress) fit(line string) string {
	if most := p.s.Columns - 1; most > 0 && utf8.RuneCountInString(line) > most {
		return string([]rune(line)[:most-1]) + "…"
	}
	return line
}

// end leaves the terminal clean.
func (p *progress) end() { p.clear() }

func (p *progress) clear() {
	if p.drawn {
		show.Control(p.s.Err, "\r\x1b[K")
		p.drawn = false
	}
}

// control changes the colour, where there may be one.
func (p *progress) control(sequence string) {
	if p.s.Colour {
		show.Control(p.s.Err, sequence)
	}
}
