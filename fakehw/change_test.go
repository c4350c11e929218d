package fakehw_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/profiles"
)

// A change is one of the package's functions with arguments.
type change struct {
	name, profile string
	do            func(host.Model) (host.Model, error)
	check         func(t *testing.T, before, after host.Model)
}

func node(m host.Model, p string) *device.Node {
	for _, n := range m.Nodes {
		if n.Path == p {
			return &n
		}
	}
	return nil
}

func wantNode(t *testing.T, m host.Model, p, number string) {
	t.Helper()
	n := node(m, p)
	switch {
	case n == nil && number != "":
		t.Errorf("no node %s; want %s", p, number)
	case n != nil && n.Num.String() != number:
		t.Errorf("node %s is %s; want %q", p, n.Num, number)
	}
}

func major(m host.Model, name string) uint32 {
	for _, x := range m.Majors {
		if x.Name == name {
			return x.Major
		}
	}
	return 0
}

var changes = []change{
	{"another branch", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "580") },
		func(t *testing.T, before, after host.Model) {
			if after.Driver.Version != "580.105.08" || after.Userspace.Version != "580.105.08" || after.Driver.CUDA != "13.0" {
				t.Errorf("driver %v, user space %v; want 580.105.08 and CUDA 13.0", after.Driver, after.Userspace)
			}
			if !reflect.DeepEqual(before.Nodes, after.Nodes) {
				t.Errorf("nodes changed:\n%s", cmp.Diff(before.Nodes, after.Nodes))
			}
		}},
	{"back to where one module had major 195", "gb200", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "535") },
		func(t *testing.T, before, after host.Model) {
			if major(after, "nvidia-frontend") != 195 || major(after, "nvidia") != 0 || major(after, "nvidia-caps-imex-channels") != 0 {
				t.Errorf("majors %v; want nvidia-frontend alone on 195 and no IMEX", after.Majors)
			}
			wantNode(t, after, "/dev/nvidia-caps-imex-channels/channel0", "")
			wantNode(t, after, "/dev/nvidia-caps/nvidia-cap4323", "")
		}},
	{"another branch in the Nix store", "nixos-4090", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "580") },
		func(t *testing.T, before, after host.Model) {
			if !strings.Contains(after.Userspace.StorePath, "-580.105.08-") {
				t.Errorf("store path %s names another version", after.Userspace.StorePath)
			}
		}},
	{"a driver where none was", "no-driver", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "550") },
		func(t *testing.T, before, after host.Model) {
			wantNode(t, after, "/dev/nvidia1", "195:1")
			if g := after.NVIDIAGPUs(); len(g) != 2 || g[0].Name != "NVIDIA A10" || !strings.HasPrefix(g[0].UUID, "GPU-") {
				t.Errorf("GPUs %+v; want two A10 with names", g)
			}
		}},
	{"libraries ahead of the kernel", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithUserspace(m, "550") },
		func(t *testing.T, before, after host.Model) {
			if after.Driver.Version != "535.113.01" || after.Userspace.Version != "550.163.01" {
				t.Errorf("driver %s, libraries %s", after.Driver.Version, after.Userspace.Version)
			}
		}},
	{"unloaded", "dgx-a100", func(m host.Model) (host.Model, error) { return fakehw.Unloaded(m), nil },
		func(t *testing.T, before, after host.Model) {
			for _, n := range after.Nodes {
				if n.Path != "/dev/dri/card0" && n.Path != "/dev/vfio/vfio" { // the console's, and vfio's
					t.Errorf("node %s is still there", n.Path)
				}
			}
			if after.Driver != nil || len(after.NVIDIAGPUs()) != 0 || after.Userspace == nil {
				t.Errorf("driver %v, user space %v", after.Driver, after.Userspace)
			}
		}},
	{"unloaded Tegra", "jetson-agx-orin", func(m host.Model) (host.Model, error) { return fakehw.Unloaded(m), nil }, nil},
	{"loaded again", "dgx-h100", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(fakehw.Unloaded(m), "570") },
		func(t *testing.T, before, after host.Model) {
			for i, g := range after.NVIDIAGPUs() {
				if b := before.NVIDIAGPUs()[i]; g.UUID != b.UUID || g.Minor != b.Minor {
					t.Errorf("GPU %d is %s, minor %d; was %s, minor %d", i, g.UUID, g.Minor, b.UUID, b.Minor)
				}
			}
		}},
	{"majors after a reboot", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
		return fakehw.WithMajors(m, map[string]uint32{"nvidia-uvm": 511, "nvidia-caps": 235})
	},
		func(t *testing.T, before, after host.Model) {
			wantNode(t, after, "/dev/nvidia-uvm", "511:0")
			wantNode(t, after, "/dev/nvidia-caps/nvidia-cap21", "235:21")
			if major(after, "nvidia-caps-imex-channels") != major(before, "nvidia-caps-imex-channels") {
				t.Error("the IMEX major moved with the one whose name it begins with")
			}
		}},
	{"two majors change places", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
		return fakehw.WithMajors(m, map[string]uint32{"nvidia-uvm": 236, "nvidia-caps": 235})
	},
		func(t *testing.T, before, after host.Model) {
			wantNode(t, after, "/dev/nvidia-uvm", "236:0")
			wantNode(t, after, "/dev/nvidia-caps/nvidia-cap1", "235:1")
		}},
	{"cut anew", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
		return fakehw.WithMIG(m, 0, []string{"3g.20gb:0/1c/2c", "1g.5gb:4"}, false)
	},
		func(t *testing.T, before, after host.Model) {
			// 3 + 9·i for GPU 0; gi1 is the first half, gi11 slice 4.
			for p, number := range map[string]string{"cap12": "236:12", "cap13": "236:13", "cap14": "236:14", "cap102": "236:102", "cap103": "236:103", "cap21": "", "cap30": ""} {
				wantNode(t, after, "/dev/nvidia-caps/nvidia-"+p, number)
			}
			var names []string
			for _, gi := range after.GPUs[0].MIG.Instances {
				for _, ci := range gi.Compute {
					names = append(names, ci.Profile)
					if id := strings.TrimPrefix(ci.UUID, "MIG-"); len(id) != 36 || id[14] != '5' {
						t.Errorf("UUID %s; want MIG- and version nibble 5", ci.UUID)
					}
				}
			}
			if want := []string{"1c.3g.20gb", "2c.3g.20gb", "1g.5gb"}; !slices.Equal(names, want) {
				t.Errorf("MIG devices %v; want %v", names, want)
			}
		}},
	{"a driver beside NVIDIA's", "t4-server", func(m host.Model) (host.Model, error) {
		m, err := fakehw.WithDrivers(m, device.Char, map[string]uint32{"gdrdrv": 241})
		if err != nil {
			return m, err
		}
		return fakehw.WithNode(m, device.Node{Path: "/dev/gdrdrv", Type: device.Char, Num: device.Num{Major: 241}, Mode: 0o666})
	},
		func(t *testing.T, before, after host.Model) {
			if major(after, "gdrdrv") != 241 || len(after.Majors) != len(before.Majors)+1 {
				t.Errorf("majors %v; want those of before and gdrdrv", after.Majors)
			}
		}},
	{"MIG off", "a100-mig-mixed", func(m host.Model) (host.Model, error) { return fakehw.WithMIG(m, 0, nil, true) },
		func(t *testing.T, before, after host.Model) {
			if g := after.NVIDIAGPUs(); g[0].MIG != nil || g[2].MIG == nil {
				t.Errorf("MIG %v and %v; want off for GPU 0 alone", g[0].MIG, g[2].MIG)
			}
		}},
	{"rebooted Ampere keeps the mode", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) { return fakehw.Rebooted(m), nil },
		func(t *testing.T, before, after host.Model) {
			if mig := after.GPUs[0].MIG; mig == nil || len(mig.Instances) != 0 {
				t.Errorf("MIG %v; want enabled and empty", mig)
			}
			for _, p := range []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap21"} {
				wantNode(t, after, p, "")
			}
			wantNode(t, after, "/dev/nvidia0", "195:0")
		}},
	{"rebooted Hopper forgets it", "dgx-h100", func(m host.Model) (host.Model, error) {
		m, err := fakehw.WithMIG(m, 3, []string{"7g.80gb"}, false)
		return fakehw.Rebooted(m), err
	},
		func(t *testing.T, before, after host.Model) {
			if mig := after.NVIDIAGPUs()[3].MIG; mig != nil {
				t.Errorf("MIG %v; want off", mig)
			}
		}},
	{"rebooted after an upgrade of the libraries", "t4-server", func(m host.Model) (host.Model, error) {
		m, err := fakehw.WithUserspace(m, "550")
		return fakehw.Rebooted(m), err
	},
		func(t *testing.T, before, after host.Model) {
			if after.Driver.Version != "550.163.01" || after.Userspace.Version != "550.163.01" || major(after, "nvidia") != 195 {
				t.Errorf("driver %v, user space %v; want both 550.163.01 and the line nvidia", after.Driver, after.Userspace)
			}
		}},
	{"a GPU pulled out", "workstation-intel", func(m host.Model) (host.Model, error) { return fakehw.WithoutGPU(m, 0) },
		func(t *testing.T, before, after host.Model) {
			wantNode(t, after, "/dev/nvidia0", "")
			wantNode(t, after, "/dev/nvidia1", "195:1")
			wantNode(t, after, "/dev/dri/card0", "")
			if g := after.NVIDIAGPUs(); len(g) != 1 || g[0].Index != 0 || g[0].Minor != 1 || len(after.Companions) != 1 {
				t.Errorf("left are %+v and %v; want index 0 with minor 1 and its audio function", g, after.Companions)
			}
		}},
	{"minors change places", "a100-mig-mixed", func(m host.Model) (host.Model, error) {
		return fakehw.WithMinors(m, map[int]int{0: 0, 2: 2})
	},
		func(t *testing.T, before, after host.Model) {
			wantNode(t, after, "/dev/nvidia-caps/nvidia-cap21", "500:21") // gpu0/gi2
			if len(before.Nodes) != len(after.Nodes) {
				t.Errorf("%d nodes, were %d", len(after.Nodes), len(before.Nodes))
			}
		}},
	{"a node with a wrong number", "t4-server", func(m host.Model) (host.Model, error) {
		return fakehw.WithNode(m, device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195, Minor: 7}, Mode: 0o600, UID: 1, GID: 2})
	},
		func(t *testing.T, before, after host.Model) { wantNode(t, after, "/dev/nvidia0", "195:7") }},
	{"a node less", "jetson-orin-nano", func(m host.Model) (host.Model, error) { return fakehw.WithoutNode(m, "/dev/nvmap") },
		func(t *testing.T, before, after host.Model) { wantNode(t, after, "/dev/nvmap", "") }},
}

// Each change does what it says, leaves its argument alone, and gives a host
// that discovery still reads back whole.
func TestChanges(t *testing.T) {
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			before := load(t, c.profile)
			kept := before.Clone()
			after, err := c.do(before)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kept, before); diff != "" {
				t.Errorf("the change altered its argument:\n%s", diff)
			}
			if c.check != nil {
				c.check(t, before, after)
			}
			sameAfterDiscovery(t, after)
		})
	}
}

func TestImpossibleChanges(t *testing.T) {
	for _, tc := range []struct {
		name, profile string
		do            func(host.Model) (host.Model, error)
		want          error
		says          string
	}{
		{"geometry that does not fit", "a100-mig-empty", func(m host.Model) (host.Model, error) {
			return fakehw.WithMIG(m, 0, []string{"4g.20gb", "3g.20gb", "1g.5gb"}, false)
		}, nil, "MIG geometry of GPU 0: MIG geometry [4g.20gb, 3g.20gb, 1g.5gb] on NVIDIA A100-PCIE-40GB: no room for 1g.5gb beside [4g.20gb, 3g.20gb]; what fits: nothing more"},
		{"MIG on a T4", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithMIG(m, 0, nil, false) }, nil, "this GPU has no MIG"},
		{"a GPU that is not there", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithMIG(m, 2, nil, false) }, fakehw.ErrImpossible, "there are [0 1]"},
		{"an SoC without its GPU", "jetson-agx-orin", func(m host.Model) (host.Model, error) { return fakehw.WithoutGPU(m, 0) }, fakehw.ErrImpossible, "part of the SoC"},
		{"a minor twice", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithMinors(m, map[int]int{0: 1}) }, fakehw.ErrImpossible, "GPU 1 has it"},
		{"the number of modeset", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithMinors(m, map[int]int{0: 254}) }, fakehw.ErrImpossible, "0 to 247"},
		{"a major that is taken", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
			return fakehw.WithMajors(m, map[string]uint32{"nvidia-uvm": 236})
		}, fakehw.ErrImpossible, "nvidia-caps has it"},
		{"a name that is not there", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
			return fakehw.WithMajors(m, map[string]uint32{"nvidia-cap": 300})
		}, fakehw.ErrImpossible, "0 lines of that name"},
		{"a driver that is there", "t4-server", func(m host.Model) (host.Model, error) {
			return fakehw.WithDrivers(m, device.Char, map[string]uint32{"nvidia-uvm": 300})
		}, fakehw.ErrImpossible, "it is registered"},
		{"a driver with a number that every machine uses", "t4-server", func(m host.Model) (host.Model, error) {
			return fakehw.WithDrivers(m, device.Char, map[string]uint32{"gdrdrv": 136})
		}, fakehw.ErrImpossible, "pts has that number"},
		{"a driver of two words", "t4-server", func(m host.Model) (host.Model, error) {
			return fakehw.WithDrivers(m, device.Char, map[string]uint32{"gdr drv": 241})
		}, fakehw.ErrImpossible, "one word"},
		{"a branch that never was", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "900") }, catalog.ErrUnknown, "535.113.01"},
		{"libraries of nothing", "no-driver", func(m host.Model) (host.Model, error) { return fakehw.WithUserspace(m, "550") }, fakehw.ErrImpossible, "no user-space driver"},
		{"a node outside /dev", "no-gpu", func(m host.Model) (host.Model, error) { return fakehw.WithNode(m, device.Node{Path: "/dev/../etc/x"}) }, fakehw.ErrImpossible, "below /dev"},
		{"a node that is not there", "no-gpu", func(m host.Model) (host.Model, error) { return fakehw.WithoutNode(m, "/dev/nvidia0") }, fakehw.ErrImpossible, "there is none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.do(load(t, tc.profile))
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v; want an error that wraps %v and says %q", err, tc.want, tc.says)
			}
			if diff := cmp.Diff(host.Model{}, got); diff != "" {
				t.Errorf("a model came along with the error:\n%s", diff)
			}
		})
	}
}

// A MIG device keeps its UUID as long as GPU, place and profile stay.
func TestMIGUUIDsAreStable(t *testing.T) {
	first := load(t, "a100-mig-2g-3g")
	again, err := fakehw.WithMIG(first, 0, []string{"3g.20gb:4", "2g.10gb:0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	a, b := first.GPUs[0].MIG.Instances, again.GPUs[0].MIG.Instances
	if a[0].Compute[0].UUID != b[1].Compute[0].UUID || a[1].Compute[0].UUID != b[0].Compute[0].UUID {
		t.Errorf("UUIDs %v became %v", a, b)
	}
}

// Dynamic majors differ between hosts, so that nobody gets away with a number.
func TestDynamicMajorsDifferBetweenProfiles(t *testing.T) {
	seen := map[string]map[uint32]bool{}
	for _, name := range profiles.Names() {
		for _, x := range load(t, name).Majors {
			if seen[x.Name] == nil {
				seen[x.Name] = map[uint32]bool{}
			}
			seen[x.Name][x.Major] = true
		}
	}
	for _, name := range []string{"nvidia-uvm", "nvidia-caps", "nvidia-caps-imex-channels", "nvidia-nvswitch", "kfd", "17000000.gpu"} {
		if len(seen[name]) < 2 {
			t.Errorf("%s has the same major on every host: %v", name, seen[name])
		}
	}
}
