package fakehw_test

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

func build(t *testing.T, m host.Model) *tree.Tree {
	t.Helper()
	r, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, r host.Root, p string) string {
	t.Helper()
	data, err := r.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Texts are byte for byte what the kernel and the driver print; tabs count.
func TestBuildPrintsTheKernelsFormats(t *testing.T) {
	for _, tc := range []struct{ profile, path, want string }{
		{"dgx-a100", "/proc/driver/nvidia/gpus/0000:07:00.0/information",
			"Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 32\nGPU UUID: \t UUID\nVideo BIOS: \t 92.00.45.00.03\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n"},
		{"dgx-a100", "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 19:41:24 UTC 2023\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04) \n"},
		{"gb200", "/proc/driver/nvidia/capabilities/fabric-imex-mgmt", "DeviceFileMinor: 4323\nDeviceFileMode: 256\nDeviceFileModify: 1\n"},
		{"a100-mig-2g-3g", "/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access", "DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n"},
		{"a100-mig-2g-3g", "/proc/driver/nvidia-caps/sys-minors", "fabric-imex-mgmt 4323\n"},
		{"dgx-a100", "/proc/driver/nvidia-caps/nvlink-minors", "fabric-mgmt 0\n"},
		{"dgx-a100", "/proc/driver/nvidia-nvswitch/permissions", "DeviceFileMode: 438\n"},
		{"dgx-a100", "/sys/bus/pci/devices/0000:07:00.0/uevent",
			"DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B0\nPCI_SUBSYS_ID=10DE:134F\nPCI_SLOT_NAME=0000:07:00.0\nMODALIAS=pci:v000010DEd000020B0sv000010DEsd0000134Fbc03sc02i00\n"},
		{"no-driver", "/sys/bus/pci/devices/0000:3b:00.0/uevent",
			"PCI_CLASS=30200\nPCI_ID=10DE:2236\nPCI_SUBSYS_ID=10DE:1482\nPCI_SLOT_NAME=0000:3b:00.0\nMODALIAS=pci:v000010DEd00002236sv000010DEsd00001482bc03sc02i00\n"},
		{"t4-server", "/sys/bus/pci/devices/0000:3b:00.0/resource",
			"0x0000000090000000 0x0000000090ffffff 0x0000000000040200\n0x0000200000000000 0x000020000fffffff 0x000000000014220c\n" + zeros(1) + "0x0000200010000000 0x0000200011ffffff 0x000000000014220c\n" + zeros(9)},
		{"workstation", "/sys/class/drm/card1/dev", "226:1\n"},
		{"jetson-agx-orin", "/proc/device-tree/compatible", "nvidia,p3737-0000+p3701-0005\x00nvidia,p3701-0005\x00nvidia,tegra234\x00nvidia,tegra23x\x00"},
		{"jetson-orin-nano", "/etc/nv_tegra_release", "# R36 (release), REVISION: 3.0, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025\n"},
		{"a100-mig-2g-3g", "/proc/devices",
			"Character devices:\n  1 mem\n  4 tty\n  5 /dev/console\n  5 /dev/ptmx\n  5 /dev/tty\n 10 misc\n 13 input\n 29 fb\n136 pts\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n226 drm\n" +
				"235 nvidia-uvm\n236 nvidia-caps\n241 nvidia-caps-imex-channels\n253 nvidia-nvswitch\n254 nvidia-nvlink\n\nBlock devices:\n  7 loop\n259 blkext\n"},
	} {
		t.Run(tc.profile+path.Base(tc.path), func(t *testing.T) {
			m := load(t, tc.profile)
			want := tc.want
			if len(m.GPUs) > 0 {
				want = strings.Replace(want, "UUID: \t UUID", "UUID: \t "+m.GPUs[0].UUID, 1)
			}
			if got := read(t, build(t, m), tc.path); got != want {
				t.Errorf("%s\n got %q\nwant %q", tc.path, got, want)
			}
		})
	}
}

// Modes are those of drivers/pci/pci-sysfs.c, drivers/vfio/mdev/mdev_sysfs.c and
// kernel-open/nvidia/nv-procfs.c.
func TestModesAreTheKernels(t *testing.T) {
	m := load(t, "vgpu-a100")
	r, d := build(t, m), "/sys/bus/pci/devices/"+m.GPUs[0].PCI.BDF.String()
	for p, want := range map[string]fs.FileMode{
		"/proc": 0o555, "/proc/driver": 0o555, "/proc/driver/nvidia": 0o555, "/proc/driver/nvidia/gpus": 0o555,
		"/proc/driver/nvidia/gpus/" + m.GPUs[0].PCI.BDF.String(): 0o555, "/proc/driver/nvidia/warnings": 0o555, "/proc/driver/nvidia/capabilities/mig": 0o555,
		"/proc/driver/nvidia/params": 0o444, "/proc/driver/nvidia/registry": 0o644,
		d + "/": 0o755, d + "/remove": 0o220, d + "/rescan": 0o200, d + "/reset": 0o200, d + "/driver_override": 0o644, d + "/enable": 0o644,
		d + "/config": 0o644, d + "/resource": 0o444, d + "/resource0": 0o600, d + "/vendor": 0o444,
		"/sys/bus/pci/rescan": 0o200, "/sys/bus/pci/drivers_probe": 0o200, "/sys/bus/pci/drivers_autoprobe": 0o644,
		"/sys/bus/pci/drivers/nvidia/bind": 0o200, "/sys/bus/pci/drivers/nvidia/unbind": 0o200, "/sys/bus/pci/drivers/nvidia/new_id": 0o200,
	} {
		if e, err := r.Follow(p); err != nil || e.Mode.Perm() != want {
			t.Errorf("%s: %+v, %v, want %v", p, e, err, want)
		}
	}
}

func zeros(n int) string {
	return strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", n)
}

func TestMIGMinorsIsTheDriversFixedTable(t *testing.T) {
	text := read(t, build(t, load(t, "t4-server")), "/proc/driver/nvidia-caps/mig-minors")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 4322 || lines[0] != "config 1" || lines[2] != "gpu0/gi0/access 3" || lines[4321] != "gpu31/gi14/ci7/access 4322" {
		t.Errorf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
	minors, err := host.ParseMIGMinors(text)
	if err != nil || minors["gpu0/gi7/access"] != 66 || minors["gpu1/gi0/ci0/access"] != 139 || minors["gpu7/gi1/ci0/access"] != 958 {
		t.Errorf("%v; want the worked values 66, 139, 958", err)
	}
}

// What every host keeps, whatever it is.
func TestBuiltHostsAreConsistent(t *testing.T) {
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			r := build(t, m)
			if again := build(t, load(t, name)); again.Sum() != r.Sum() {
				t.Error("the same model gave another tree")
			}
			majors, err := host.ParseProcDevices(read(t, r, "/proc/devices"))
			if err != nil {
				t.Fatal(err)
			}
			registered := map[string]bool{}
			for _, x := range majors {
				registered[fmt.Sprint(x.Type, x.Major)] = true
			}
			for _, n := range r.Nodes("/dev") {
				if !registered[fmt.Sprint(n.Type, n.Num.Major)] {
					t.Errorf("%s has major %d, which /proc/devices lacks", n.Path, n.Num.Major)
				}
			}
			everyLinkLeadsSomewhere(t, r)
			capabilitiesHaveNodes(t, r)
			for _, g := range m.GPUs {
				if g.PCI != nil {
					configAgrees(t, r, *g.PCI)
				}
			}
		})
	}
}

// everyLinkLeadsSomewhere holds for what the kernel makes: /sys, /proc, /dev.
func everyLinkLeadsSomewhere(t *testing.T, r *tree.Tree) {
	t.Helper()
	err := r.Walk(func(p string, e *tree.Entry) error {
		top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		ours := top == "sys" || top == "proc" || top == "dev"
		if !e.IsLink() || !ours || strings.HasPrefix(e.Target, "/proc/self/") {
			return nil
		}
		if _, err := host.Resolve(r, p); err != nil {
			t.Errorf("%s -> %s leads nowhere", p, e.Target)
		}
		if top == "sys" && path.IsAbs(e.Target) {
			t.Errorf("%s -> %s: links in sysfs are relative", p, e.Target)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// capabilitiesHaveNodes: each MIG instance has a file, the file and the fixed
// table agree on the number, and the node is there with the mode it asks for.
func capabilitiesHaveNodes(t *testing.T, r *tree.Tree) {
	t.Helper()
	top := "/proc/driver/nvidia/capabilities"
	if _, err := r.Lstat(top); err != nil {
		return
	}
	minors, err := host.ParseMIGMinors(read(t, r, "/proc/driver/nvidia-caps/mig-minors"))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Walk(func(p string, e *tree.Entry) error {
		rest, ok := strings.CutPrefix(p, top+"/gpu")
		if !ok || !e.Mode.IsRegular() {
			return nil
		}
		c, err := host.ParseCapability(string(e.Data))
		if err != nil {
			t.Errorf("%s: %v", p, err)
			return nil
		}
		if want := minors["gpu"+strings.Replace(rest, "/mig", "", 1)]; want != c.Minor {
			t.Errorf("%s says %d, mig-minors says %d", p, c.Minor, want)
		}
		info, err := r.Lstat(fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", c.Minor))
		if err != nil || info.Num.Minor != c.Minor || info.Mode.Perm() != fs.FileMode(c.Mode) {
			t.Errorf("%s: node is %v, %v", p, info, err)
		}
		return nil
	})
}

// configAgrees: configuration space says what the attributes say.
func configAgrees(t *testing.T, r *tree.Tree, f host.PCIFunction) {
	t.Helper()
	c := []byte(read(t, r, "/sys/bus/pci/devices/"+f.BDF.String()+"/config"))
	le := binary.LittleEndian
	if len(c) != 4096 || le.Uint16(c) != f.ID.Vendor || le.Uint16(c[2:]) != f.ID.Device ||
		le.Uint32(c[8:])>>8 != uint32(f.Class) || c[8] != f.Revision || le.Uint16(c[44:]) != f.ID.SubVendor {
		t.Errorf("%s: %d bytes, % x", f.BDF, len(c), c[:64])
	}
	for at, n := int(c[0x34]), 0; at != 0; at = int(c[at+1]) {
		if n++; n > 48 || at < 0x40 {
			t.Fatalf("%s: the capability list does not end", f.BDF)
		}
	}
}

// Hosts that no shipped profile has: GPUs of other drivers, gaps, extremes.
func TestDiscoverOfBuildEqualsTheModelOfOddHosts(t *testing.T) {
	head := "kernel: 6.8.0\nos: {id: ubuntu, version: \"24.04\"}\n"
	for name, text := range map[string]string{
		"held by vfio-pci": "iommu: true\ndriver: {version: \"550\"}\ngpus:\n  - {product: l4, at: \"01:00.0\"}\n  - {product: rtx-4090, at: [\"02:00.0\", \"03:00.0\"], driver: vfio-pci, iommu-group: [66, 7]}\n",
		"held by nouveau":  "gpus:\n  - {product: rtx-2080-ti, at: \"01:00.0\", driver: nouveau}\n",
		"held by nobody":   "driver: {version: \"550\"}\ngpus:\n  - {product: t4, at: \"01:00.0\", driver: none}\n",
		"no libraries":     "driver: {version: \"550\"}\nuserspace: {installed: false}\ngpus:\n  - {product: t4, at: \"01:00.0\"}\n",
		"libraries alone":  "userspace: {version: \"570\", persistenced: false}\n",
		"unmerged usr":     "arch: aarch64\ndriver: {version: \"570\", modules: [nvidia]}\ngpus:\n  - {product: gh200-96gb, at: \"0009:01:00.0\"}\n",
		"Arc and Radeon":   "gpus:\n  - {product: arc-b580, at: \"01:00.0\"}\n  - {product: arc-a770, at: \"02:00.0\"}\n  - {product: rx-6800, at: \"03:00.0\"}\n",
		"minor far out":    "driver: {version: \"550\"}\ngpus:\n  - {product: t4, at: [\"01:00.0\", \"02:00.0\"], minor: [247, 31], index: [1, 0]}\n",
		"a domain of VMD":  "driver: {version: \"550\"}\ngpus:\n  - {product: t4, at: \"10000:01:00.0\"}\n",
		"nodes by hand":    "driver: {version: \"550\"}\ngpus:\n  - {product: t4, at: \"01:00.0\"}\nnodes:\n  - {path: /dev/nvidia0, number: \"195:0\", mode: \"0600\", gid: 7}\n  - {path: /dev/nvidia7, number: \"195:7\"}\nwithout: [/dev/nvidia-uvm]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "unmerged usr" {
				text = "kernel: 5.10.0\nos: {id: debian, version: \"10\", merged-usr: false}\n" + text
			} else {
				text = head + text
			}
			p, err := profiles.Parse("odd.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.Model()
			if err != nil {
				t.Fatal(err)
			}
			sameAfterDiscovery(t, m)
		})
	}
}

// 64 GPUs with seven MIG devices each: the largest host that a profile can ask
// for. Capability numbers end at 32 GPUs, which is said.
func TestTheLargestHostsBuild(t *testing.T) {
	text := "kernel: 6.8.0\nos: {id: ubuntu, version: \"24.04\"}\ndriver: {version: \"580\"}\ngpus:\n"
	entry := func(i int, mig string) string {
		return fmt.Sprintf("  - {product: a100-sxm4-80gb, at: \"%04x:%02x:00.0\"%s}\n", i/32, 8*(i%32), mig)
	}
	whole, cut := text, text
	for i := range 64 {
		whole += entry(i, "")
	}
	for i := range 32 {
		cut += entry(i, ", mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]")
	}
	for name, text := range map[string]string{"64 whole": whole, "32 times 7": cut} {
		p, err := profiles.Parse("large.yaml", []byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		m, err := p.Model()
		if err != nil {
			t.Fatal(name, err)
		}
		sameAfterDiscovery(t, m)
	}
	if _, err := profiles.Parse("large.yaml", []byte(cut+entry(40, ", mig: []"))); err == nil || !strings.Contains(err.Error(), "minors below 32") {
		t.Errorf("MIG on minor 32: %v; want a refusal", err)
	}
}

func TestBuildRefusesWhatCannotBe(t *testing.T) {
	m := load(t, "t4-server")
	m.GPUs[1].PCI.BDF = m.GPUs[0].PCI.BDF
	if _, err := fakehw.Build(m); err == nil || !strings.Contains(err.Error(), "two PCI functions at 0000:3b:00.0") {
		t.Errorf("Build of two GPUs in one slot = %v", err)
	}
	m = load(t, "t4-server")
	m.Nodes = append(m.Nodes, device.Node{Path: "/dev/nvidia0/x", Type: device.Char})
	if _, err := fakehw.Build(m); err == nil || !strings.Contains(err.Error(), "/dev/nvidia0") {
		t.Errorf("Build of a node below a node = %v", err)
	}
}

// Before 535.43.02 and 525.105.17 nvidia-modprobe made no links for the nodes that udev does
// not know, which is how containers lose their GPUs at a daemon-reload (bug
// daemon-reload-loses-gpu).
func TestLinksToNodesByNumberAreThoseOfTheDriver(t *testing.T) {
	p, err := profiles.Load("rhel-t4")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		driver string
		linked bool
	}{{"525", false}, {"535", true}, {"580", true}} {
		m, err := fakehw.WithDriver(m, tc.driver)
		if err != nil {
			t.Fatal(err)
		}
		r := build(t, m)
		for link, want := range map[string]bool{"/dev/char/195:0": tc.linked, "/dev/char/195:255": tc.linked, "/dev/char/226:0": true, "/dev/char/1:3": true} {
			if _, err := r.Lstat(link); (err == nil) != want {
				t.Errorf("driver %s, %s: %v; want it there: %t", m.Driver.Version, link, err, want)
			}
		}
	}
}
