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

// Tests named after the entries of the list of reported bugs about vGPUs and virtual
// functions, and others of those.

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
		{"mediated", "vgpu-a40", "gputype=mdev mdev=A40-24Q pci=e8:00.0", a40VFs, 2, []refuse.Reason{vfio.ReasonNoInstances}},
		{"vendor", "vgpu-l40s", "gputype=mdev mdev=L40S-24Q pci=61:00.0", l40sVFs, 2, []refuse.Reason{vfio.ReasonNoInstances}},
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
					if !errors.Is(err, vfio.ReasonHostChanged) {
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
			refused(t, vfio.Carry(context.Background(), r, second), vfio.ReasonHostChanged)
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
	refused(t, err, vfio.ReasonVFsOff, "sriov-manage -e")
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
		if d.Slot != 0 { // whatever its number on the host, a machine looks for function 0 first
			t.Errorf("%v, alone at its port, is function %d there", d.BDF, d.Slot)
		}
		seen[d.BDF] = true
	}
	_, err := start(t, load(t, "t4-server")).plan("gputype=sriov")
	refused(t, err, vfio.ReasonNoSRIOV)
	r = start(t, load(t, "vgpu-a40"))
	r.echo("1", "/sys/bus/pci/devices/0000:e8:00.0/sriov_numvfs")
	_, err = r.plan("gputype=sriov pci=e8:00.0", "gputype=sriov pci=e8:00.0")
	refused(t, err, vfio.ReasonNoFreeVF, "0000:e8:00.0")
}

// A virtual function that is a vGPU is not free.
func TestVirtualFunctionsThatAreVGPUsAreNotFree(t *testing.T) {
	for _, s := range []story{
		{name: "mediated", profile: "vgpu-a40", asks: []string{"gputype=mdev mdev=A40-2Q pci=e8:00.0"}, prepare: a40VFs},
		{name: "vendor", profile: "vgpu-l40s", asks: []string{"gputype=mdev mdev=L40S-2Q pci=61:00.0"}, prepare: l40sVFs},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			p := r.carry(s.asks...)
			board := strings.Fields(s.asks[0])[2]
			for n := 3; n > 0; n-- { // four are on
				q := r.carry("gputype=sriov " + board)
				if q.Devices[0].BDF == p.Devices[0].BDF {
					t.Errorf("%v is a vGPU and was given as it is", q.Devices[0].BDF)
				}
			}
			_, err := r.plan("gputype=sriov " + board)
			refused(t, err, vfio.ReasonNoFreeVF)
		})
	}
}

func TestVGPUTypeListShared162(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	a40VFs(r)
	p := r.carry("gputype=mdev mdev=A40-48Q")
	if p.Devices[0].Type != "nvidia-566" {
		t.Errorf("A40-48Q is %s", p.Devices[0].Type)
	}
	_, err := r.plan("gputype=mdev mdev=A40-4")
	refused(t, err, vfio.ReasonUnknownType, "nvidia-560 (A40-4Q)")
	_, err = r.plan("gputype=mdev mdev=A40-4Q pci=e8:00.0")
	refused(t, err, vfio.ReasonNoInstances)
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
	refused(t, err, vfio.ReasonHasVFs, p.Devices[0].MDev)
	_, err = r.plan("gputype=mdev mdev=T4-4Q")
	refused(t, err, vfio.ReasonLeftOver)
	r.giveBack(p)
	r.same(was, "After Return")
}

// MIG-backed types need a GPU instance of their profile.
func TestMIGBackedVGPU(t *testing.T) {
	m := load(t, "vgpu-a100")
	r := start(t, m)
	r.echo("4", "/sys/bus/pci/devices/0000:41:00.0/sriov_numvfs")
	_, err := r.plan("gputype=mdev mdev=A100D-1-10C pci=41:00.0")
	refused(t, err, vfio.ReasonNoInstances)
}

// What MIG made does not outlive the driver: the plan says so.
func TestMIGDevicesDoNotComeBack(t *testing.T) {
	r := start(t, load(t, "a100-mig-uniform"))
	m := r.discover()
	i := slices.IndexFunc(m.GPUs, func(g host.GPU) bool { return g.MIG != nil && len(g.MIG.Instances) > 0 })
	p := r.carry("pci=" + m.GPUs[i].PCI.BDF.String())
	if !slices.ContainsFunc(p.Notes, func(n vfio.Note) bool { return n.Reason == string(vfio.ReasonMIGLost) && n.Device == "gpu0" }) {
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
		{"no IOMMU", noIOMMU, nil, []string{"vendorid=10de"}, vfio.ReasonNoIOMMU, []string{"intel_iommu=on"}},
		{"more GPUs than one", load(t, "workstation"), nil, []string{""}, vfio.ReasonSeveral, []string{geforce, radeon}},
		{"a GPU twice", load(t, "workstation"), nil, []string{"pci=0a:00.0", "id=1"}, vfio.ReasonGiven, []string{"gpu0", geforce}},
		{"virtual functions on", load(t, "vgpu-a40"), withVFs, []string{"pci=e8:00.0"}, vfio.ReasonHasVFs, []string{"sriov-manage -d"}},
		{"vGPUs without their driver", load(t, "t4-server"), nil, []string{"gputype=mdev mdev=nvidia-222"}, vfio.ReasonNoVGPU, nil},
		{"virtual functions of the GPU that goes whole", load(t, "vgpu-a40"), nil, []string{"pci=e8:00.0", "gputype=sriov pci=e8:00.0"}, vfio.ReasonNoSRIOV, nil},
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
	refused(t, err, vfio.ReasonDuplicateName)
}
