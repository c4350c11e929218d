package qemu_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/request"
	"gpurig/core/vfio"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/runner/observe"
	"gpurig/runner/target/qemu"
	"gpurig/runner/target/targettest"
)

func TestMain(m *testing.M) { targettest.Main(m) }

// requireEnv has the tests boot machines, and fail where none boots.
const requireEnv = "GPURIG_REQUIRE_QEMU"

// find skips a test, unless it is to boot.
func find(t *testing.T) qemu.Programs {
	t.Helper()
	if os.Getenv(requireEnv) == "" {
		t.Skip("boots virtual machines for half a minute: make test-qemu")
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	p, err := qemu.Find(t.Context(), filepath.Join(dir, "gpurig-probe"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// passed are the arguments of a machine that gets these GPUs of a host, and the functions
// that it has then, in order.
func passed(t *testing.T, profile string, gpus ...string) (host.Root, []string, []pci.BDF) {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	r, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	var asks []vfio.Ask
	for i, name := range gpus {
		b, err := pci.ParseBDF(name)
		if err != nil {
			t.Fatal(err)
		}
		asks = append(asks, vfio.Ask{Name: "gpu" + string(rune('0'+i)), Request: request.Request{Type: request.Physical, PCI: &b, VM: true}})
	}
	plan, err := vfio.Make(r, m, asks, vfio.Options{Instance: "vm1"})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []vfio.Nodes
	var functions []pci.BDF
	for _, d := range plan.Devices {
		n, err := d.Expected(r)
		if err != nil {
			t.Fatal(err)
		}
		nodes, functions = append(nodes, n), append(functions, d.BDF)
	}
	return r, vfio.Arguments(plan, nodes), functions
}

func texts(all []observe.GuestFunction) string {
	var out []string
	for _, f := range all {
		out = append(out, f.String())
	}
	return strings.Join(out, "\n")
}

// addresses are where a machine put a window: each machine does that on its own.
var addresses = regexp.MustCompile(`Memory at ([0-9a-f]+) `)

// A machine boots with the arguments that are written for the host of Kata's guide, and
// sees the GPU as the guide's lspci prints it. A GeForce with its audio is plugged into a
// second port of it, pulled out by the button of the slot, and plugged into a third port,
// which reserves nothing, so that its large window finds no place (large-bar). At last the
// guide's GPU falls off the bus.
func TestBootedMachineSeesItsGPU(t *testing.T) {
	p := find(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	root, arguments, functions := passed(t, "vgpu-a100", "0000:d0:00.0")
	home, more, both := passed(t, "workstation", "0000:0a:00.0")
	below := func(port string) []string {
		all := strings.ReplaceAll(strings.Join(more, "\n"), "gpuport0", "gpuport"+port)
		return strings.Split(strings.ReplaceAll(all, "chassis=100,slot=0", "chassis=10"+port+",slot="+port), "\n")
	}
	ports := append(slices.Clone(below("1")[:2]), "-device", "pcie-root-port,id=gpuport2,bus=pcie.0,chassis=102,slot=2")
	g, err := qemu.Boot(ctx, p, append(slices.Clone(arguments), ports...), root, functions)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	const guide = "01:00.0 [0302]: [10de:20b9] (rev a1)" +
		"\n\tRegion 0: Memory at X (32-bit, non-prefetchable) [size=16M]" +
		"\n\tRegion 1: Memory at X (64-bit, prefetchable) [size=32G]" +
		"\n\tRegion 3: Memory at X (64-bit, prefetchable) [size=32M]"
	seen, err := g.Look(ctx)
	if got := addresses.ReplaceAllString(texts(seen), "Memory at X "); err != nil || got != guide {
		t.Fatalf("%v\n%s\nwant\n%s", err, texts(seen), guide)
	}
	for _, w := range seen[0].Windows {
		if w.Start == 0 || w.Prefetchable64() != (w.Start >= observe.Above4G) {
			t.Errorf("region %d at %#x; want the 64-bit ones, and no others, above 4G", w.Index, w.Start)
		}
	}
	large := func(f []observe.GuestFunction) bool {
		return len(f) == 3 && slices.ContainsFunc(f[1].Windows, func(w observe.Window) bool { return w.Size == 32<<30 && w.Start >= observe.Above4G })
	}
	if err := g.Plug(ctx, below("1"), home, both); err != nil {
		t.Fatal(err)
	}
	seen, err = g.Until(ctx, large)
	if err != nil || seen[1].Port != 1 || seen[1].ID.Device != 0x2684 || seen[2].Port != 1 || seen[2].BDF.Function != 1 {
		t.Fatalf("plugged in: %v\n%s", err, texts(seen))
	}
	if err := g.Unplug(ctx, "gpuport1-0"); err != nil {
		t.Fatal(err)
	}
	if seen, err = g.Until(ctx, func(f []observe.GuestFunction) bool { return len(f) == 1 }); err != nil {
		t.Fatalf("pulled out, and still there: %v\n%s", err, texts(seen))
	}
	if err := g.Plug(ctx, below("2"), home, both); err != nil {
		t.Fatal(err)
	}
	// The audio's only window comes last.
	seen, err = g.Until(ctx, func(f []observe.GuestFunction) bool {
		return len(f) == 3 && len(f[2].Windows) > 0 && f[2].Windows[0].Start > 0
	})
	if err != nil || seen[1].Port != 2 || large(seen) {
		t.Errorf("behind a port that reserves nothing: %v\n%s", err, texts(seen))
	}
	if err := g.Lose("gpuport0-0"); err != nil {
		t.Fatal(err)
	}
	if seen, err = g.Look(ctx); err != nil || len(seen) != 3 || !seen[0].Lost || seen[1].Lost {
		t.Errorf("a GPU that fell off the bus: %v\n%s", err, texts(seen))
	}
}
