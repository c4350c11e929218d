package machine_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
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

// crowd is a server of n A100 with seven MIG devices each. NVIDIA's driver has
// capability numbers for 32 GPUs, so no profile has more; here the others are cut
// as well, with numbers that go on.
func crowd(tb testing.TB, n int) host.Model {
	tb.Helper()
	const driversMost = 32
	m := gpus(tb, n, min(n, driversMost))
	caps := map[string]device.Node{}
	for _, node := range m.Nodes {
		caps[node.Path] = node
	}
	const perGPU = 15 * 9
	cap := func(n uint32) string { return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n) }
	for i := driversMost; i < n; i++ {
		cut := m.GPUs[i-driversMost].MIG
		g := &m.GPUs[i]
		g.MIG = &host.MIG{}
		for _, gi := range cut.Instances {
			gi.Compute = slices.Clone(gi.Compute)
			gi.Compute[0].UUID = fmt.Sprintf("MIG-%s%02x%02x", gi.Compute[0].UUID[4:36], i, gi.ID)
			g.MIG.Instances = append(g.MIG.Instances, gi)
			at := uint32(3 + perGPU*m.GPUs[i-driversMost].Minor + 9*gi.ID)
			for _, k := range []uint32{at, at + 1} {
				node := caps[cap(k)]
				node.Num.Minor = k + driversMost*perGPU + 1 // behind that of IMEX
				node.Path = cap(node.Num.Minor)
				m.Nodes = append(m.Nodes, node)
			}
		}
	}
	return m
}

// BenchmarkEnter is the whole of it, from a model to the end of a command that
// does nothing, libraries that work included, as the command line does it. All take turns, so that they see
// the same load of the machine; x-8-gpus is the median ratio to the host of eight
// in the same round.
func BenchmarkEnter(b *testing.B) {
	machinetest.Require(b)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	enter := func(m host.Model) func() {
		return func() {
			p := machine.Prepare()
			defer p.Close()
			h, err := live.New(m, live.Options{})
			if err != nil {
				b.Fatal(err)
			}
			o := machinetest.Working(b, h, machine.Options{Command: []string{"true"}, Prepared: p})
			if _, err := machine.Enter(b.Context(), h, o); err != nil {
				b.Fatal(err)
			}
		}
	}
	unshare := func() {
		if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
			b.Skip(err)
		}
	}
	names := []string{"8-gpus", "1-gpu", "64-gpus", "64-gpus-224-mig", "64-gpus-448-mig", "unshare"}
	work := []func(){enter(gpus(b, 8, 0)), enter(gpus(b, 1, 0)), enter(gpus(b, 64, 0)), enter(gpus(b, 64, 32)), enter(crowd(b, 64)), unshare}
	times, ratios, cpus := make([][]float64, len(work)), make([][]float64, len(work)), make([][]float64, len(work))
	for b.Loop() {
		for i, f := range work {
			runtime.GC() // what the one before left, as if each had a process of its own
			start, used := time.Now(), processorTime(b)
			f()
			cpus[i] = append(cpus[i], float64((processorTime(b)-used).Microseconds())/1000)
			times[i] = append(times[i], float64(time.Since(start).Microseconds())/1000)
			ratios[i] = append(ratios[i], times[i][len(times[i])-1]/times[0][len(times[0])-1])
		}
	}
	median := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	b.ReportMetric(0, "ns/op") // of all together: means nothing
	for i, name := range names {
		b.ReportMetric(median(times[i]), name+"-ms")
		b.ReportMetric(median(cpus[i]), name+"-cpu-ms")
		b.ReportMetric(median(ratios[i]), name+"-x-8-gpus")
		b.ReportMetric(median(cpus[i])/median(cpus[0]), name+"-cpu-x-8-gpus")
	}
}

// processorTime is what we and the processes that have ended used, which other work
// on the machine hardly changes.
func processorTime(b *testing.B) time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return sum
}

// BenchmarkContainer is the start and the end of a container that runc makes and that
// does nothing: on an entered host and on this machine, by turns. inside-x-outside is
// the median ratio.
func BenchmarkContainer(b *testing.B) {
	machinetest.RequireNodes(b)
	if _, err := exec.LookPath("runc"); err != nil {
		b.Skip(err)
	}
	const script = layers + `echo up; while read -r n <&3; do runc --root "$1/state" run -b "$1" "gpurig-bench-$n"; echo "$n"; done`
	start := func(f func(stdin, stdout *os.File)) func(n int) {
		in, toIn, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		fromOut, out, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); f(in, out) }()
		b.Cleanup(func() { toIn.Close(); <-done })
		answers := bufio.NewScanner(fromOut)
		if !answers.Scan() || answers.Text() != "up" {
			b.Fatalf("it says %q", answers.Text())
		}
		return func(n int) {
			fmt.Fprintln(toIn, n)
			if !answers.Scan() || answers.Text() != fmt.Sprint(n) {
				b.Fatalf("it says %q", answers.Text())
			}
		}
	}
	c := container{script: "exit 0", plain: true}
	h := machinetest.Host(b, "dgx-a100")
	command := func(dir string) []string {
		return []string{"sh", "-euc", "exec 3<&0 </dev/null; " + script, "sh", dir}
	}
	inside := start(func(stdin, stdout *os.File) {
		_, _ = machine.Enter(b.Context(), h, machine.Options{Command: command(c.bundle(b)), Stdin: stdin, Stdout: stdout})
	})
	outside := start(func(stdin, stdout *os.File) {
		args := command(c.bundle(b))
		cmd := exec.Command("unshare", append([]string{"-m"}, args...)...)
		cmd.Stdin, cmd.Stdout = stdin, stdout
		_ = cmd.Run()
	})
	var ratios, times []float64
	for n := 0; b.Loop(); n++ {
		var took [2]time.Duration
		for i, f := range []func(int){inside, outside} {
			begin := time.Now()
			f(2*n + i)
			took[i] = time.Since(begin)
		}
		times = append(times, float64(took[0].Microseconds())/1000)
		ratios = append(ratios, float64(took[0])/float64(took[1]))
	}
	median := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	b.ReportMetric(0, "ns/op") // of both together: means nothing
	b.ReportMetric(median(times), "inside-ms")
	b.ReportMetric(median(ratios), "inside-x-outside")
}
