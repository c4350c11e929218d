package fakehw_test

import (
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw"
)

func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"dgx-a100", "a100-mig-mixed", "jetson-agx-orin"} {
		b.Run(name, func(b *testing.B) {
			m := load(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fakehw.Build(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDiscover(b *testing.B) {
	m := load(b, "dgx-a100")
	tree, err := fakehw.Build(m)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := host.Discover(tree, nvmlOf(m)); err != nil {
			b.Fatal(err)
		}
	}
}
