package cudalib_test

import "testing"

// BenchmarkVectorAdd is one launch of a million threads, with the copies to and from
// the program that launches it.
func BenchmarkVectorAdd(b *testing.B) { benchmarkAdd(b, 1000000) }

// BenchmarkLaunch is one launch of one block, with the load of its module.
func BenchmarkLaunch(b *testing.B) { benchmarkAdd(b, 256) }

func benchmarkAdd(b *testing.B, n uint32) {
	r := newRunner(b, onHost(b, "dgx-a100"))
	params := []any{make([]byte, 4*n), make([]byte, 4*n), make([]byte, 4*n), n}
	k := kernel{text: ptx(b, "add"), name: "add", grid: [3]uint32{(n + 255) / 256}, block: [3]uint32{256}, params: params}
	b.ReportAllocs()
	for b.Loop() {
		r.run(k)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "elements/s")
}
