package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// server writes a profile of n A100, the first of which are cut into seven MIG
// devices each, and returns its file.
func server(tb testing.TB, n, cut int) string {
	tb.Helper()
	entry := func(first, last int, more string) string {
		var at []string
		for i := first; i < last; i++ {
			at = append(at, fmt.Sprintf("\"%02x:00.0\"", 0x10+i))
		}
		if len(at) == 0 {
			return ""
		}
		return "  - {product: a100-sxm4-40gb, at: [" + strings.Join(at, ", ") + "]" + more + "}\n"
	}
	text := "# A server.\nkernel: 5.15.0-1053-nvidia\nos: {id: ubuntu, version: \"22.04\"}\niommu: true\ndriver: {version: \"535.113.01\"}\ngpus:\n" +
		entry(0, cut, ", mig: ["+strings.TrimSuffix(strings.Repeat("1g.5gb, ", 7), ", ")+"]") + entry(cut, n, "")
	file := filepath.Join(tb.TempDir(), "server.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	return file
}

// enterable skips where this machine cannot be another.
func enterable(tb testing.TB) (program string) {
	tb.Helper()
	needRoot(tb)
	program = ours(tb, "gpurig")
	if out, err := exec.Command(program, "host", "enter", "no-gpu", "--", "true").CombinedOutput(); err != nil {
		tb.Skipf("no fake machine can be entered here: %v: %s", err, out)
	}
	return program
}

// BenchmarkEnterProcess is "gpurig host enter PROFILE -- true", the whole process:
// against "unshare -m true", and a host of 64 GPUs with as many MIG devices as the
// driver has numbers for against one of eight.
func BenchmarkEnterProcess(b *testing.B) {
	program := enterable(b)
	run := func(name string, args ...string) func() { return func() { output(b, exec.Command(name, args...)) } }
	enter := func(host string) func() { return run(program, "host", "enter", host, "--", "true") }
	eight := enter(server(b, 8, 0))
	b.Run("dgx-a100/unshare", func(b *testing.B) { turns(b, enter("dgx-a100"), run("unshare", "-m", "true")) })
	b.Run("gpus=64/gpus=8", func(b *testing.B) { turns(b, enter(server(b, 64, 0)), eight) })
	b.Run("gpus=64,mig=224/gpus=8", func(b *testing.B) { turns(b, enter(server(b, 64, 32)), eight) })
}

// BenchmarkLspci is lspci on a fake host and on this machine, without the start of
// the program, for each device: of a run, what "lspci --version" takes is taken off.
func BenchmarkLspci(b *testing.B) {
	program := enterable(b)
	if _, err := exec.LookPath("lspci"); err != nil {
		b.Skip(err)
	}
	const script = `
t() { a=$(date +%s%N); for i in 1 2 3 4 5 6 7 8 9 10; do "$@" >/dev/null; done; echo $(($(date +%s%N) - a)); }
lspci | wc -l; t lspci; t lspci --version`
	each := func(cmd *exec.Cmd) float64 {
		lines := strings.Fields(string(bytes.TrimSpace(output(b, cmd))))
		if len(lines) != 3 {
			b.Fatalf("%v printed %q", cmd.Args, lines)
		}
		var n [3]float64
		for i, text := range lines {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			n[i] = v
		}
		if n[0] == 0 {
			b.Skip("no PCI devices here")
		}
		return (n[1] - n[2]) / 10 / n[0] / 1000
	}
	var inside, outside, ratios []float64
	for b.Loop() {
		x := each(exec.Command(program, "host", "enter", "dgx-a100", "--", "sh", "-c", script))
		y := each(exec.Command("sh", "-c", script))
		inside, outside, ratios = append(inside, x), append(outside, y), append(ratios, x/y)
	}
	b.ReportMetric(0, "ns/op") // of both together: means nothing
	b.ReportMetric(median(inside), "inside-us/device")
	b.ReportMetric(median(outside), "real-us/device")
	b.ReportMetric(median(ratios), "x-real")
}
