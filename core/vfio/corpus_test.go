package vfio_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/vfio"
	"gpurig/fakehw"
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
	refused(t, vfio.Viable(r, 14), vfio.NotViable, geforce, sound, "snd_hda_intel")
	r.echo(geforce, "/sys/bus/pci/drivers/nvidia/unbind")
	refused(t, vfio.Viable(r, 14), vfio.NotViable, sound)
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
	refused(t, err, vfio.GroupShared, geforce, sound, radeon)
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
func TestTheHostsOwnDevicesStay(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		class    pci.Class
		driver   string
		want     refuse.Reason
	}{
		{"a network card", "0000:0b:00.0", 0x020000, "igb", vfio.GroupForeign},
		{"storage", "0000:0b:00.0", 0x010802, "nvme", vfio.GroupForeign},
		{"a USB controller of the board's", "0000:00:14.0", 0x0c0330, "xhci_hcd", vfio.GroupForeign},
		{"a network function of the GPU's own board", "0000:0a:00.4", 0x020000, "igb", vfio.GroupForeign},
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

func TestNotReturnedAfterStop150(t *testing.T) {
	r := start(t, load(t, "workstation"))
	busy := func(node string) []string {
		if node == "/dev/nvidia0" {
			return []string{"Xorg (pid 812)"}
		}
		return nil
	}
	_, err := vfio.Make(r, r.discover(), asks(t, "pci=0a:00.0"), vfio.Options{Busy: busy})
	refused(t, err, vfio.InUse, "Xorg (pid 812)", "/dev/nvidia0")
	if len(r.writes) > 0 {
		t.Errorf("writes before the refusal: %q", r.writes)
	}
	m := load(t, "workstation")
	m.Drivers = slices.DeleteFunc(m.Drivers, func(s string) bool { return s == "vfio-pci" })
	_, err = start(t, m).plan("pci=0a:00.0")
	for _, e := range refuse.As(err) { // of the GPU; Make stops at the first function that cannot be had
		if e.Reason != vfio.NotLoaded || !strings.Contains(e.Hint, "modprobe vfio-pci") {
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
		if gpu {
			continue // the model's own kind: a second GPU of the group is TestGroupsTopology145
		}
		p, err := start(t, m).plan("pci=0a:00.0")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.Devices {
			if (d.Role == vfio.GPU) != (d.BDF == bdf(geforce)) {
				t.Errorf("class %v: %v is %s", class, d.BDF, d.Role)
			}
		}
		_, err = start(t, m).plan("pci=0a:00.2")
		if err == nil {
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

func TestMDevLeak154(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	a40VFs(r)
	was := r.discover()
	left := r.left("0000:e8:00.4", "nvidia-558")
	for range 5 {
		p, err := r.plan("gputype=mdev mdev=nvidia-558", "pci=3b:00.0")
		if err != nil {
			t.Fatal(err)
		}
		r.writes, r.fails = nil, map[int]error{len(p.Writes) - 1: errors.New("full")}
		if err := vfio.Carry(context.Background(), r, p); err == nil {
			t.Fatal("the start did not fail")
		}
		r.same(was, "After a failed start")
	}
	if got := r.left("0000:e8:00.4", "nvidia-558"); got != left || left == "0" {
		t.Errorf("instances left %s; want %s as before", got, left)
	}
}

func (r *rig) left(parent, kind string) string {
	r.t.Helper()
	data, err := r.ReadFile("/sys/bus/pci/devices/" + parent + "/mdev_supported_types/" + kind + "/available_instances")
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// Machines that start at once, each with a plan of the host as it was, get no device
// twice: who comes too late is told, and takes nothing from who was first.
func TestMDevCreateRace156(t *testing.T) {
	for _, tc := range []struct {
		name, profile, ask string
		prepare            func(*rig)
		capacity           int
		reasons            []refuse.Reason
	}{
		{"mediated", "vgpu-a40", "gputype=mdev mdev=A40-24Q pci=e8:00.0", a40VFs, 2, []refuse.Reason{vfio.NoInstances}},
		{"vendor", "vgpu-l40s", "gputype=mdev mdev=L40S-24Q pci=61:00.0", l40sVFs, 2, []refuse.Reason{vfio.NoInstances}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, load(t, tc.profile))
			tc.prepare(r)
			was := r.discover()
			var plans []vfio.Plan
			var refusals []error
			for i := range tc.capacity + 1 { // each makes its plan until it holds or is told that nothing is left
				for {
					p, err := vfio.Make(r, r.discover(), asks(t, tc.ask), vfio.Options{Instance: fmt.Sprint("vm", i)})
					if err == nil {
						if err = vfio.Carry(context.Background(), r, p); err == nil {
							plans = append(plans, p)
							break
						}
					}
					if !errors.Is(err, vfio.HostChanged) {
						refusals = append(refusals, err)
						break
					}
				}
			}
			if len(plans) != tc.capacity || len(refusals) != 1 || !slices.Equal(refuse.Reasons(refusals[0]), tc.reasons) {
				t.Fatalf("%d machines started, refusals %v; want %d and one %v", len(plans), refusals, tc.capacity, tc.reasons)
			}
			for _, p := range plans {
				r.giveBack(p)
			}
			r.same(was, "After all have returned")
		})
	}
}

// Two plans of the same state want the same virtual function: the second is refused,
// and what the first has is left alone.
func TestTheSecondOfTwoPlansTakesNothing(t *testing.T) {
	for _, s := range []story{
		{name: "a virtual function", profile: "vgpu-a40", asks: []string{"gputype=sriov"}, prepare: a40VFs},
		{name: "a virtual function that is off", profile: "vgpu-a40", asks: []string{"gputype=sriov"}},
		{name: "a vendor vGPU", profile: "vgpu-l40s", asks: []string{"gputype=mdev mdev=1148"}, prepare: l40sVFs},
		{name: "a whole GPU", profile: "workstation", asks: []string{"pci=0a:00.0"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			was := r.discover()
			first, err := r.plan(s.asks...)
			if err != nil {
				t.Fatal(err)
			}
			second, _ := r.plan(s.asks...)
			if err := vfio.Carry(context.Background(), r, first); err != nil {
				t.Fatal(err)
			}
			held := r.discover()
			refused(t, vfio.Carry(context.Background(), r, second), vfio.HostChanged)
			r.same(held, "After the second was refused")
			r.giveBack(first)
			r.same(was, "After Return")
		})
	}
}

func TestMDevPathAsPCI157(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	a40VFs(r)
	p := r.carry("gputype=mdev mdev=nvidia-558")
	d := p.Devices[0]
	if n, err := d.Nodes(r); err != nil || vfio.KindOf(n.Device) != vfio.GroupNode {
		t.Errorf("Nodes = %v, %v", n, err)
	}
	args := strings.Join(vfio.Arguments(p, nil), " ")
	if !strings.Contains(args, "sysfsdev=/sys/bus/mdev/devices/"+d.MDev+",") || strings.Contains(args, "host=") || !strings.Contains(args, "bus=gpuport0") {
		t.Errorf("arguments %s; want the mediated device by its path, below a root port", args)
	}
}

func TestVendorVFIONoMDevBus158(t *testing.T) {
	r := start(t, load(t, "vgpu-l40s"))
	_, err := r.plan("gputype=mdev mdev=L40S-2Q")
	refused(t, err, vfio.VFsOff, "sriov-manage -e")
	l40sVFs(r)
	p := r.carry("gputype=mdev mdev=L40S-2Q")
	d := p.Devices[0]
	if d.MDev != "" || d.Type != "1148" || !slices.Equal(r.writes, []string{"echo 1148 > /sys/bus/pci/devices/" + d.BDF.String() + "/nvidia/current_vgpu_type"}) {
		t.Errorf("device %+v, writes %q", d, r.writes)
	}
	q := r.carry("gputype=mdev mdev=nvidia-1148")
	if q.Devices[0].BDF == d.BDF {
		t.Errorf("%v was given twice", d.BDF)
	}
	r.writes = nil
	r.giveBack(p)
	if !slices.Equal(r.writes, []string{"echo 0 > /sys/bus/pci/devices/" + d.BDF.String() + "/nvidia/current_vgpu_type"}) {
		t.Errorf("returned by %q", r.writes)
	}
}

func TestSRIOVRestoreParent160(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	r.echo("2", "/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs")
	p := r.carry("gputype=sriov pci=e8:00.0")
	if got := p.Devices[0].BDF; got.Bus != 0xe8 {
		t.Fatalf("%v is no function of e8:00.0", got)
	}
	r.writes = nil
	r.giveBack(p)
	for _, w := range r.writes {
		if strings.Contains(w, "0000:3b:") {
			t.Errorf("the other parent is written to: %s", w)
		}
	}
	if n := r.function("0000:3b:00.0").SRIOV.Num; n != 2 {
		t.Errorf("the other parent has %d virtual functions", n)
	}
}

// Virtual functions that were turned on for one machine stay while another has one.
func TestVirtualFunctionsOfOthersStay(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	p := r.carry("gputype=sriov pci=e8:00.0")
	q := r.carry("gputype=sriov pci=e8:00.0")
	r.giveBack(p)
	if n, d := r.function("0000:e8:00.0").SRIOV.Num, r.function(q.Devices[0].BDF.String()).Driver; n != 32 || d != "vfio-pci" {
		t.Errorf("%d virtual functions are on, the other machine's has driver %q", n, d)
	}
	r.giveBack(q)
}

func TestSRIOVAlloc161(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	p := r.carry("gputype=sriov", "gputype=sriov", "gputype=sriov vendorid=10de")
	seen := map[pci.BDF]bool{}
	for _, d := range p.Devices {
		if seen[d.BDF] || r.function(d.BDF.String()).Driver != "vfio-pci" {
			t.Errorf("%v twice, or not vfio-pci's", d.BDF)
		}
		seen[d.BDF] = true
	}
	_, err := start(t, load(t, "t4-server")).plan("gputype=sriov")
	refused(t, err, vfio.NoSRIOV)
	r = start(t, load(t, "vgpu-a40"))
	r.echo("1", "/sys/bus/pci/devices/0000:e8:00.0/sriov_numvfs")
	_, err = r.plan("gputype=sriov pci=e8:00.0", "gputype=sriov pci=e8:00.0")
	refused(t, err, vfio.NoFreeVF, "0000:e8:00.0")
}

func TestVGPUTypeListShared162(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	a40VFs(r)
	p := r.carry("gputype=mdev mdev=A40-48Q")
	if p.Devices[0].Type != "nvidia-566" {
		t.Errorf("A40-48Q is %s", p.Devices[0].Type)
	}
	_, err := r.plan("gputype=mdev mdev=A40-4")
	refused(t, err, vfio.UnknownType, "nvidia-560 (A40-4Q)")
	_, err = r.plan("gputype=mdev mdev=A40-4Q pci=e8:00.0")
	refused(t, err, vfio.NoInstances)
}

// Turing boards have no virtual functions: the board is the parent.
func TestMediatedDevicesOfABoard(t *testing.T) {
	m, err := fakehw.WithVGPUs(load(t, "t4-server"), host.VGPUMDev, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, m)
	was := r.discover()
	p := r.carry("gputype=mdev mdev=T4-4Q", "gputype=mdev mdev=nvidia-232")
	if a, b := p.Devices[0], p.Devices[1]; a.MDev == b.MDev {
		t.Errorf("devices %v, %v", a, b)
	}
	_, err = r.plan("pci=" + p.Devices[0].BDF.String())
	refused(t, err, vfio.HasVFs, p.Devices[0].MDev)
	_, err = r.plan("gputype=mdev mdev=T4-4Q")
	refused(t, err, vfio.LeftOver)
	r.giveBack(p)
	r.same(was, "After Return")
}

// MIG-backed types need a GPU instance of their profile.
func TestMIGBackedVGPU(t *testing.T) {
	m := load(t, "vgpu-a100")
	r := start(t, m)
	r.echo("4", "/sys/bus/pci/devices/0000:41:00.0/sriov_numvfs")
	_, err := r.plan("gputype=mdev mdev=A100D-1-10C pci=41:00.0")
	refused(t, err, vfio.NoInstances)
}

// What MIG made does not outlive the driver: the plan says so.
func TestMIGDevicesDoNotComeBack(t *testing.T) {
	r := start(t, load(t, "a100-mig-uniform"))
	m := r.discover()
	i := slices.IndexFunc(m.GPUs, func(g host.GPU) bool { return g.MIG != nil && len(g.MIG.Instances) > 0 })
	p := r.carry("pci=" + m.GPUs[i].PCI.BDF.String())
	if !slices.ContainsFunc(p.Notes, func(n vfio.Note) bool { return n.Reason == string(vfio.MIGLost) && n.Device == "gpu0" }) {
		t.Errorf("notes %v", p.Notes)
	}
	r.giveBack(p)
	if now := r.discover().GPUs[i]; now.PCI.Driver != "nvidia" || now.MIG != nil && len(now.MIG.Instances) > 0 {
		t.Errorf("afterwards %+v", now)
	}
}

func TestMakeRefuses(t *testing.T) {
	noIOMMU := load(t, "rhel-t4")
	for _, f := range noIOMMU.Functions() {
		f.IOMMUGroup = -1
	}
	noIOMMU.IOMMU = false
	withVFs := func(r *rig) { a40VFs(r) }
	for _, tc := range []struct {
		name    string
		m       host.Model
		prepare func(*rig)
		asks    []string
		want    refuse.Reason
		names   []string
	}{
		{"no IOMMU", noIOMMU, nil, []string{"vendorid=10de"}, vfio.NoIOMMU, []string{"intel_iommu=on"}},
		{"more GPUs than one", load(t, "workstation"), nil, []string{""}, vfio.Several, []string{geforce, radeon}},
		{"a GPU twice", load(t, "workstation"), nil, []string{"pci=0a:00.0", "id=1"}, vfio.Given, []string{"gpu0", geforce}},
		{"virtual functions on", load(t, "vgpu-a40"), withVFs, []string{"pci=e8:00.0"}, vfio.HasVFs, []string{"sriov-manage -d"}},
		{"vGPUs without their driver", load(t, "t4-server"), nil, []string{"gputype=mdev mdev=nvidia-222"}, vfio.NoVGPU, nil},
		{"virtual functions of the GPU that goes whole", load(t, "vgpu-a40"), nil, []string{"pci=e8:00.0", "gputype=sriov pci=e8:00.0"}, vfio.NoSRIOV, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, tc.m)
			if tc.prepare != nil {
				tc.prepare(r)
			}
			p, err := r.plan(tc.asks...)
			refused(t, err, tc.want, append(tc.names, "gpu")...)
			if len(p.Devices)+len(p.Writes)+len(r.writes) > 0 {
				t.Errorf("a plan beside the refusal: %+v", p)
			}
		})
	}
	same := asks(t, "pci=0a:00.0", "pci=03:00.0")
	same[1].Name = same[0].Name
	r := start(t, load(t, "workstation"))
	_, err := vfio.Make(r, r.discover(), same, vfio.Options{})
	refused(t, err, vfio.DuplicateName)
}
