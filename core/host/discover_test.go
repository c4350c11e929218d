package host_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

func built(t *testing.T, profile string) (*tree.Tree, host.Model) {
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
	return r, m
}

// t4 is the first GPU of the profile t4-server.
const t4 = "/sys/bus/pci/devices/0000:3b:00.0"

// problems are what a model says is wrong with the host, GPUs' first.
func problems(m host.Model) (out []string) {
	for _, g := range m.GPUs {
		if g.Problem != "" {
			out = append(out, "GPU "+g.PCI.BDF.String()+": "+g.Problem)
		}
	}
	for _, p := range m.Problems {
		out = append(out, p.What+": "+p.Text)
	}
	return out
}

// What cannot be understood disables the device that it is about, and says so; the
// GPU beside it is what it is on the healthy host.
func TestB44B46WhatCannotBeReadDisablesTheDeviceThatItIsAbout(t *testing.T) {
	const gpu = "GPU 0000:3b:00.0"
	info := "/proc/driver/nvidia/gpus/0000:3b:00.0/information"
	for _, tc := range []struct {
		name, path, content string
		about, why          string
	}{
		{name: "vendor too long", path: t4 + "/vendor", content: "0x010de\n", about: gpu, why: "want 4 hex digits"},
		{name: "vendor of junk", path: t4 + "/vendor", content: "nvidia", about: gpu, why: "want 4 hex digits"},
		{name: "class short", path: t4 + "/class", content: "0x0302\n", about: "PCI function 0000:3b:00.0", why: "want 6 hex digits"},
		{name: "revision empty", path: t4 + "/revision", content: "", about: gpu, why: "want 2 hex digits"},
		{name: "NUMA node of junk", path: t4 + "/numa_node", content: "-7\n", about: gpu, why: "not the number of a node"},
		{name: "resource of two columns", path: t4 + "/resource", content: "0x1 0x2\n", about: gpu, why: "start, end and flags"},
		{name: "resource backwards", path: t4 + "/resource", content: "0x2 0x1 0x200\n", about: gpu, why: "ends before it starts"},
		{name: "minor -1", path: info, content: "Device Minor: -1\n", about: gpu, why: "0 to 247"},
		{name: "information empty", path: info, content: "", about: gpu, why: "no such line"},
		{name: "version empty", path: "/proc/driver/nvidia/version", content: "", about: "NVIDIA's kernel driver", why: "NVRM version"},
		{name: "majors of junk", path: "/proc/devices", content: "195 nvidia\n", about: "device numbers", why: "before the first section"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, want := built(t, "t4-server")
			real, err := host.Resolve(r, tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.WriteFile(real, []byte(tc.content), 0o444); err != nil {
				t.Fatal(err)
			}
			m, err := host.Discover(r, nil)
			got := problems(m)
			if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], tc.about+": "+real) || !strings.Contains(got[0], tc.why) {
				t.Errorf("%q, %v; want one problem of %s that names %s and says %q", got, err, tc.about, real, tc.why)
			}
			if other := m.GPUs[len(m.GPUs)-1]; other.Problem != "" || other.Minor != 1 || other.UUID != want.GPUs[1].UUID {
				t.Errorf("the other GPU is %+v", other)
			}
		})
	}
}

func TestB46SpellingsOfAnIDHaveOneForm(t *testing.T) {
	for _, text := range []string{"0x10de\n", "10de", "0x10DE\n", "0X10DE", " 10DE \n"} {
		r, want := built(t, "t4-server")
		if err := r.WriteFile(t4+"/vendor", []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
		m, err := host.Discover(r, nil)
		if err != nil || m.GPUs[0].PCI.ID != want.GPUs[0].PCI.ID {
			t.Errorf("vendor %q: %v, %v", text, m.GPUs, err)
		}
	}
}

func TestB46ADriverLinkThatLeadsNowhereDisablesItsGPU(t *testing.T) {
	r, _ := built(t, "t4-server")
	if err := r.Symlink(t4+"/driver", "../../../bus/pci/drivers/gone"); err != nil {
		t.Fatal(err)
	}
	m, err := host.Discover(r, nil)
	if got := problems(m); err != nil || len(got) != 1 || !strings.Contains(got[0], "GPU 0000:3b:00.0: ") || !strings.Contains(got[0], "leads nowhere") {
		t.Errorf("%q, %v", got, err)
	}
}

// failing is a root on which reading one path fails a number of times.
type failing struct {
	host.Root
	path  string
	err   error
	times int
}

func (f *failing) ReadFile(p string) ([]byte, error) {
	if strings.HasSuffix(p, f.path) && f.times > 0 {
		f.times--
		return nil, &fs.PathError{Op: "read", Path: p, Err: f.err}
	}
	return f.Root.ReadFile(p)
}

func TestB45EntriesThatVanish(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		err        error
		times      int
		want       string
	}{
		{"attribute gone once", "0000:3b:00.0/vendor", syscall.ENOENT, 1, ""},
		{"attribute gone for good", "0000:3b:00.0/vendor", syscall.ENOENT, 9, "GPU 0000:3b:00.0"},
		{"attribute fails", "0000:3b:00.0/class", syscall.EIO, 1, "PCI function 0000:3b:00.0"},
		{"GPU fell off the bus", "0000:3b:00.0/config", syscall.EIO, 9, ""}, // not read
		{"information gone for good", "0000:3b:00.0/information", syscall.ENOENT, 9, "GPU 0000:3b:00.0"},
		{"information fails", "0000:3b:00.0/information", syscall.EIO, 1, "GPU 0000:3b:00.0"},
		{"version fails", "/sys/module/nvidia/version", syscall.EIO, 1, "NVIDIA's kernel driver"},
		{"NUMA node fails", "0000:3b:00.0/numa_node", syscall.EIO, 1, "GPU 0000:3b:00.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, want := built(t, "t4-server")
			m, err := host.Discover(&failing{r, tc.path, tc.err, tc.times}, nil)
			got := problems(m)
			switch {
			case err != nil || m.GPUs[len(m.GPUs)-1].Problem != "":
				t.Errorf("%v, %+v", err, m.GPUs)
			case tc.want == "" && (len(got) > 0 || len(m.GPUs) != len(want.GPUs)):
				t.Errorf("got %d GPUs, %q; want %d", len(m.GPUs), got, len(want.GPUs))
			case tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want) || !strings.Contains(got[0], tc.path)):
				t.Errorf("%q; want a problem of %s that names %s", got, tc.want, tc.path)
			}
		})
	}
}

// B45: a directory that cannot be listed is no host without GPUs.
func TestB45AListingThatFailsIsNotAnEmptyHost(t *testing.T) {
	for _, p := range []string{"/sys/bus/pci/devices", "/dev", "/sys/module"} {
		r, _ := built(t, "t4-server")
		m, err := host.Discover(unlistable{r, p}, nil)
		if !errors.Is(err, syscall.EIO) || len(m.GPUs) != 0 {
			t.Errorf("%s: %d GPUs, %v; want EIO", p, len(m.GPUs), err)
		}
	}
}

type unlistable struct {
	host.Root
	path string
}

func (u unlistable) ReadDir(p string) ([]string, error) {
	if p == u.path {
		return nil, &fs.PathError{Op: "readdirent", Path: p, Err: syscall.EIO}
	}
	return u.Root.ReadDir(p)
}

// canned is a management library with fixed answers.
type canned []host.NVMLDevice

func (canned) CUDAVersion() (string, error)          { return "12.2", nil }
func (c canned) Devices() ([]host.NVMLDevice, error) { return c, nil }
func at(bus uint8) *pci.BDF                          { return &pci.BDF{Bus: bus} }
func device0(f func(*host.NVMLDevice)) host.NVMLDevice {
	d := host.NVMLDevice{PCI: at(0x3b), Minor: -1}
	f(&d)
	return d
}

func TestDiscoverSaysWhereSourcesDisagree(t *testing.T) {
	for _, tc := range []struct {
		name string
		dev  host.NVMLDevice
		want string
	}{
		{"minor", device0(func(d *host.NVMLDevice) { d.Minor = 1 }), "minor of GPU 0000:3b:00.0"},
		{"UUID", device0(func(d *host.NVMLDevice) { d.UUID = "GPU-x" }), "UUID of GPU 0000:3b:00.0"},
		{"address", host.NVMLDevice{PCI: at(0x11), Minor: -1}, "GPU with NVML index 0"},
		{"no address", host.NVMLDevice{Minor: -1}, "GPU with NVML index 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := built(t, "t4-server")
			m, err := host.Discover(r, canned{tc.dev})
			if got := problems(m); err != nil || len(got) != 1 || !strings.Contains(got[0], tc.want+": "+host.ErrConflict.Error()) {
				t.Errorf("%q, %v; want a conflict about %s", got, err, tc.want)
			}
		})
	}
}

// Without the library nothing is made up: no index, no profile.
func TestDiscoverWithoutTheManagementLibrary(t *testing.T) {
	r, want := built(t, "a100-mig-2g-3g")
	m, err := host.Discover(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, w := m.GPUs[0], want.GPUs[0]
	if g.Index != -1 || g.Minor != 0 || g.UUID != w.UUID || g.Name != w.Name || g.MemoryMiB != 0 {
		t.Errorf("GPU %+v; want index -1, minor 0, UUID and name of %+v", g, w)
	}
	var ids []int
	for _, gi := range g.MIG.Instances {
		ids = append(ids, gi.ID)
		if gi.Profile != "" || gi.Start != -1 || len(gi.Compute) != 1 {
			t.Errorf("GPU instance %+v; want an id alone", gi)
		}
	}
	if !slices.Equal(ids, []int{2, 3}) {
		t.Errorf("GPU instances %v; want 2 and 3", ids)
	}
}

// A domain above ffff is cut to four digits in the driver's /proc.
func TestDiscoverFindsInformationUnderACutDomain(t *testing.T) {
	p, err := profiles.Parse("azure.yaml", []byte("kernel: 6.8.0\nos: {id: ubuntu, version: \"24.04\"}\ndriver: {version: \"550\"}\ngpus: [{product: t4, at: \"3f8cfdd:00:00.0\"}]\n"))
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
	old := "/proc/driver/nvidia/gpus/3f8cfdd:00:00.0"
	if data, err := r.ReadFile(old + "/information"); err != nil {
		t.Fatal(err)
	} else if err := r.WriteFile("/proc/driver/nvidia/gpus/cfdd:00:00.0/information", []byte(strings.ReplaceAll(string(data), "3f8cfdd:", "cfdd:")), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(old); err != nil {
		t.Fatal(err)
	}
	got, err := host.Discover(r, nil)
	if err != nil || got.GPUs[0].UUID != m.GPUs[0].UUID {
		t.Errorf("got %+v, %v; want %s", got.GPUs, err, m.GPUs[0].UUID)
	}
}

// The driver has several versions lying about; what counts is what the loader
// gets.
func TestDiscoverTakesTheLibraryThatTheLoaderFinds(t *testing.T) {
	r, _ := built(t, "rhel-t4")
	for _, f := range []string{"libcuda.so.999.10", "libcuda.so.535.1.1"} {
		if err := r.WriteFile("/usr/lib64/"+f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := host.Discover(r, nil)
	if err != nil || m.Userspace == nil || m.Userspace.Version != "550.163.01" {
		t.Errorf("got %+v, %v; want 550.163.01", m.Userspace, err)
	}
}
