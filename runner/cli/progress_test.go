package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpurig/core/show"
	"gpurig/reports"
)

// On a narrow terminal the line that is written over is one line.
func TestProgressFitsTheTerminal(t *testing.T) {
	for _, columns := range []int{0, 2, 20, 80} {
		var b bytes.Buffer
		p := newProgress(Streams{Err: &b, Terminal: true, Columns: columns}, 1)
		p.result(reports.Result{Scenario: "area/" + strings.Repeat("é", 90), Target: "sim", Verdict: reports.Pass})
		n := len([]rune(b.String()))
		if columns > 0 && n >= columns || columns == 0 && n < 90 {
			t.Errorf("%d columns: %d characters: %q", columns, n, b.String())
		}
	}
}

// On a terminal the program's own sequences are there, and nobody else's.
func TestProgressObeysNobodyElse(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(Streams{Err: show.NewWriter(&b), Terminal: true, Colour: true}, 2)
	for range 2 {
		p.result(reports.Result{Scenario: "x\x1b[2J\r\nFORGED", Target: "sim", Verdict: reports.Fail})
	}
	p.end()
	own := strings.NewReplacer("\r\x1b[K", "", "\x1b[31m", "", "\x1b[0m", "")
	if rest := own.Replace(b.String()); !strings.Contains(b.String(), "\x1b[31mFAIL\x1b[0m x") || strings.ContainsAny(rest, "\x1b\r") || strings.Contains(rest, "\nFORGED") {
		t.Errorf("progress wrote %q", b.String())
	}
}

func TestProgressSaysHowLongTheRestTakes(t *testing.T) {
	for _, tc := range []struct {
		took      time.Duration
		done, all int
		want      string
	}{
		{time.Second, 1, 1000, ""}, // too early to know
		{10 * time.Second, 100, 1000, ", about 1m30s left"},
		{10 * time.Second, 990, 1000, ""},
		{time.Hour, 1000, 1000, ""},
		{time.Minute, 0, 10, ", about 10m0s left"},
	} {
		if got := left(tc.took, tc.done, tc.all); got != tc.want {
			t.Errorf("Left(%v, %d of %d) = %q; want %q", tc.took, tc.done, tc.all, got, tc.want)
		}
	}
}

// In a pipe there is nothing but the first results that did not pass.
func TestProgressIsQuietInAPipe(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(Streams{Err: &b}, 3000)
	for i := range 3000 {
		p.result(reports.Result{Scenario: fmt.Sprint("s", i), Target: "sim", Verdict: []reports.Verdict{reports.Pass, reports.Skip, reports.Fail}[i%3]})
	}
	p.end()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != maxBadLines+1 || lines[0] != "FAIL s2 on sim" || !strings.HasPrefix(lines[maxBadLines], "more did not pass") || strings.ContainsAny(b.String(), "\x1b\r") {
		t.Errorf("%d lines: %q", len(lines), b.String())
	}
}
