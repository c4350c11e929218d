package fault_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

func model(t *testing.T, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func list(t *testing.T, texts ...string) fault.List {
	t.Helper()
	l, err := fault.ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reach is which paths a fault may touch, and whether NVML is among them.
type reach struct {
	paths []string // prefixes
	nvml  bool
}

var driverMade = []string{
	"/sys/module/nvidia", "/sys/bus/pci/drivers/nvidia", "/sys/class/drm", "/sys/dev/char", "/sys/devices/virtual", "/proc/driver/nvidia",
	"/proc/devices", "/proc/modules", "/dev/nvidia", "/dev/dri", "/dev/char", "/sys/class/", "/sys/kernel/",
	"/sys/devices/pci*/driver", "/sys/devices/pci*/drm", "/sys/devices/pci*/uevent", "/sys/devices/pci*/enable", "/sys/devices/pci*/config", "/sys/devices/pci*/irq", "/sys/devices/pci*/msi_irqs",
	"/proc/driver",
}

// Every kind of fault, on a host that can have it.
var cases = []struct {
	host, fault string
	reach       reach
}{
	{"dgx-a100", "no-driver", reach{driverMade, true}},
	{"dgx-a100", "no-driver:3", reach{driverMade, true}},
	{"workstation", "no-driver:0000:0a:00.0", reach{driverMade, true}},
	{"dgx-a100", "version-mismatch:570", reach{[]string{"/usr/", "/etc/", "/lib/"}, true}},
	{"t4-server", "half-upgrade:570", reach{[]string{"/usr/lib/"}, true}},
	{"dgx-a100", "no-persistenced", reach{[]string{"/run/nvidia-persistenced"}, false}},
	{"jetson-agx-orin", "csv-missing:/dev/nvhost-gone", reach{[]string{"/etc/nvidia-container-runtime/"}, false}},
	{"jetson-agx-orin", "csv-missing:/dev/nvmap", reach{[]string{"/dev/nvmap", "/dev/char/", "/proc/misc"}, false}},
	{"dgx-a100", "no-uvm", reach{[]string{"/dev/nvidia-uvm", "/dev/char/", "/proc/devices", "/proc/modules", "/proc/driver/nvidia-uvm", "/sys/module/nvidia"}, false}},
	{"dgx-a100", "unmade", reach{[]string{"/dev/nvidia", "/dev/char/", "/proc/devices", "/proc/modules", "/proc/driver/nvidia-uvm", "/sys/module/nvidia"}, false}},
	{"dgx-a100", "unmade:caps,gpus", reach{[]string{"/dev/nvidia", "/dev/char/"}, false}},
	{"t4-server", "stale-major:nvidia-uvm=511", reach{[]string{"/proc/devices"}, false}},
	{"dgx-a100", "no-nodes", reach{[]string{"/dev/nvidia", "/dev/char/"}, false}},
	{"a100-mig-2g-3g", "no-nodes:/dev/nvidia-caps/*", reach{[]string{"/dev/nvidia-caps", "/dev/char/"}, false}},
	{"dgx-a100", "node:/dev/nvidia0,mode=0600,uid=1000", reach{[]string{"/dev/nvidia0"}, false}},
	{"dgx-a100", "off-bus:0", reach{[]string{"/sys/devices/pci*/config", "/sys/devices/pci*/current_link_speed", "/sys/devices/pci*/current_link_width", "/sys/devices/pci*/max_link_width"}, true}},
	{"dgx-a100", "xid:0=48", reach{nil, true}},
	{"dgx-a100", "nvml:Init=DRIVER_NOT_LOADED", reach{nil, true}},
	{"dgx-a100", "nvml:DeviceGetUUID:2=UNKNOWN", reach{nil, true}},
	{"dgx-a100", "nvml:nvmlDeviceGetHandleByIndex_v2=999", reach{nil, true}},
}

// A fault reaches its own surface and no other, and without it the host is what
// it was, byte for byte.
func TestOneSurface(t *testing.T) {
	tried := map[string]bool{}
	for _, tc := range cases {
		t.Run(strings.ReplaceAll(tc.fault, "/", "."), func(t *testing.T) {
			m := model(t, tc.host)
			before, err := fakehw.Build(m)
			if err != nil {
				t.Fatal(err)
			}
			faults := list(t, tc.fault)
			tried[faults[0].Kind()] = true
			b, err := fault.Break(m, faults)
			if err != nil {
				t.Fatal(err)
			}
			after, err := b.Tree()
			if err != nil {
				t.Fatal(err)
			}
			changes := before.Clone().Update(after.Clone())
			for _, c := range changes {
				if !slices.ContainsFunc(tc.reach.paths, func(p string) bool { return touches(p, c.Path) }) {
					t.Errorf("it reaches %s", c.Path)
				}
			}
			if (len(changes) > 0) != (len(tc.reach.paths) > 0) {
				t.Errorf("%d changes of files, reach %v", len(changes), tc.reach.paths)
			}
			says, said := nvmllib.StateWith(b.Model, b.NVML(nvmlfake.Options{})), nvmllib.StateWith(m, nvmlfake.Options{})
			if differs := string(says) != string(said); differs != tc.reach.nvml {
				t.Errorf("NVML differs: %v, want %v\n%s", differs, tc.reach.nvml, cmp.Diff(string(said), string(says)))
			}
			discovered(t, b, after)

			// Healed: what Break was given is untouched, and makes the same host.
			healed, err := faults.Without(faults[0])
			if err != nil {
				t.Fatal(err)
			}
			b, err = fault.Break(m, healed)
			if err != nil {
				t.Fatal(err)
			}
			again, err := b.Tree()
			if err != nil {
				t.Fatal(err)
			}
			if again.Sum() != before.Sum() {
				t.Errorf("healed, %d files differ", len(before.Update(again)))
			}
			if string(nvmllib.StateWith(b.Model, b.NVML(nvmlfake.Options{}))) != string(said) {
				t.Error("healed, NVML differs")
			}
		})
	}
	for _, k := range fault.Kinds() {
		if !tried[k.Name] {
			t.Errorf("no case for %s", k.Name)
		}
	}
}

// touches compares a path with a prefix; "*" stands for the way in between.
func touches(prefix, p string) bool {
	head, tail, some := strings.Cut(prefix, "*")
	return strings.HasPrefix(p, head) && (!some || strings.Contains(p, tail))
}

// discovered holds the files to the model: whoever reads them finds what Break
// says the host is. A lost GPU, and a library that fails, tell less.
func discovered(t *testing.T, b fault.Broken, files *tree.Tree) {
	t.Helper()
	lib := nvmlfake.New(b.Model, b.NVML(nvmlfake.Options{}))
	if lib.Init() != nvml.SUCCESS || len(b.NVML(nvmlfake.Options{}).Fail) > 0 {
		return
	}
	got, err := host.Discover(files, nvidia.NVML(lib))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Model, got); diff != "" {
		t.Errorf("Discover (-model +found):\n%s", diff)
	}
}

// A GPU that fell off the bus fails every question about it, and no other does.
func TestOffTheBus(t *testing.T) {
	m := model(t, "dgx-a100")
	b, err := fault.Break(m, list(t, "off-bus:1"))
	if err != nil {
		t.Fatal(err)
	}
	lib := nvmlfake.New(b.Model, b.NVML(nvmlfake.Options{}))
	if r := lib.Init(); r != nvml.SUCCESS {
		t.Fatalf("Init: %v", r)
	}
	if n, r := lib.DeviceGetCount(); n != 8 || r != nvml.SUCCESS {
		t.Errorf("DeviceGetCount = %d, %v; the driver still counts it", n, r)
	}
	if _, r := lib.DeviceGetHandleByIndex(1); r != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("DeviceGetHandleByIndex(1) = %v", r)
	}
	if _, r := lib.DeviceGetHandleByUUID(m.GPUs[1].UUID); r != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("DeviceGetHandleByUUID = %v", r)
	}
	if _, r := lib.DeviceGetHandleByIndex(0); r != nvml.SUCCESS {
		t.Errorf("DeviceGetHandleByIndex(0) = %v", r)
	}
	files, err := b.Tree()
	if err != nil {
		t.Fatal(err)
	}
	config, err := files.ReadFile("/sys/bus/pci/devices/" + m.GPUs[1].PCI.BDF.String() + "/config")
	if err != nil || strings.Trim(string(config), "\xff") != "" || len(config) != 4096 {
		t.Errorf("config has %d bytes, %v, that are not all ones", len(config), err)
	}
}

// Half an upgrade has both versions, the compute libraries new.
func TestHalfUpgrade(t *testing.T) {
	m := model(t, "t4-server")
	b, err := fault.Break(m, list(t, "half-upgrade:570"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := b.Tree()
	if err != nil {
		t.Fatal(err)
	}
	dir := m.Userspace.LibDir
	for lib, version := range map[string]string{
		"libcuda.so.1": b.Model.Userspace.Version, "libnvidia-ml.so.1": b.Model.Userspace.Version, "libnvcuvid.so.1": m.Userspace.Version, "libGLX_nvidia.so.0": m.Userspace.Version,
	} {
		real, err := host.Resolve(files, dir+"/"+lib)
		if err != nil || path.Ext(real) == "" || !strings.HasSuffix(real, version) {
			t.Errorf("%s is %s, %v; want version %s", lib, real, err, version)
		}
	}
	if r := nvmlfake.New(b.Model, b.NVML(nvmlfake.Options{})).Init(); r != nvml.ERROR_LIB_RM_VERSION_MISMATCH {
		t.Errorf("Init = %v", r)
	}
}

// Two GPUs can fall off the bus, and one call can fail for two.
func TestOneFaultOnTwoGPUs(t *testing.T) {
	if b, err := fault.Break(model(t, "dgx-a100"), list(t, "off-bus:5", "xid:2=48", "xid:2=94")); err != nil || !slices.Equal(b.NVML(nvmlfake.Options{}).Xids, []nvmlfake.Xid{{GPU: 5, Code: 79}, {GPU: 2, Code: 48}, {GPU: 2, Code: 94}}) {
		t.Errorf("Xids are %v, %v", b.NVML(nvmlfake.Options{}).Xids, err)
	}
	b, err := fault.Break(model(t, "dgx-a100"), list(t, "off-bus:5", "off-bus:2", "nvml:DeviceGetUUID:0=9", "nvml:DeviceGetUUID:1=10"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]nvml.Return{"*:5": 15, "*:2": 15, "DeviceGetUUID:0": 9, "DeviceGetUUID:1": 10}
	if diff := cmp.Diff(want, b.NVML(nvmlfake.Options{}).Fail); diff != "" {
		t.Error(diff)
	}
}

// Faults are named by what the healthy host has, whatever else is broken.
func TestTogether(t *testing.T) {
	m := model(t, "dgx-a100")
	b, err := fault.Break(m, list(t, "off-bus:5", "no-driver:2", "no-uvm", "nvml:DeviceGetUUID:7=UNKNOWN"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]nvml.Return{"*:4": nvml.ERROR_GPU_IS_LOST, "DeviceGetUUID:6": nvml.ERROR_UNKNOWN}
	if diff := cmp.Diff(want, b.NVML(nvmlfake.Options{}).Fail); diff != "" {
		t.Error(diff)
	}
	one, two := list(t, "no-uvm", "off-bus:5"), list(t, "off-bus:5", "no-uvm")
	if !slices.Equal(one, two) {
		t.Errorf("%v is not %v", one, two)
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		host   string
		faults []string
		is     error
		says   string
	}{
		{"dgx-a100", []string{"no-uvm", "no-uvm"}, fault.ErrConflict, "there already"},
		{"dgx-a100", []string{"version-mismatch:570", "half-upgrade:550"}, fault.ErrConflict, "which libraries"},
		{"dgx-a100", []string{"no-driver", "no-driver:1"}, fault.ErrConflict, "driver away"},
		{"dgx-a100", []string{"node:/dev/nvidia0,mode=0600", "node:/dev/nvidia0,uid=1"}, fault.ErrConflict, "the same node"},
		{"dgx-a100", []string{"nvml:init=9", "nvml:Init=10"}, fault.ErrConflict, "same call"},
		{"dgx-a100", []string{"off-bus:1", "off-bus:1"}, fault.ErrConflict, "there already"},
		{"dgx-a100", []string{"nvml:init=9", "nvml:DeviceGetCount=9"}, fault.ErrConflict, "does not start"},
		{"dgx-a100", []string{"nvml:DeviceGetUUID=9", "nvml:DeviceGetUUID:1=10"}, fault.ErrConflict, "same call"},
		{"dgx-a100", []string{"off-bus:1", "nvml:DeviceGetUUID:1=10"}, fault.ErrConflict, "same call"},
		{"dgx-a100", []string{"no-driver", "no-uvm"}, fault.ErrConflict, "beside no-driver"},
		{"dgx-a100", []string{"no-nodes", "node:/dev/nvidia0,mode=0600"}, fault.ErrConflict, "beside no-nodes"},
		{"dgx-a100", []string{"no-uvm", "stale-major:nvidia-uvm=400"}, fault.ErrConflict, "beside no-uvm"},
		{"dgx-a100", []string{"version-mismatch:570", "nvml:DeviceGetCount=9"}, fault.ErrConflict, "does not start"},
		{"dgx-a100", []string{"off-bus:8"}, fault.ErrImpossible, "no GPU 8; there are 0 (0000:"},
		{"dgx-a100", []string{"csv-missing:/x"}, fault.ErrImpossible, "no CSV"},
		{"dgx-a100", []string{"stale-major:nvidia-frontend=200"}, fault.ErrImpossible, "195 on every boot"},
		{"dgx-a100", []string{"stale-major:nvme=200"}, fault.ErrImpossible, "there are"},
		{"dgx-a100", []string{"version-mismatch:1"}, fault.ErrImpossible, "1"},
		{"dgx-a100", []string{"no-nodes:/dev/kfd*"}, fault.ErrImpossible, "/dev/kfd*"},
		{"jetson-agx-orin", []string{"off-bus:0"}, fault.ErrImpossible, "on no bus"},
		{"jetson-agx-orin", []string{"half-upgrade:570"}, fault.ErrImpossible, "Jetson"},
		{"jetson-agx-orin", []string{"no-uvm"}, fault.ErrImpossible, "not loaded"},
	} {
		t.Run(strings.ReplaceAll(strings.Join(tc.faults, " "), "/", "."), func(t *testing.T) {
			l, err := fault.ParseList(tc.faults)
			if err == nil {
				_, err = fault.Break(model(t, tc.host), l)
			}
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) || e.Hint == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v (hint %q); want %v that says %q", err, hintOf(e), tc.is, tc.says)
			}
		})
	}
}

func hintOf(e *fault.Error) string {
	if e == nil {
		return ""
	}
	return e.Hint
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"nvml:init=NVML_ERROR_DRIVER_NOT_LOADED":  "nvml:Init=DRIVER_NOT_LOADED",
		"nvml:nvmlDeviceGetUUID=999":              "nvml:DeviceGetUUID=UNKNOWN",
		"nvml:nvmlDeviceGetCount_v2=77":           "nvml:DeviceGetCount=77",
		"nvml:nvmlDeviceGetMemoryInfo_v2:01=3":    "nvml:DeviceGetMemoryInfo_v2:1=NOT_SUPPORTED",
		"nvml:*:00000000:41:00.0=15":              "nvml:*:0000:41:00.0=GPU_IS_LOST",
		"node:/dev/nvidia0,uid=07,mode=600":       "node:/dev/nvidia0,mode=0600,uid=7",
		"no-driver:00000000:41:00.0":              "no-driver:0000:41:00.0",
		"stale-major:nvidia-caps=0511":            "stale-major:nvidia-caps=511",
		"no-nodes:/dev/nvidia-caps/nvidia-cap[1]": "no-nodes:/dev/nvidia-caps/nvidia-cap[1]",
	} {
		if f, err := fault.Parse(in); err != nil || f.String() != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", in, f, err, want)
		}
	}
	for in, says := range map[string]string{
		"": `unknown fault ""`, "gone": `unknown fault "gone"`, "off-buss:0": `unknown fault "off-buss"; did you mean "off-bus"?`, "no-uvm:1": "no argument", "no-uvm:": "after the colon", "unmade:gpu": "none of gpus", "unmade:uvm,uvm": "twice", "unmade:uvm,": "none of", "off-bus": "neither", "off-bus:x": "neither",
		"version-mismatch": "driver version", "version-mismatch:new": "driver version", "csv-missing:rel": "clean", "csv-missing:/a/../b": "clean",
		"stale-major:nvidia-uvm": "which driver", "stale-major:x=0": "no major", "stale-major:x=4096": "no major", "no-nodes:/etc/*": "below /dev", "no-nodes:/dev/[": "below /dev",
		"node:/dev/nvidia0": "nothing is said", "node:/dev/nvidia0,mode=0999": "mode", "node:/dev/nvidia0,mode=1777": "mode", "node:/etc/x,uid=1": "below /dev",
		"node:/dev/x,uid=1,uid=2": "twice", "node:/dev/x,size=1": "want mode, uid or gid", "node:/dev/x,uid=4294967295": "uid", "xid:0": "which GPU", "xid:0=0": "no Xid", "xid:0=256": "no Xid", "xid:x=48": "neither", "nvml:Init": "returns", "nvml:Init=0": "success",
		"nvml:Init=NOPE": "NOPE", "nvml:deviceGetUUID=1": "no call", "nvml:Init:0=1": "about one GPU", "nvml:*=1": "needs the GPU", "nvml:DeviceGetUUID:x=1": "neither",
	} {
		f, err := fault.Parse(in)
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || !errors.Is(err, fault.ErrSyntax) || !strings.Contains(err.Error(), says) || e.Hint == "" || f != (fault.Fault{}) {
			t.Errorf("Parse(%q) = %v, %v; want an error with a hint that says %q", in, f, err, says)
		}
	}
	for _, k := range fault.Kinds() {
		f, err := fault.Parse(k.Example)
		if err != nil || f.Kind() != k.Name || f.String() != k.Example {
			t.Errorf("the example %q of %s is %q, %v", k.Example, k.Name, f, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range cases {
		f.Add(tc.fault)
	}
	for _, k := range fault.Kinds() {
		f.Add(k.Example)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := fault.Parse(s)
		if err != nil {
			if e, ok := errors.AsType[*fault.Error](err); !ok || x != (fault.Fault{}) || strings.ContainsAny(fmt.Sprint(e), "\n") {
				t.Fatalf("Parse(%q) = %v, %v", s, x, err)
			}
			return
		}
		if again, err := fault.Parse(x.String()); err != nil || again != x {
			t.Fatalf("%q is %q, which is %q, %v", s, x, again, err)
		}
	})
}

// Nodes that are made are made for good, and other faults keep theirs away.
func TestMade(t *testing.T) {
	for _, tc := range []struct {
		host, group string
		before      []string
		want        []string
	}{
		{"dgx-a100", "uvm", []string{"unmade"}, []string{"unmade:gpus,modeset,caps"}},
		{"dgx-a100", "uvm", []string{"unmade:uvm"}, nil},
		{"dgx-a100", "gpus", []string{"unmade:uvm,caps"}, []string{"unmade:uvm,caps"}},
		{"dgx-a100", "uvm", []string{"no-uvm"}, []string{"no-uvm"}},
		{"dgx-a100", "uvm", []string{"no-uvm", "unmade"}, []string{"no-uvm", "unmade:gpus,modeset,caps"}},
		{"dgx-a100", "gpus", []string{"off-bus:0", "unmade:gpus"}, []string{"off-bus:0"}},
		{"dgx-a100", "gpus", []string{"no-nodes:/dev/nvidia-caps/*", "unmade:gpus"}, []string{"no-nodes:/dev/nvidia-caps/*"}},
		{"dgx-a100", "what", []string{"unmade"}, []string{"unmade"}},
	} {
		got := list(t, tc.before...).Made(tc.group, model(t, tc.host))
		if diff := cmp.Diff(tc.want, got.Texts()); diff != "" {
			t.Errorf("%v, %s made (-want +got):\n%s", tc.before, tc.group, diff)
		}
	}
}
