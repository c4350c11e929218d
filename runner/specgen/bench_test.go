package specgen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpurig/fakehw/profiles"
)

// BenchmarkGenerate compares our whole path (the request to a child, the host's
// files as its root directory, nvcdi, judging the Spec, the reply) with nvcdi
// alone, called in such a child on the files of the same host. "again" has the files set up
// from the request before; "first" writes them.
func BenchmarkGenerate(b *testing.B) {
	for _, name := range []string{"dgx-h100", "a100-mig-uniform", "t4-server"} {
		r := Request{Model: profile(b, name)}
		g := generator(b, Options{Children: 1})
		data, err := json.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		alone := func() time.Duration {
			out, err := g.sessions[0].Do(b.Context(), plain, data)
			if err != nil {
				b.Fatal(err)
			}
			var m measure
			if err := json.Unmarshal(out, &m); err != nil || m.Bytes == 0 {
				b.Fatalf("measure %s: %v", out, err)
			}
			return m.Took
		}
		run := func(next func(i int) Request) func(*testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				var ours, theirs time.Duration
				n := 0
				for b.Loop() {
					start := time.Now()
					if _, err := g.ask(b.Context(), next(n)); err != nil {
						b.Fatal(err)
					}
					ours += time.Since(start)
					b.StopTimer()
					theirs += alone()
					b.StartTimer()
					n++
				}
				b.ReportMetric(float64(theirs.Nanoseconds())/float64(n), "nvcdi-ns/op")
				b.ReportMetric(float64(ours)/float64(theirs), "x-nvcdi")
			}
		}
		b.Run(name+"/again", run(func(int) Request { return r }))
		b.Run(name+"/first", run(func(i int) Request {
			r := r
			r.Model.Kernel = fmt.Sprintf("6.8.%d", i) // a host not seen before
			return r
		}))
	}
}

// BenchmarkKept is a Spec that was made before: what nearly all scenarios ask for.
func BenchmarkKept(b *testing.B) {
	g := generator(b, Options{})
	r := Request{Model: profile(b, "dgx-h100")}
	generate(b, g, r)
	b.ReportAllocs()
	for b.Loop() {
		generate(b, g, r)
	}
}

// BenchmarkSizes shows how the cost grows with GPUs and MIG devices.
func BenchmarkSizes(b *testing.B) {
	for _, gpus := range []int{1, 4, 16, 32, 64} {
		for _, mig := range []bool{false, true} {
			if mig && gpus > 32 {
				continue // the driver numbers capabilities of 32 GPUs
			}
			text, kind, devices := rack(gpus, mig)
			p, err := profiles.Parse("rack.yaml", []byte(text))
			if err != nil {
				b.Fatal(err)
			}
			m, err := p.Model()
			if err != nil {
				b.Fatal(err)
			}
			g := generator(b, Options{Children: 1})
			b.Run(fmt.Sprintf("%s=%d", kind, devices), func(b *testing.B) {
				for b.Loop() {
					if _, err := g.ask(b.Context(), Request{Model: m}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*devices), "us/device")
			})
		}
	}
}

// rack is a profile of so many A100, whole or each in seven parts.
func rack(gpus int, mig bool) (text, kind string, devices int) {
	var at []string
	for i := range gpus {
		at = append(at, fmt.Sprintf("%q", fmt.Sprintf("%02x:00.0", 4+i)))
	}
	text = "# Many GPUs.\nkernel: 6.8.0\nos: {id: ubuntu, version: \"24.04\"}\ndriver: {version: \"550\"}\ngpus:\n  - {product: a100-pcie-40gb, at: [" +
		strings.Join(at, ", ") + "]"
	if mig {
		return text + ", mig: [" + strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", ") + "]}\n", "mig", 7 * gpus
	}
	return text + "}\n", "gpus", gpus
}
