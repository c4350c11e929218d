package live_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/live"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// writable returns the paths that can be written to, by the attribute's name.
func (r *rig) writable() map[string][]string {
	out := map[string][]string{}
	ours, model := map[string]bool{}, r.Model()
	for _, f := range model.Functions() {
		ours[f.BDF.String()] = true
	}
	_ = r.Tree().Walk(func(p string, e *tree.Entry) error {
		if _, err := pci.ParseBDF(path.Base(path.Dir(p))); err == nil && !ours[path.Base(path.Dir(p))] || strings.Contains(p, "/power/") {
			return nil // of the chassis, where nothing can be done
		}
		if e.Mode.IsRegular() && e.Mode&0o222 != 0 && strings.HasPrefix(p, "/sys/") {
			out[path.Base(p)] = append(out[path.Base(p)], p)
		}
		return nil
	})
	return out
}

// words are what is written in a random walk: what attributes want, and what
// they do not.
func (r *rig) words() []string {
	out := []string{
		"1\n", "0\n", "1", "0x1", "2", "32", "99999", "-1", "", "\n", "\x00", "vfio-pci\n", "vfio-pci", "nvidia\n", "snd_hda_intel", "none",
		"10de 20b0", "10de 2684\n", "10de 2235", "10de 26b9", "1002 744c 1002", "10de", "557\n", "558", "1148\n", "1147", "y", "off",
		uuid, uuid[:35] + "4\n", strings.ToUpper(uuid[:35] + "5"), "change",
	}
	m := r.Model()
	for _, f := range m.Functions() {
		out = append(out, f.BDF.String(), f.BDF.String()+"\n")
	}
	return out
}

// Whatever is written, in whatever order: the tree is that of the model, and
// what is refused changes nothing.
func TestTheTreeFollowsAnyWrites(t *testing.T) {
	for _, name := range []string{"workstation", "vgpu-a40", "vgpu-l40s", "a100-mig-mixed", "igx-orin"} {
		t.Run(name, func(t *testing.T) {
			r := start(t, name)
			rng := rand.New(rand.NewPCG(1, 2))
			done := 0
			for range 150 {
				at := r.writable()
				names := make([]string, 0, len(at))
				for n := range at {
					names = append(names, n)
				}
				slices.Sort(names)
				pick := at[names[rng.IntN(len(names))]]
				p := pick[rng.IntN(len(pick))]
				words := r.words()
				data := words[rng.IntN(len(words))]
				before, model := r.Tree().Sum(), r.Model()
				no := r.Write(p, []byte(data))
				changed := r.Tree().Sum() != before
				if no != 0 && changed {
					t.Fatalf("echo %q > %s: %v, and the tree changed", data, p, no)
				}
				if changed {
					done++
					r.consistent()
				}
				if t.Failed() {
					t.Fatalf("after echo %q > %s on %+v", data, p, model)
				}
			}
			if done < 5 {
				t.Errorf("only %d writes changed anything: this walk proves little", done)
			}
		})
	}
}

// Every function that loses its driver and gets it back is what it was, one by
// one and all at once. MIG instances alone do not come back.
func TestUnbindingAndRebindingGivesTheFirstTreeBack(t *testing.T) {
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			for i := range m.GPUs {
				if m.GPUs[i].MIG != nil {
					m.GPUs[i].MIG = &host.MIG{}
				}
			}
			m.Nodes = slices.DeleteFunc(m.Nodes, instanceNode)
			r := startModel(t, m)
			r.consistent()
			first := r.Tree().Clone()
			var bound []*host.PCIFunction
			for _, f := range m.Functions() {
				if f.Driver != "" {
					bound = append(bound, f)
				}
			}
			for _, f := range bound {
				r.echo(f.BDF.String(), f.Driver+"/unbind", 0)
				r.consistent()
				r.echo(f.BDF.String(), f.Driver+"/bind", 0)
				if diff := unlike(first, r.Tree()); diff != "" {
					t.Fatalf("%s is not what it was:\n%s", f.BDF, diff)
				}
			}
			// The lowest free number is given, so they come back in the order in which
			// they got theirs.
			slices.SortStableFunc(bound, func(a, b *host.PCIFunction) int { return numberOf(&m, a.BDF) - numberOf(&m, b.BDF) })
			for _, f := range slices.Backward(bound) {
				r.echo(f.BDF.String()+"\n", f.Driver+"/unbind", 0)
			}
			r.consistent()
			for _, f := range bound {
				r.echo(f.BDF.String(), f.Driver+"/bind", 0)
			}
			if !inOneOrder(m) { // then no order of binding gives the same minors and the same cards
				for i, g := range r.Model().GPUs {
					if g.UUID != m.GPUs[i].UUID || g.Index != m.GPUs[i].Index {
						t.Errorf("%s, index %d; want %s, %d", g.UUID, g.Index, m.GPUs[i].UUID, m.GPUs[i].Index)
					}
				}
				r.consistent()
				return
			}
			if diff := unlike(first, r.Tree()); diff != "" {
				t.Errorf("all unbound and bound, it is not what it was:\n%s", diff)
			}
		})
	}
}

// inOneOrder reports whether minors and cards of NVIDIA's GPUs count alike.
func inOneOrder(m host.Model) bool {
	for _, a := range m.NVIDIAGPUs() {
		for _, b := range m.NVIDIAGPUs() {
			if a.Card >= 0 && b.Card >= 0 && a.Minor >= 0 && b.Minor >= 0 && (a.Card < b.Card) != (a.Minor < b.Minor) {
				return false
			}
		}
	}
	return true
}

// numberOf orders functions by the minor or card of their GPU.
func numberOf(m *host.Model, a pci.BDF) int {
	for _, g := range m.GPUs {
		if g.PCI != nil && g.PCI.BDF == a {
			return max(g.Card, g.Minor)
		}
	}
	return 1000
}

// Drivers give the lowest number that is free: a GPU that comes back first gets
// another's.
func TestMinorsAreGivenInTheOrderOfBinding(t *testing.T) {
	r := start(t, "dgx-a100")
	m := r.Model()
	gpus := m.NVIDIAGPUs()
	a, b := gpus[0].PCI.BDF, gpus[1].PCI.BDF
	for _, x := range []pci.BDF{a, b} {
		r.echo(x.String(), "nvidia/unbind", 0)
	}
	for _, x := range []pci.BDF{b, a} {
		r.echo(x.String(), "nvidia/bind", 0)
	}
	m = r.Model()
	after := m.NVIDIAGPUs()
	if after[0].PCI.BDF != a || after[0].Minor != 1 || after[1].Minor != 0 || after[0].UUID != gpus[0].UUID {
		t.Errorf("index 0: %+v, index 1: %+v; want the same UUIDs in the same order, and minors exchanged", after[0], after[1])
	}
	r.consistent()
}

func FuzzWrite(f *testing.F) {
	f.Add("/sys/bus/pci/drivers_probe", "0000:0a:00.0\n")
	f.Add("/sys/bus/pci/drivers/nvidia/unbind", "0000:0a:00.0")
	f.Add("/sys/bus/pci/drivers/vfio-pci/new_id", "10de 2684 ffffffff 0x")
	f.Add("/sys/devices/pci0000:00/0000:00:02.0/0000:0a:00.0/driver_override", "vfio-pci\x00\n")
	f.Add("/sys/devices/pci0000:e7/0000:e7:01.0/0000:e8:00.4/mdev_supported_types/nvidia-558/create", uuid)
	f.Add("/sys/devices/pci0000:e7/0000:e7:01.0/0000:e8:00.0/sriov_numvfs", "+0x2\n")
	f.Add("/sys/devices/pci0000:00/0000:00:02.0/0000:0a:00.0/enable", "07\n")
	f.Add("relative/../x", "1")
	// Hosts are made anew only when a write has changed them.
	var models []host.Model
	for _, name := range []string{"workstation", "vgpu-a40"} {
		m := start(f, name).Model()
		models = append(models, m)
	}
	rigs, changed := make([]*rig, len(models)), make([]bool, len(models))
	f.Fuzz(func(t *testing.T, p, data string) {
		for i := range models {
			if rigs[i] == nil || changed[i] {
				rigs[i], changed[i] = startModel(t, models[i]), false
				rigs[i].Watch(func(live.Event) { changed[i] = true })
			}
			r := rigs[i]
			r.t = t
			no := r.Write(p, []byte(data))
			if no != 0 && changed[i] {
				t.Fatalf("%v, and the host changed", no)
			}
			if changed[i] {
				r.consistent()
			}
		}
	})
}

// A write makes the whole tree anew: at the size that hurts, of eight GPUs and
// six switches, and of a host with 32 virtual functions.
func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"dgx-a100", "vgpu-a40"} {
		b.Run(name, func(b *testing.B) {
			r := start(b, name)
			m := r.Model()
			if len(m.MDevs) == 0 && name == "vgpu-a40" {
				r.echo("32", m.GPUs[0].PCI.BDF.String()+"/sriov_numvfs", 0)
			}
			p := r.path(m.GPUs[0].PCI.BDF.String() + "/driver_override")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if no := r.Write(p, fmt.Appendf(nil, "driver%d\n", i)); no != 0 {
					b.Fatal(no)
				}
			}
		})
	}
}
