package driverfs

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/elf"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/tree"
)

// jetsons are one machine per release, and a board with a card in its slot.
var jetsons = []struct {
	name string
	m    host.Model
	// dev, dir, lib and sym count the rows of all files: for R36 and R38 as in
	// NVIDIA's, for R35 as in Yocto's but for a library that it names twice.
	dev, dir, lib, sym int
}{
	{"xavier-r35", jet("R35", "6.4", "35.6.4", tegraFolder, "l4t.csv"), 40, 1, 207, 32},
	{"orin-r36", jet("R36", "3.0", "540.3.0", jetFolder, "devices.csv", "drivers.csv"), 39, 1, 226, 38},
	{"thor-r38", jet("R38", "2.0", "580.00", jetFolder, "devices.csv", "drivers.csv"), 40, 1, 249, 47},
	{"thor-r39", jet("R39", "2.0", "595.78", jetFolder, "devices.csv", "drivers.csv"), 42, 1, 249, 47},
	{"igx-with-card", igx(), 39, 1, 226, 38},
}

func jet(release, revision, version, dir string, csv ...string) host.Model {
	return host.Model{
		Arch: "aarch64", OS: host.OS{ID: "ubuntu", VersionID: "22.04", MergedUsr: true},
		Userspace: &host.Userspace{Version: version, LibDir: dir},
		Tegra:     &host.Tegra{Release: release, Revision: revision, CSV: csv},
	}
}

// igx is a machine whose card has a driver of its own.
func igx() host.Model {
	m := jet("R36", "4.3", "550.163.01", multiarch, "devices.csv", "drivers.csv")
	m.GPUs = []host.GPU{{PCI: &host.PCIFunction{ID: pci.ID{Vendor: pci.NVIDIA, Device: 0x2230}}, Index: 1}}
	return m
}

// csvRows reads the machine's own files back.
func csvRows(t *testing.T, m host.Model, tr *tree.Tree) []row {
	t.Helper()
	var out []row
	for _, name := range m.Tegra.CSV {
		data, err := tr.ReadFile(csvFolder + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			kind, p, ok := strings.Cut(strings.TrimSpace(line), ", ")
			if !ok || !path.IsAbs(p) {
				t.Fatalf("%s: line %q", name, line)
			}
			out = append(out, row{kind, p})
		}
	}
	return out
}

func TestJetsonFilesHaveTheRowsOfTheirRelease(t *testing.T) {
	for _, tc := range jetsons {
		t.Run(tc.name, func(t *testing.T) {
			count := map[string]int{}
			for _, r := range csvRows(t, tc.m, install(t, tc.m)) {
				count[r.kind]++
			}
			want := map[string]int{"dev": tc.dev, "dir": tc.dir, "lib": tc.lib, "sym": tc.sym}
			if fmt.Sprint(count) != fmt.Sprint(want) {
				t.Errorf("rows %v, want %v", count, want)
			}
		})
	}
}

func TestWhatJetsonRowsNameIsThere(t *testing.T) {
	for _, tc := range jetsons {
		t.Run(tc.name, func(t *testing.T) {
			tr := install(t, tc.m)
			for _, r := range csvRows(t, tc.m, tr) {
				p := path.Clean(r.path)
				if strings.HasPrefix(p, "/dev/") { // the kernel's; of Thor's half does not exist
					continue
				}
				info, err := tr.Lstat(p)
				if err != nil {
					t.Errorf("%s, %s: %v", r.kind, r.path, err)
					continue
				}
				if _, plain := plainLinks[p]; r.kind == "sym" != info.IsLink() && !plain {
					t.Errorf("%s, %s has mode %v", r.kind, r.path, info.Mode)
				}
				if info.Mode.IsDir() != (r.kind == "dir") {
					t.Errorf("%s, %s has mode %v", r.kind, r.path, info.Mode)
				}
			}
			for _, d := range dangling(tr, "") {
				t.Error(d)
			}
		})
	}
}

func TestJetsonLibrariesAreFoundThroughTheCache(t *testing.T) {
	for _, tc := range jetsons {
		t.Run(tc.name, func(t *testing.T) {
			tr := install(t, tc.m)
			own := jetsonOf(&tc.m)
			for soname, file := range map[string]string{
				"libcuda.so.1":                        own.folder + "/libcuda.so.1.1",
				"libnvidia-ptxjitcompiler.so.1":       own.folder + "/libnvidia-ptxjitcompiler.so." + own.version,
				"libnvrm_gpu.so":                      own.folder + "/libnvrm_gpu.so",
				"libEGL_nvidia.so.0":                  multiarch + "/tegra-egl/libEGL_nvidia.so.0",
				"libnvidia-egl-gbm.so.1":              own.folder + "/libnvidia-egl-gbm.so.1.1.0",
				"libnvidia-eglcore.so." + own.version: own.folder + "/libnvidia-eglcore.so." + own.version,
			} {
				if tc.name == "igx-with-card" && !strings.Contains(soname, "nvrm") && !strings.Contains(soname, own.version) {
					continue // there the card's library of that name comes first
				}
				if got := resolve(t, tc.m, tr, soname); got != file {
					t.Errorf("%s leads to %s, want %s", soname, got, file)
				}
			}
		})
	}
}

func TestJetsonLibrariesSayTheirSONAME(t *testing.T) {
	tr := install(t, jetsons[1].m)
	for file, want := range map[string]string{
		"libcuda.so.1.1": "libcuda.so.1", "libnvidia-nvvm.so.540.3.0": "libnvidia-nvvm.so.4", "libnvos.so": "libnvos.so",
		"libnvv4l2.so": "libv4l2.so.0", "libvulkansc.so.1.0.10": "libvulkansc.so.1", "libnvidia-eglcore.so.540.3.0": "libnvidia-eglcore.so.540.3.0",
	} {
		data, err := tr.ReadFile(jetFolder + "/" + file)
		if err != nil {
			t.Error(err)
			continue
		}
		if f, err := elf.Parse(data); err != nil || f.SONAME != want || f.Machine != elf.AArch64 {
			t.Errorf("%s: SONAME %q, machine %d, %v; want %s", file, f.SONAME, f.Machine, err, want)
		}
	}
}

func TestACardInAJetsonHasItsOwnDriver(t *testing.T) {
	m := igx()
	tr := install(t, m)
	for _, p := range []string{multiarch + "/libcuda.so.550.163.01", jetFolder + "/libcuda.so.1.1", "/usr/bin/nvidia-smi", "/usr/sbin/nvidia-smi"} {
		if _, err := tr.Lstat(p); err != nil {
			t.Error(err)
		}
	}
	alone := install(t, jetsons[1].m)
	if _, err := alone.Lstat("/usr/bin/nvidia-smi"); err == nil {
		t.Error("a Jetson without a card has the driver of one")
	}
}

func TestJetsonCSVFilesAreDividedByWhatTheyName(t *testing.T) {
	tr := install(t, jetsons[2].m)
	for name, has := range map[string]string{
		"devices.csv": "dev, /dev/nvidia1\n", // and rows of Orin's, whose nodes Thor lacks
		"drivers.csv": "sym, /usr/lib/aarch64-linux-gnu/nvidia/libnvcuvid.so.1\n",
	} {
		data, err := tr.ReadFile(csvFolder + name)
		if err != nil || !strings.Contains(string(data), has) {
			t.Errorf("%s has no row %q: %v", name, has, err)
		}
		if strings.Contains(string(data), " /dev/") != (name == "devices.csv") {
			t.Errorf("%s has rows of the other file", name)
		}
	}
	data, _ := install(t, jetsons[1].m).ReadFile(csvFolder + "drivers.csv")
	if !strings.Contains(string(data), "lib, //lib/firmware/tegra19x/") {
		t.Error("the row with two slashes, which readers must clean, is gone")
	}
}

func TestB43AForeignCSVNameIsAnError(t *testing.T) {
	m := jet("R36", "3.0", "540.3.0", jetFolder, "cuda.csv")
	if err := Install(tree.New(), m); !errors.Is(err, ErrCSV) || !strings.Contains(err.Error(), "cuda.csv") {
		t.Errorf("Install = %v, want ErrCSV naming the file", err)
	}
	m.Tegra.CSV = nil
	tr := install(t, m)
	if names, err := tr.ReadDir(strings.TrimSuffix(csvFolder, "/")); err == nil {
		t.Errorf("a Jetson without CSV files has %v", names)
	}
}

func TestIMEXHostsHaveItsConfiguration(t *testing.T) {
	m := with(layouts[1].m, "580.105.08")
	m.Nodes = []device.Node{{Path: "/dev/nvidia-caps-imex-channels/channel0"}}
	tr := install(t, m)
	for _, p := range []string{"/etc/nvidia-imex/nodes_config.cfg", "/usr/bin/nvidia-imex", "/usr/bin/nvidia-imex-ctl", "/run/nvidia-imex"} {
		if _, err := tr.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkInstallJetson(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := Install(tree.New(), jetsons[1].m); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTegraListReads(t *testing.T) {
	for _, g := range rowGroups() {
		if len(g.names) == 0 || g.dir == "" || !strings.Contains("dev dir lib sym", g.kind) {
			t.Errorf("paragraph %+v", g)
		}
		for _, r := range g.releases {
			if !strings.Contains("35 36 38 39", r) {
				t.Errorf("%s %s: release %q", g.kind, g.dir, r)
			}
		}
	}
}
