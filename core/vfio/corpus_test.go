package vfio_test

import (
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/vfio"
)

// Tests named after the entries of the list of reported bugs that they keep out.

const (
	geforce = "0000:0a:00.0" // of profile workstation, in group 14 with its sound
	sound   = "0000:0a:00.1"
	radeon  = "0000:03:00.0"
)

func bdf(s string) pci.BDF {
	b, err := pci.ParseBDF(s)
	if err != nil {
		panic(err)
	}
	return b
}

// beside returns the workstation with one function more in the GeForce's group.
func beside(t testing.TB, at string, class pci.Class, driver string) host.Model {
	t.Helper()
	m := load(t, "workstation")
	m.Companions = append(m.Companions, host.PCIFunction{BDF: bdf(at), Class: class, ID: pci.ID{Vendor: 0x8086, Device: 0x1533}, Driver: driver, NUMANode: -1, IOMMUGroup: 14})
	slices.SortFunc(m.Companions, func(a, b host.PCIFunction) int { return a.BDF.Compare(b.BDF) })
	return m
}

// refused wants one refusal for this reason, whose text names what is listed.
func refused(t testing.TB, err error, reason refuse.Reason, names ...string) {
	t.Helper()
	all := refuse.As(err)
	if len(all) != 1 || all[0].Reason != reason || all[0].Hint == "" {
		t.Fatalf("refused with %v, %v; want one refusal for %s, with a hint", refuse.Reasons(err), err, reason)
	}
	for _, n := range names {
		if !strings.Contains(err.Error()+" "+all[0].Hint, n) {
			t.Errorf("%q (hint %q) does not name %s", err, all[0].Hint, n)
		}
	}
}

func TestCompanionNotBound142(t *testing.T) {
	r := start(t, beside(t, "0000:00:01.0", pci.ClassBridge, "pcieport"))
	was := r.discover()
	p := r.carry("pci=0a:00.0")
	var order []string
	for _, w := range r.writes {
		if strings.Contains(w, "0000:00:01.0") {
			t.Errorf("the bridge is written to: %s", w)
		}
		order = append(order, w[strings.LastIndex(w, "/")+1:])
	}
	if got, want := strings.Join(order, " "), "unbind unbind driver_override driver_override drivers_probe drivers_probe"; got != want {
		t.Errorf("writes %q; want all to be let go before the first is taken: %q", got, want)
	}
	if g, s := r.function(geforce).Driver, r.function(sound).Driver; g != "vfio-pci" || s != "vfio-pci" {
		t.Errorf("drivers %q, %q; want both endpoints to be vfio-pci's", g, s)
	}
	if err := vfio.Viable(r, 14); err != nil {
		t.Errorf("Viable = %v", err)
	}
	r.giveBack(p)
	r.same(was, "After Return")
}

func TestViable(t *testing.T) {
	r := start(t, beside(t, "0000:00:01.0", pci.ClassBridge, "pcieport"))
	refused(t, vfio.Viable(r, 14), vfio.ReasonNotViable, geforce, sound, "snd_hda_intel")
	r.echo(geforce, "/sys/bus/pci/drivers/nvidia/unbind")
	refused(t, vfio.Viable(r, 14), vfio.ReasonNotViable, sound)
	if err := vfio.Viable(r, 14); strings.Contains(err.Error(), geforce) || strings.Contains(err.Error(), "0000:00:01.0") {
		t.Errorf("%v names what is not in the way", err)
	}
	r.echo(sound, "/sys/bus/pci/drivers/snd_hda_intel/unbind")
	if err := vfio.Viable(r, 14); err != nil {
		t.Errorf("a group without drivers: %v", err)
	}
}

func TestGroupTwoAddressSpaces144(t *testing.T) {
	p, err := start(t, load(t, "workstation")).plan("pci=0a:00.0", "pci=03:00.0")
	if err != nil {
		t.Fatal(err)
	}
	ports := map[int][]int{}
	for _, d := range p.Devices {
		ports[d.Group] = append(ports[d.Group], d.Port)
	}
	for group, of := range ports {
		if slices.Max(of) != slices.Min(of) {
			t.Errorf("functions of group %d are below the ports %v", group, of)
		}
	}
	if p.Devices[0].Slot != 0 || p.Devices[1].Slot != 1 || p.Devices[1].Role != vfio.Companion {
		t.Errorf("devices %+v; want the GPU as function 0 and its sound as 1", p.Devices)
	}
}

// twoInOne is a workstation whose two GPUs are in one group.
func twoInOne(t testing.TB) host.Model {
	m := load(t, "workstation")
	for _, f := range m.Functions() {
		f.IOMMUGroup = 14
	}
	return m
}

func TestGroupsTopology145(t *testing.T) {
	r := start(t, twoInOne(t))
	_, err := r.plan("pci=0a:00.0")
	refused(t, err, vfio.ReasonGroupShared, geforce, sound, radeon)
	if len(r.writes) > 0 {
		t.Errorf("writes before the refusal: %q", r.writes)
	}
	was := r.discover()
	p := r.carry("pci=0a:00.0", "pci=03:00.0")
	slots := map[int]bool{}
	for _, d := range p.Devices {
		if d.Port != 0 || slots[d.Slot] {
			t.Errorf("%+v: want all of the group below one port, each in a slot of its own", d)
		}
		slots[d.Slot] = true
	}
	r.giveBack(p)
	r.same(was, "After Return")
}

// A group with what the host needs is never taken.
func TestTheHostsOwnDevicesStayA35(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		class    pci.Class
		driver   string
		want     refuse.Reason
	}{
		{"a network card", "0000:0b:00.0", 0x020000, "igb", vfio.ReasonGroupForeign},
		{"storage", "0000:0b:00.0", 0x010802, "nvme", vfio.ReasonGroupForeign},
		{"a USB controller of the board's", "0000:00:14.0", 0x0c0330, "xhci_hcd", vfio.ReasonGroupForeign},
		{"a network function of the GPU's own board", "0000:0a:00.4", 0x020000, "igb", vfio.ReasonGroupForeign},
		{"a network card without a driver", "0000:0b:00.0", 0x020000, "", ""},
		{"the GPU's own USB controller", "0000:0a:00.2", 0x0c0330, "xhci_hcd", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, beside(t, tc.at, tc.class, tc.driver))
			p, err := r.plan("pci=0a:00.0")
			if tc.want != "" {
				refused(t, err, tc.want, tc.at, tc.driver)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			goes := slices.ContainsFunc(p.Devices, func(d vfio.Device) bool { return d.BDF == bdf(tc.at) })
			if own := strings.HasPrefix(tc.at, "0000:0a:"); goes != own || len(p.Notes) == 0 {
				t.Errorf("%s goes along: %v; notes %v", tc.at, goes, p.Notes)
			}
		})
	}
}

// In the kernel's mode without an IOMMU there is a group, and nothing behind it.
func TestNoIOMMUModeA35(t *testing.T) {
	r := start(t, load(t, "workstation"))
	r.texts = map[string]string{"/sys/kernel/iommu_groups/14/name": "vfio-noiommu\n"}
	_, err := r.plan("pci=0a:00.0")
	refused(t, err, vfio.ReasonNoIOMMU, geforce)
	if _, err := r.plan("pci=03:00.0"); err != nil {
		t.Errorf("the GPU of another group: %v", err)
	}
}

func TestLargeBAR146(t *testing.T) {
	for _, tc := range []struct{ host, ask, want string }{
		{"vgpu-a100", "pci=41:00.0", "pref64-reserve=256G"}, // 128 GiB and 32 MiB
		{"dgx-a100", "pci=07:00.0", "pref64-reserve="},
		{"workstation", "pci=0a:00.0", "pref64-reserve="},
	} {
		r := start(t, load(t, tc.host))
		p, err := r.plan(tc.ask)
		if err != nil {
			t.Fatal(err)
		}
		var sum uint64
		for _, d := range p.Devices {
			for _, b := range r.function(d.BDF.String()).BARs {
				if b.Flags&0x2000 != 0 {
					sum += b.Size
				}
			}
		}
		if w := p.Devices[0].Window; w < sum || w&(w-1) != 0 || w >= 2*sum {
			t.Errorf("%s: the port reserves %d bytes for windows of %d; want the next power of two", tc.host, w, sum)
		}
		if args := strings.Join(vfio.Arguments(p, nil), " "); !strings.Contains(args, tc.want) {
			t.Errorf("%s: %s; want %s", tc.host, args, tc.want)
		}
	}
}

func TestVFIOControlNode149(t *testing.T) {
	for p, want := range map[string]vfio.NodeKind{
		"/dev/vfio/vfio": vfio.ControlNode, "/dev/iommu": vfio.ControlNode, "/dev/vfio/12": vfio.GroupNode, "/dev/vfio/noiommu-0": vfio.GroupNode,
		"/dev/vfio/devices/vfio3": vfio.DeviceNode, "/dev/vfio/devices": "", "/dev/vfio/": "", "/dev/vfio/012": "", "/dev/vfio/devices/12": "", "/dev/nvidia0": "",
	} {
		if got := vfio.KindOf(p); got != want {
			t.Errorf("KindOf(%s) = %q; want %q", p, got, want)
		}
	}
}

// A device that is in use is never taken (A35).
func TestNotReturnedAfterStop150(t *testing.T) {
	r := start(t, load(t, "workstation"))
	busy := func(node string) []string {
		if node == "/dev/nvidia0" {
			return []string{"Xorg (pid 812)"}
		}
		return nil
	}
	_, err := vfio.Make(r, r.discover(), asks(t, "pci=0a:00.0"), vfio.Options{Busy: busy})
	refused(t, err, vfio.ReasonInUse, "Xorg (pid 812)", "/dev/nvidia0")
	if len(r.writes) > 0 {
		t.Errorf("writes before the refusal: %q", r.writes)
	}
	m := load(t, "workstation")
	m.Drivers = slices.DeleteFunc(m.Drivers, func(s string) bool { return s == "vfio-pci" })
	_, err = start(t, m).plan("pci=0a:00.0")
	for _, e := range refuse.As(err) { // of the GPU; Make stops at the first function that cannot be had
		if e.Reason != vfio.ReasonNotLoaded || !strings.Contains(e.Hint, "modprobe vfio-pci") {
			t.Errorf("without vfio-pci: %v, hint %q", e, e.Hint)
		}
	}
	if err == nil {
		t.Error("without vfio-pci: a plan")
	}
}

func TestSiblingAudioCounted152(t *testing.T) {
	for class, gpu := range map[pci.Class]bool{pci.ClassVGA: true, pci.Class3D: true, pci.ClassAudio: false, 0x0c0330: false, 0x0c8000: false} {
		m := load(t, "workstation")
		m.Companions = append(m.Companions, host.PCIFunction{BDF: bdf("0000:0a:00.2"), Class: class, ID: pci.ID{Vendor: pci.NVIDIA, Device: 0x1ad6}, NUMANode: -1, IOMMUGroup: 14})
		r := start(t, m)
		p, err := r.plan("pci=0a:00.0")
		if gpu {
			refused(t, err, vfio.ReasonGroupShared, "0000:0a:00.2")
			continue
		}
		if err != nil || len(p.Devices) != 3 {
			t.Fatalf("class %v: %+v, %v; want the GPU and both functions beside it", class, p.Devices, err)
		}
		for _, d := range p.Devices {
			if (d.Role == vfio.GPU) != (d.BDF == bdf(geforce)) {
				t.Errorf("class %v: %v is %s", class, d.BDF, d.Role)
			}
		}
		if _, err := r.plan("pci=0a:00.2"); err == nil {
			t.Errorf("class %v was given as a GPU", class)
		}
	}
}

func TestIOMMUFD153(t *testing.T) {
	r := start(t, load(t, "vgpu-l40s")) // has /dev/iommu
	p := r.carry("pci=61:00.0")
	n, err := p.Devices[0].Nodes(r)
	if want := (vfio.Nodes{Control: "/dev/iommu", Device: "/dev/vfio/devices/vfio0"}); err != nil || n != want {
		t.Errorf("on a host with iommufd Nodes = %v, %v; want %v", n, err, want)
	}
	if args := strings.Join(vfio.Arguments(p, []vfio.Nodes{n}), " "); !strings.Contains(args, "-object iommufd,id=iommufd0") || !strings.Contains(args, "host=0000:61:00.0") || !strings.Contains(args, ",iommufd=iommufd0") {
		t.Errorf("arguments %s", args)
	}
	r = start(t, load(t, "workstation"))
	p = r.carry("pci=0a:00.0")
	n, err = p.Devices[0].Nodes(r)
	want := vfio.Nodes{Control: "/dev/vfio/vfio", Device: "/dev/vfio/14"}
	if err != nil || n != want {
		t.Errorf("on a host without iommufd Nodes = %v, %v; want %v", n, err, want)
	}
	if e, err := p.Devices[0].Expected(r); err != nil || e != want {
		t.Errorf("Expected = %v, %v; want %v", e, err, want)
	}
	if args := strings.Join(vfio.Arguments(p, []vfio.Nodes{n, n}), " "); strings.Contains(args, "iommufd") || !strings.Contains(args, "addr=0x0.0x0,multifunction=on") || !strings.Contains(args, "host=0000:0a:00.1") {
		t.Errorf("arguments %s", args)
	}
}

// What giving a GPU away does beside is noted, and only where it does.
func TestNotes(t *testing.T) {
	nobody := func(string) []string { return nil }
	for _, tc := range []struct {
		name, host, ask string
		busy            func(string) []string
		note            refuse.Reason
		noted           bool
	}{
		{"the screen's GPU", "workstation", "pci=03:00.0", nil, vfio.ReasonConsole, true},
		{"another GPU", "workstation", "pci=0a:00.0", nil, vfio.ReasonConsole, false},
		{"a daemon that may have it open", "dgx-h100", "pci=1b:00.0", nil, vfio.ReasonPersist, true},
		{"a daemon that has it not", "dgx-h100", "pci=1b:00.0", nobody, vfio.ReasonPersist, false},
		{"no daemon", "workstation", "pci=0a:00.0", nil, vfio.ReasonPersist, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, load(t, tc.host))
			p, err := vfio.Make(r, r.discover(), asks(t, tc.ask), vfio.Options{Busy: tc.busy})
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.ContainsFunc(p.Notes, func(n vfio.Note) bool { return n.Reason == string(tc.note) }); got != tc.noted {
				t.Errorf("%s noted: %v; notes %v", tc.note, got, p.Notes)
			}
		})
	}
}
