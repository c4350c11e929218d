package bench

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// turns runs ours and theirs by turns and reports the median time of each and
// the median ratio of neighbours, as "x-peer". Neighbours see the same load of
// the machine, and a median does not mind a few that did not. Of whole processes
// it reports the ratio of processor time too, which other work hardly changes.
func turns(b *testing.B, ours, theirs func()) {
	b.Helper()
	alternate(b, func() func() { return ours }, func() func() { return theirs })
}

// alternate is turns for work that needs something new each time: ours and
// theirs prepare it, and return what is timed.
func alternate(b *testing.B, ours, theirs func() func()) {
	b.Helper()
	var a, z []time.Duration
	var ratios, work []float64
	ours()()
	theirs()() // both have warm files from here on
	for b.Loop() {
		x, ourWork := timed(ours())
		y, theirWork := timed(theirs())
		a, z = append(a, x), append(z, y)
		ratios = append(ratios, float64(x)/float64(y))
		if theirWork > 0 {
			work = append(work, float64(ourWork)/float64(theirWork))
		}
	}
	b.ReportMetric(0, "ns/op") // of both together: means nothing
	b.ReportMetric(ms(median(a)), "ours-ms")
	b.ReportMetric(ms(median(z)), "peer-ms")
	b.ReportMetric(median(ratios), "x-peer")
	if len(work) > 0 {
		b.ReportMetric(median(work), "x-peer-cpu")
	}
}

// timed returns how long f took, and how long the processes that it waited for had
// a processor.
func timed(f func()) (took, work time.Duration) {
	before, start := ofChildren(), time.Now()
	f()
	took = time.Since(start)
	return took, ofChildren() - before
}

func ofChildren() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median[T float64 | time.Duration](all []T) T {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}
