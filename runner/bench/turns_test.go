package bench

import (
	"slices"
	"testing"
	"time"
)

// turns runs ours and theirs by turns and reports the median time of each and
// the median ratio of neighbours, as "x-peer". Neighbours see the same load of
// the machine, and a median does not mind a few that did not.
func turns(b *testing.B, ours, theirs func()) {
	b.Helper()
	alternate(b, func() func() { return ours }, func() func() { return theirs })
}

// alternate is turns for work that needs something new each time: ours and
// theirs prepare it, and return what is timed.
func alternate(b *testing.B, ours, theirs func() func()) {
	b.Helper()
	var a, z []time.Duration
	var ratios []float64
	ours()()
	theirs()() // both have warm files from here on
	for b.Loop() {
		x, y := timed(ours()), timed(theirs())
		a, z = append(a, x), append(z, y)
		ratios = append(ratios, float64(x)/float64(y))
	}
	b.ReportMetric(0, "ns/op") // of both together: means nothing
	b.ReportMetric(ms(median(a)), "ours-ms")
	b.ReportMetric(ms(median(z)), "peer-ms")
	b.ReportMetric(median(ratios), "x-peer")
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median[T float64 | time.Duration](all []T) T {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}
