package request_test

import (
	"fmt"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/request"
)

func bdf(s string) pci.BDF {
	b, err := pci.ParseBDF(s)
	if err != nil {
		panic(err)
	}
	return b
}

// gpu returns a GPU with its four numberings and a driver.
func gpu(at string, vendor, product uint16, driver string, card, minor, index int, uuid string) host.GPU {
	return host.GPU{
		PCI:  &host.PCIFunction{BDF: bdf(at), ID: pci.ID{Vendor: vendor, Device: product}, Class: pci.ClassVGA, Driver: driver},
		UUID: uuid, Card: card, Render: -1, Minor: minor, Index: index,
	}
}

// withNodes adds the nodes that the GPUs say they have.
func withNodes(m host.Model) host.Model {
	for _, g := range m.GPUs {
		if g.Card >= 0 {
			m.Nodes = append(m.Nodes, device.Node{Path: fmt.Sprintf("/dev/dri/card%d", g.Card), Type: device.Char, Num: device.Num{Major: 226}})
		}
		if g.Minor >= 0 {
			m.Nodes = append(m.Nodes, device.Node{Path: fmt.Sprintf("/dev/nvidia%d", g.Minor), Type: device.Char, Num: device.Num{Major: 195}})
		}
	}
	return m
}

func mig(cis ...host.ComputeInstance) *host.MIG {
	m := &host.MIG{}
	for i, ci := range cis {
		ci.Index = i
		m.Instances = append(m.Instances, host.GPUInstance{ID: i + 1, Compute: []host.ComputeInstance{ci}})
	}
	return m
}

func hosts() map[string]host.Model {
	platform := host.GPU{Platform: "17000000.gpu", UUID: orinUUID, Card: -1, Render: -1, Minor: 0, Index: 0}
	tegra := &host.Tegra{Chip: "tegra234"}
	m1, m2 := gpu("41:00.0", pci.NVIDIA, 0x20b2, "nvidia", 1, 0, 0, "GPU-"+gpuUUID), gpu("65:00.0", pci.NVIDIA, 0x20b2, "nvidia", 2, 1, 1, "GPU-"+gpuUUID2)
	m1.MIG = mig(host.ComputeInstance{ID: 0, UUID: "MIG-" + migUUID}, host.ComputeInstance{ID: 0, UUID: "MIG-" + orinUUID})
	m2b := m2
	m2b.MIG = mig(host.ComputeInstance{ID: 0, UUID: "MIG-" + gpuUUID})
	empty := gpu("41:00.0", pci.NVIDIA, 0x20b2, "nvidia", 1, 0, 0, "GPU-"+gpuUUID)
	empty.MIG = &host.MIG{}
	noNode := gpu("41:00.0", pci.NVIDIA, 0x20b2, "nvidia", -1, -1, 0, "GPU-"+gpuUUID)
	return map[string]host.Model{
		// No numbering agrees with another (dri-index-not-minor), and a console is card0.
		"server": withNodes(host.Model{GPUs: []host.GPU{
			gpu("03:00.0", pci.NVIDIA, 0x20b2, "nvidia", 2, 0, 1, "GPU-"+gpuUUID),
			gpu("82:00.0", pci.NVIDIA, 0x20b2, "nvidia", 1, 1, 0, "GPU-"+gpuUUID2),
			gpu("c2:00.0", 0x1a03, 0x2000, "ast", 0, -1, -1, ""),
		}, Companions: []host.PCIFunction{{BDF: bdf("03:00.1"), Class: pci.ClassAudio}}}),
		"desktop": withNodes(host.Model{GPUs: []host.GPU{
			gpu("03:00.0", pci.AMD, 0x744c, "amdgpu", 0, -1, -1, ""),
			gpu("0a:00.0", pci.NVIDIA, 0x2684, "nvidia", 1, 0, 0, "GPU-"+gpuUUID),
		}}),
		"half": withNodes(host.Model{GPUs: []host.GPU{ // Intel works, NVIDIA has no driver, another is held for a VM
			gpu("00:02.0", pci.Intel, 0x4680, "i915", 0, -1, -1, ""),
			gpu("01:00.0", pci.NVIDIA, 0x2684, "", -1, -1, -1, ""),
			gpu("02:00.0", pci.NVIDIA, 0x2684, "vfio-pci", -1, -1, -1, ""),
		}}),
		"undriven": {GPUs: []host.GPU{gpu("3b:00.0", pci.NVIDIA, 0x2236, "", -1, -1, -1, "")}},
		"none":     {},
		"mig":      withNodes(host.Model{GPUs: []host.GPU{m1, m2}}),
		"mig2":     withNodes(host.Model{GPUs: []host.GPU{m1, m2b}}),
		"migempty": withNodes(host.Model{GPUs: []host.GPU{empty}}),
		"orin":     withNodes(host.Model{Tegra: tegra, GPUs: []host.GPU{platform}}),
		"orinold":  {Tegra: tegra, GPUs: []host.GPU{{Platform: "17000000.ga10b", Card: -1, Render: -1, Minor: -1, Index: -1}}},
		"igx":      withNodes(host.Model{Tegra: tegra, GPUs: []host.GPU{platform, gpu("0005:09:00.0", pci.NVIDIA, 0x2230, "nvidia", 2, 1, 1, "GPU-"+gpuUUID)}}),
		"thor":     withNodes(host.Model{Tegra: tegra, GPUs: []host.GPU{gpu("0000:01:00.0", pci.NVIDIA, 0x2b00, "nvidia", 1, 0, 0, "GPU-"+gpuUUID)}}),
		"nonodes":  {GPUs: []host.GPU{noNode}},
	}
}

func TestSelect(t *testing.T) {
	for _, tc := range []struct {
		name, host, in string
		vm             bool
		want           string // names, or "gpus 0,1"
		warns          string // reasons
	}{
		{name: "GPU by index is NVML's", host: "server", in: "id=nvidia.com/gpu=0", want: "nvidia.com/gpu=0"},
		{name: "GPU by type and index", host: "server", in: "id=nvidia.com/gpu=gpu1", want: "nvidia.com/gpu=1"},
		{name: "GPU by UUID", host: "server", in: "id=nvidia.com/gpu=GPU-" + gpuUUID, want: "nvidia.com/gpu=1"},
		{name: "GPU by bare UUID in upper case", host: "server", in: "id=nvidia.com/gpu=" + strings.ToUpper(gpuUUID), want: "nvidia.com/gpu=1"},
		{name: "all", host: "server", in: "id=nvidia.com/gpu=all", want: "nvidia.com/gpu=all"},
		{name: "all with MIG devices", host: "mig", in: "id=nvidia.com/gpu=all", want: "nvidia.com/gpu=all"},
		{name: "the GPU that is not in MIG mode", host: "mig", in: "id=nvidia.com/gpu=1", want: "nvidia.com/gpu=1"},
		{name: "MIG by indexes", host: "mig", in: "gputype=mig id=nvidia.com/mig=0:1", want: "nvidia.com/gpu=0:1"},
		{name: "MIG by type and indexes", host: "mig", in: "gputype=mig id=nvidia.com/gpu=mig0:1", want: "nvidia.com/gpu=0:1"},
		{name: "MIG by UUID", host: "mig", in: "gputype=mig id=nvidia.com/mig=MIG-" + migUUID, want: "nvidia.com/gpu=0:0"},
		{name: "integrated", host: "orin", in: "id=nvidia.com/igpu=0", want: "nvidia.com/gpu=0 integrated"},
		{name: "integrated as a gpu", host: "orin", in: "id=nvidia.com/gpu=igpu0", want: "nvidia.com/gpu=0 integrated"},
		{name: "integrated by its UUID, which has no prefix", host: "orin", in: "id=nvidia.com/gpu=" + orinUUID, want: "nvidia.com/gpu=0 integrated"},
		{name: "integrated, all", host: "igx", in: "id=nvidia.com/igpu=all", want: "nvidia.com/gpu=0 integrated"},
		{name: "integrated without NVIDIA's library", host: "orinold", in: "id=nvidia.com/igpu=0", want: "nvidia.com/gpu=0 integrated"},
		{name: "integrated on Thor by UUID", host: "thor", in: "id=nvidia.com/igpu=GPU-" + gpuUUID, want: "nvidia.com/gpu=0 integrated"},
		{name: "the discrete GPU beside an integrated one", host: "igx", in: "id=nvidia.com/gpu=1", want: "nvidia.com/gpu=1"},
		{name: "all of both", host: "igx", in: "id=nvidia.com/gpu=all", want: "nvidia.com/gpu=all"},
		{name: "AMD", host: "desktop", in: "id=amd.com/gpu=0", want: "amd.com/gpu=0"},
		{name: "AMD, all", host: "desktop", in: "id=amd.com/gpu=all", want: "amd.com/gpu=all"},
		{name: "any kind", host: "none", in: "id=vendor.com/class=name", want: "vendor.com/class=name"},
		{name: "a class of NVIDIA's that is no GPU", host: "server", in: "id=nvidia.com/imex-channel=0", want: "nvidia.com/imex-channel=0"},
		{name: "no driver: making the Spec says why", host: "undriven", in: "id=nvidia.com/gpu=0", want: "nvidia.com/gpu=0"},

		{name: "DRM card 1 is not NVIDIA minor 1 (dri-index-not-minor)", host: "server", in: "id=2", want: "gpus 0"},
		{name: "the console by card (bmc-gpu-is-card0)", host: "server", in: "id=0", want: "gpus 2", warns: "bmc-graphics"},
		{name: "the console by ids", host: "server", in: "vendorid=1a03", want: "gpus 2", warns: "bmc-graphics"},
		{name: "by address", host: "server", in: "pci=82:00.0", want: "gpus 1"},
		{name: "by vendor: all that match", host: "server", in: "vendorid=10de", want: "gpus 0,1"},
		{name: "by vendor beside another", host: "desktop", in: "vendorid=10de", want: "gpus 1"},
		{name: "by vendor and product", host: "desktop", in: "vendorid=1002 productid=744c", want: "gpus 0"},
		{name: "without options: all but the console", host: "server", in: "", want: "gpus 0,1", warns: "bmc-graphics"},
		{name: "without options, some unusable (driver-not-loaded)", host: "half", in: "", want: "gpus 0", warns: "no-driver bound-to-vfio"},
		{name: "a GPU held for VMs, in a VM", host: "half", in: "pci=02:00.0", vm: true, want: "gpus 2"},
		{name: "a GPU in MIG mode", host: "mig", in: "pci=41:00.0", want: "gpus 0", warns: "mig-enabled"},
		{name: "an integrated GPU without CDI", host: "orin", in: "", want: "gpus 0", warns: "igpu-nodes-only"},
		{name: "a Thor by card", host: "thor", in: "id=1", want: "gpus 0", warns: "igpu-nodes-only"},
		{name: "the parent of a mediated device", host: "desktop", in: "gputype=mdev mdev=nvidia-1 pci=0a:00.0", vm: true, want: "gpus 1"},

		{name: "mig by ids (mig-uuid-format)", host: "mig", in: "gputype=mig mig.gi=1 mig.ci=0", want: "nvidia.com/gpu=0:0"},
		{name: "mig by UUID (mig-uuid-format)", host: "mig2", in: "gputype=mig mig.uuid=MIG-" + migUUID, want: "nvidia.com/gpu=0:0"},
		{name: "mig by bare UUID (mig-uuid-format)", host: "mig2", in: "gputype=mig mig.uuid=" + gpuUUID, want: "nvidia.com/gpu=1:0"},
		{name: "mig by the name of old drivers (mig-uuid-format)", host: "mig2", in: "gputype=mig mig.uuid=MIG-GPU-" + gpuUUID + "/2/0", want: "nvidia.com/gpu=0:1"},
		{name: "mig by ids on one of two GPUs", host: "mig2", in: "gputype=mig mig.gi=1 mig.ci=0 pci=65:00.0", want: "nvidia.com/gpu=1:0"},
		{name: "mig by ids and card", host: "mig2", in: "gputype=mig mig.gi=1 mig.ci=0 id=1", want: "nvidia.com/gpu=0:0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sel, err := selection(t, tc.host, tc.in, tc.vm)
			var got, warned []string
			for _, n := range sel.Names {
				got = append(got, n.String())
			}
			if len(sel.GPUs) > 0 {
				got = append(got, "gpus "+strings.ReplaceAll(strings.Trim(fmt.Sprint(sel.GPUs), "[]"), " ", ","))
			}
			if sel.Integrated {
				got = append(got, "integrated")
			}
			for _, w := range sel.Warnings {
				warned = append(warned, string(w.Reason))
			}
			if err != nil || strings.Join(got, " ") != tc.want || strings.Join(warned, " ") != tc.warns {
				t.Errorf("Select(%s) on %s = %q, warnings %v, %v;\nwant %q, %q", tc.in, tc.host, got, sel.Warnings, err, tc.want, tc.warns)
			}
		})
	}
}

func selection(t *testing.T, on, in string, vm bool) (request.Selection, error) {
	t.Helper()
	m, ok := hosts()[on]
	if !ok {
		t.Fatalf("no host %q", on)
	}
	r, _, err := request.Parse(options(t, in), request.Context{VM: vm})
	if err != nil {
		t.Fatal(err)
	}
	return request.Select(r, m)
}

func TestSelectRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, host, in string
		vm             bool
		want           string
		hint           string
	}{
		{name: "an index beyond the last (missing-id-silent)", host: "server", in: "id=nvidia.com/gpu=15", want: "id not-found", hint: "nvidia.com/gpu=0, nvidia.com/gpu=1"},
		{name: "a UUID of no GPU", host: "server", in: "id=nvidia.com/gpu=" + migUUID, want: "id not-found"},
		{name: "all of no GPU", host: "none", in: "id=nvidia.com/gpu=all", want: "id all-matches-nothing"},
		{name: "one of no GPU", host: "none", in: "id=nvidia.com/gpu=0", want: "id not-found"},
		{name: "a full GPU in MIG mode", host: "mig", in: "id=nvidia.com/gpu=0", want: "id mig-enabled", hint: "nvidia.com/mig=0:0, nvidia.com/mig=0:1"},
		{name: "a full GPU in MIG mode without devices (mig-enabled-empty)", host: "migempty", in: "id=nvidia.com/gpu=0", want: "id mig-enabled-empty"},
		{name: "a MIG device lost with a reboot (mig-enabled-empty)", host: "migempty", in: "gputype=mig id=nvidia.com/mig=0:0", want: "id not-found", hint: "no MIG device; create one with nvidia-smi mig -cgi PROFILE -C on GPU 0."},
		{name: "a MIG device beyond the last", host: "mig", in: "gputype=mig id=nvidia.com/mig=0:2", want: "id not-found", hint: "nvidia.com/mig=0:1 (mig.gi=2 mig.ci=0 of 0000:41:00.0)"},
		{name: "a MIG device of a GPU without MIG", host: "mig", in: "gputype=mig id=nvidia.com/mig=1:0", want: "id mig-off"},
		{name: "a MIG UUID of no device", host: "mig", in: "gputype=mig id=nvidia.com/mig=" + gpuUUID2, want: "id not-found"},
		{name: "MIG on Tegra (mig-on-thor-csv)", host: "thor", in: "gputype=mig id=nvidia.com/mig=0:0", want: "id mig-in-csv-mode"},
		{name: "MIG on Tegra by ids (mig-on-thor-csv)", host: "thor", in: "gputype=mig mig.gi=1 mig.ci=0", want: "mig.gi mig-in-csv-mode"},
		{name: "an integrated GPU where there is none", host: "desktop", in: "id=nvidia.com/igpu=0", want: "id no-integrated-gpu", hint: "nvidia.com/gpu=0"},
		{name: "an integrated GPU by another's UUID", host: "igx", in: "id=nvidia.com/igpu=" + gpuUUID, want: "id not-found"},

		{name: "a card of no GPU (dri-index-not-minor)", host: "desktop", in: "id=2", want: "id not-a-card", hint: "The DRM cards are 0 (0000:03:00.0), 1 (0000:0a:00.0)."},
		{name: "an NVML index as a card (dri-index-not-minor)", host: "igx", in: "id=1", want: "id not-a-card", hint: "The GPU with NVML index 1 has DRM card 2; it is id=nvidia.com/gpu=1."},
		{name: "a card where there are none", host: "orin", in: "id=0", want: "id not-a-card", hint: "no DRM card"},
		{name: "an address of no GPU", host: "server", in: "pci=99:00.0", want: "pci not-found", hint: "0000:03:00.0 (10de:20b2)"},
		{name: "the address of the sound beside a GPU", host: "server", in: "pci=03:00.1", want: "pci not-found"},
		{name: "an iGPU by PCI address", host: "orin", in: "pci=0000:01:00.0", want: "pci igpu-by-pci", hint: "id=nvidia.com/igpu=0"},
		{name: "a Thor's iGPU by its PCI address", host: "thor", in: "pci=0000:01:00.0", want: "pci igpu-by-pci"},
		{name: "an integrated GPU for a virtual machine", host: "orin", in: "", vm: true, want: "gputype igpu-on-vm", hint: "container"},
		{name: "a Thor's for a virtual machine", host: "thor", in: "id=1", vm: true, want: "id igpu-on-vm"},
		{name: "a wrong address beside an iGPU and a card", host: "igx", in: "pci=0000:02:00.0", want: "pci not-found", hint: "0005:09:00.0"},
		{name: "ids of no GPU", host: "desktop", in: "vendorid=8086", want: "vendorid not-found", hint: "0000:03:00.0 (1002:744c)"},
		{name: "a product of no GPU", host: "desktop", in: "productid=ffff", want: "productid not-found"},
		{name: "no GPU at all", host: "none", in: "", want: "gputype all-matches-nothing"},
		{name: "a named GPU without driver (driver-not-loaded)", host: "half", in: "pci=01:00.0", want: "pci no-driver"},
		{name: "a named GPU held for VMs", host: "half", in: "pci=02:00.0", want: "pci bound-to-vfio"},
		{name: "ids that match unusable GPUs only", host: "half", in: "vendorid=10de", want: "vendorid no-driver"},
		{name: "a driver without nodes (modules-loaded-no-nodes)", host: "nonodes", in: "pci=41:00.0", want: "pci device-node-missing", hint: "nvidia-modprobe"},
		{name: "an integrated GPU without nodes of its own, without CDI", host: "orinold", in: "", want: "gputype device-node-missing", hint: "id=nvidia.com/igpu=0"},

		{name: "mig by ids on two GPUs (mig-ambiguous)", host: "mig2", in: "gputype=mig mig.gi=1 mig.ci=0", want: "mig.gi mig-ambiguous", hint: "pci=<address> of one of 0000:41:00.0, 0000:65:00.0"},
		{name: "even where only one has that pair (mig-ambiguous)", host: "mig2", in: "gputype=mig mig.gi=2 mig.ci=0", want: "mig.gi mig-ambiguous"},
		{name: "an unknown pair lists those that exist (mig-uuid-format)", host: "mig", in: "gputype=mig mig.gi=9 mig.ci=0", want: "mig.gi not-found", hint: "mig.gi=1 mig.ci=0"},
		{name: "a MIG UUID on another GPU than the selected one", host: "mig2", in: "gputype=mig mig.uuid=" + migUUID + " pci=65:00.0", want: "mig.uuid not-found"},
		{name: "the old name with an unknown GPU", host: "mig2", in: "gputype=mig mig.uuid=MIG-GPU-" + migUUID + "/1/0", want: "mig.uuid not-found"},
		{name: "mig where no GPU is in MIG mode", host: "desktop", in: "gputype=mig mig.gi=1 mig.ci=0", want: "mig.gi mig-off"},
		{name: "mig on another vendor's card", host: "desktop", in: "gputype=mig mig.gi=1 mig.ci=0 id=0", want: "mig.gi mig-off"},
		{name: "mig with a parent that is not there", host: "mig", in: "gputype=mig mig.gi=1 mig.ci=0 pci=99:00.0", want: "pci not-found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sel, err := selection(t, tc.host, tc.in, tc.vm)
			if len(sel.Names)+len(sel.GPUs) > 0 {
				t.Errorf("Select(%s) = %+v along with %v", tc.in, sel, err)
			}
			checkRefusals(t, err, tc.want, tc.hint)
		})
	}
}

func TestSelectFromTakesNamesThatASpecOnDiskDefines(t *testing.T) {
	n := cdi.Name{Vendor: "nvidia.com", Class: "gpu", Device: "0"}
	onDisk := []cdi.Source{{Spec: &specs.Spec{Kind: "nvidia.com/gpu", Devices: []specs.Device{{Name: "0"}}}}}
	r := request.Request{Type: request.Physical, CDI: &n}
	sel, err := request.SelectFrom(r, host.Model{}, onDisk)
	if err != nil || len(sel.Names) != 1 || sel.Names[0] != n {
		t.Errorf("SelectFrom = %+v, %v; want the name as it is", sel, err)
	}
	if _, err := request.Select(r, host.Model{}); err == nil {
		t.Error("without the Spec the name is selected too")
	}
}

// TestSelectAddsNoOtherCard walks each selector on a host with two equal cards
// (id-adds-every-card).
func TestSelectAddsNoOtherCard_id_adds_every_card(t *testing.T) {
	m := hosts()["server"]
	for _, in := range []string{"id=1", "pci=82:00.0"} {
		sel, err := selection(t, "server", in, false)
		if err != nil || len(sel.GPUs) != 1 {
			t.Fatalf("%s: %+v, %v", in, sel, err)
		}
		for _, n := range cdi.NodeEdits(m, m.GPUs[sel.GPUs[0]]).Edits.DeviceNodes {
			if n.Path != "/dev/dri/card1" && n.Path != "/dev/nvidia1" {
				t.Errorf("%s passes %s too", in, n.Path)
			}
		}
	}
}
