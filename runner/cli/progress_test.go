package cli

import (
	"bytes"
	"strings"
	"testing"

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
