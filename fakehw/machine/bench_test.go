package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/live"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/profiles"
)

// gpus is a server of n A100, the first of which are cut into seven MIG devices
// each.
func gpus(tb testing.TB, n, cut int) host.Model {
	tb.Helper()
	var at []string
	for i := range n {
		at = append(at, fmt.Sprintf("%q", fmt.Sprintf("%02x:00.0", 0x10+i)))
	}
	list := func(at []string) string { return "[" + strings.Join(at, ", ") + "]" }
	text := "# a server\nkernel: 5.15.0-1053-nvidia\nos: {id: ubuntu, version: \"22.04\"}\niommu: true\ndriver: {version: \"535.113.01\"}\ngpus:\n"
	if cut > 0 {
		text += "  - {product: a100-sxm4-40gb, at: " + list(at[:cut]) + ", mig: [" + strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", ") + "]}\n"
	}
	if cut < n {
		text += "  - {product: a100-sxm4-40gb, at: " + list(at[cut:]) + "}\n"
	}
	p, err := profiles.Parse("server.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// BenchmarkEnter is the whole of it, from a model to the end of a command that
// does nothing, libraries that work included.
func BenchmarkEnter(b *testing.B) {
	machinetest.Require(b)
	b.Run("unshare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
				b.Skip(err)
			}
		}
	})
	for _, bc := range []struct{ gpus, cut int }{{1, 0}, {8, 0}, {64, 32}} {
		b.Run(fmt.Sprintf("gpus=%d/mig=%d", bc.gpus, 7*bc.cut), func(b *testing.B) {
			m := gpus(b, bc.gpus, bc.cut)
			b.ReportAllocs()
			for b.Loop() {
				h, err := live.New(m, live.Options{})
				if err != nil {
					b.Fatal(err)
				}
				o := machinetest.Working(b, h, machine.Options{Stdin: os.Stdin, Command: []string{"true"}})
				if _, err := machine.Enter(b.Context(), h, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
