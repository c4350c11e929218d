package bench

import (
	"fmt"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
)

// A rack is a host with so many A100, each whole or in seven MIG devices, and
// what each station makes of it.
type rack struct {
	devices int // that a Spec offers: GPUs, or MIG devices
	model   host.Model
	tree    *tree.Tree
	source  cdi.Source
	plan    plan.Plan
}

// rackModel is the model of a rack. The driver has capability numbers for the
// instances of 32 GPUs, so a host has at most 224 MIG devices.
func rackModel(tb testing.TB, gpus int, mig bool) host.Model {
	tb.Helper()
	var at []string
	for i := range gpus {
		at = append(at, fmt.Sprintf("%q", fmt.Sprintf("%02x:00.0", 4+i)))
	}
	parts := ""
	if mig {
		parts = ", mig: [" + strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", ") + "]"
	}
	text := "# Many GPUs.\nkernel: 6.8.0\nos: {id: ubuntu, version: \"24.04\"}\ndriver: {version: \"550\"}\ngpus:\n" +
		"  - {product: a100-pcie-40gb, at: [" + strings.Join(at, ", ") + "]" + parts + "}\n"
	p, err := profiles.Parse("rack.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// newRack walks a rack from its model to a plan that has all its devices.
func newRack(tb testing.TB, g *specgen.Generator, gpus int, mig bool) rack {
	tb.Helper()
	r := rack{devices: gpus, model: rackModel(tb, gpus, mig)}
	if mig {
		r.devices = 7 * gpus
	}
	var err error
	if r.tree, err = fakehw.Build(r.model); err != nil {
		tb.Fatal(err)
	}
	made, err := g.Generate(tb.Context(), specgen.Request{Model: r.model})
	if err != nil {
		tb.Skipf("no Spec here: %v", err)
	}
	r.source = cdi.FromHost(made.Spec)
	r.translate(tb)
	return r
}

func (r *rack) translate(tb testing.TB) {
	name, err := cdi.ParseName("nvidia.com/gpu=all")
	if err != nil {
		tb.Fatal(err)
	}
	found, err := cdi.ResolveAll([]cdi.Source{r.source}, []cdi.Name{name})
	if err != nil {
		tb.Fatal(err)
	}
	if r.plan, err = translate.Edits(r.tree, found.Edits, translate.Options{}); err != nil {
		tb.Fatal(err)
	}
}

func (r *rack) start(tb testing.TB, s *sim.Sim) {
	c, err := s.Create(tb.Context(), target.Config{Name: "c1", Image: "glibc", Cgroup: "v2"})
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(tb.Context(), target.Host{Root: r.tree, Sum: r.tree.Sum}, r.plan); err != nil {
		tb.Fatal(err)
	}
	if _, err := c.Observe(tb.Context(), observe.Request{}); err != nil {
		tb.Fatal(err)
	}
	if err := c.Remove(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// A station is one thing that is done to a rack. fresh takes what remembers
// nothing of an earlier run.
type station struct {
	name string
	do   func(tb testing.TB, r *rack, run int)
}

func stations(tb testing.TB, g *specgen.Generator) []station {
	images := image.NewSet(image.Bare{})
	return []station{
		{"build", func(tb testing.TB, r *rack, _ int) {
			if _, err := fakehw.Build(r.model); err != nil {
				tb.Fatal(err)
			}
		}},
		{"generate", func(tb testing.TB, r *rack, run int) {
			m := r.model
			m.Kernel = fmt.Sprintf("6.8.%d", run) // a host not seen before
			if _, err := g.Generate(tb.Context(), specgen.Request{Model: m}); err != nil {
				tb.Fatal(err)
			}
		}},
		{"translate", func(tb testing.TB, r *rack, _ int) { r.translate(tb) }},
		{"sim start", func(tb testing.TB, r *rack, _ int) {
			s, err := sim.New(images) // one that has started nothing yet
			if err != nil {
				tb.Fatal(err)
			}
			r.start(tb, s)
		}},
		{"nvml state", func(tb testing.TB, r *rack, _ int) { nvmllib.State(r.model) }},
	}
}

// BenchmarkGrowth shows what one more device costs, from 1 to 64 GPUs and from 7
// to 224 MIG devices: us/device must not rise.
func BenchmarkGrowth(b *testing.B) {
	g := specgen.New(specgen.Options{Children: 1})
	defer g.Close()
	run := 0
	for _, mig := range []bool{false, true} {
		for _, gpus := range []int{1, 4, 16, 32, 64} {
			kind := "gpus"
			if mig {
				kind = "mig"
			}
			if mig && gpus > 32 {
				continue // such a host is refused
			}
			r := newRack(b, g, gpus, mig)
			for _, s := range stations(b, g) {
				b.Run(fmt.Sprintf("%s/%s=%d", s.name, kind, r.devices), func(b *testing.B) {
					for b.Loop() {
						run++
						s.do(b, &r, run)
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*r.devices), "us/device")
				})
			}
		}
	}
}

// Eight times the devices take at most eight times the work, in every station
// of this process. Work is counted in allocations, which are the same on a busy
// machine.
func TestWorkGrowsNoWorseThanTheDevices(t *testing.T) {
	g := specgen.New(specgen.Options{Children: 1})
	defer g.Close()
	for _, mig := range []bool{false, true} {
		small, large := newRack(t, g, 4, mig), newRack(t, g, 32, mig)
		for _, s := range stations(t, g) {
			if s.name == "generate" {
				continue // is done in another process
			}
			a := testing.AllocsPerRun(3, func() { s.do(t, &small, 0) })
			z := testing.AllocsPerRun(3, func() { s.do(t, &large, 0) })
			if z > 8*a {
				t.Errorf("%s, MIG %v: %.0f allocations for %d devices, %.0f for %d", s.name, mig, a, small.devices, z, large.devices)
			}
		}
	}
}
