package nvmlfake_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/nvmlfake"
)

// model is a host with an ordinary GPU, a MIG-enabled one, and Orin's.
func model() host.Model {
	bdf := func(bus uint8) *host.PCIFunction {
		return &host.PCIFunction{BDF: pci.BDF{Bus: bus}, ID: pci.ID{Vendor: pci.NVIDIA, Device: 0x20b2, SubVendor: pci.NVIDIA, SubDevice: 0x1463},
			Class: pci.Class3D, Driver: "nvidia", BARs: []host.BAR{{Index: 0, Size: 16 << 20}, {Index: 1, Size: 128 << 30}}}
	}
	return host.Model{
		Driver:    &host.Driver{Version: "550.163.01", CUDA: "12.4"},
		Userspace: &host.Userspace{Version: "550.163.01", Persist: true},
		GPUs: []host.GPU{
			{Platform: "17000000.gpu", Name: "Orin (nvgpu)", UUID: "11111111-0000-5000-8000-000000000002", Minor: -1, Index: 2, Card: 1, Render: 128, ComputeCap: "8.7"},
			{PCI: bdf(0x07), Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-11111111-0000-0000-0000-000000000001", Minor: 3, Index: 1,
				MemoryMiB: 81920, ComputeCap: "8.0", VBIOS: "92.00.9E.00.01", MIG: &host.MIG{Instances: []host.GPUInstance{
					{ID: 2, Profile: "3g.40gb", ProfileID: 9, Start: 4, Size: 4, MemoryMiB: 40192, Compute: []host.ComputeInstance{
						{ID: 0, Profile: "1c.3g.40gb", UUID: "MIG-11111111-0000-5000-8000-00000000000a", Index: 0},
						{ID: 1, Profile: "2c.3g.40gb", UUID: "MIG-11111111-0000-5000-8000-00000000000b", Index: 1},
					}},
					{ID: 9, Profile: "1g.10gb+me", ProfileID: 20, Start: 2, Size: 1, MemoryMiB: 9728, Compute: []host.ComputeInstance{
						{ID: 0, Profile: "1g.10gb+me", UUID: "MIG-11111111-0000-5000-8000-00000000000c", Index: 2},
					}},
				}}},
			{PCI: bdf(0x0f), Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-11111111-0000-0000-0000-000000000000", Minor: 0, Index: 0, MemoryMiB: 81920, ComputeCap: "8.0"},
		},
	}
}

func start(t *testing.T, m host.Model, opts nvmlfake.Options) *nvmlfake.Library {
	t.Helper()
	l := nvmlfake.New(m, opts)
	if r := l.Init(); r != nvml.SUCCESS {
		t.Fatalf("Init() = %v", r)
	}
	return l
}

func byIndex(t *testing.T, l nvml.Interface, i int) nvml.Device {
	t.Helper()
	d, r := l.DeviceGetHandleByIndex(i)
	if r != nvml.SUCCESS {
		t.Fatalf("DeviceGetHandleByIndex(%d) = %v", i, r)
	}
	return d
}

// Every method must be safe to call with zero arguments, before Init and after:
// this walks whatever go-nvml declares, so a new release cannot add a hole.
func TestEveryCallAnswersAndNoneSucceedsBeforeInit(t *testing.T) {
	always := map[string]bool{"Init": true, "InitWithFlags": true, "ErrorString": true, "Extensions": true}
	for _, started := range []bool{false, true} {
		l := nvmlfake.New(model(), nvmlfake.Options{})
		if started {
			l.Init()
		}
		answers := walk(t, reflect.ValueOf(l), reflect.TypeFor[nvml.Interface](), always)
		if started {
			l.Init() // the walk has shut it down
			for _, h := range handles(t, l) {
				for name, rs := range walk(t, h.value, h.iface, nil) {
					answers[h.iface.Name()+"."+name] = rs
				}
			}
		}
		if len(answers) < 350 {
			t.Fatalf("walked only %d calls", len(answers))
		}
		for name, rs := range answers {
			for _, r := range rs {
				if name == "SystemGetNVMLVersion" {
					continue // it asks nothing of the driver
				}
				if !started && (r == nvml.SUCCESS || r == nvml.ERROR_NOT_SUPPORTED) {
					t.Errorf("%s before Init = %v", name, r)
				}
			}
		}
	}
}

type handle struct {
	value reflect.Value
	iface reflect.Type
}

func handles(t *testing.T, l *nvmlfake.Library) []handle {
	d := byIndex(t, l, 1)
	m, _ := d.GetMigDeviceHandleByIndex(0)
	gi, _ := d.GetGpuInstanceById(2)
	ci, r := gi.GetComputeInstanceById(1)
	if r != nvml.SUCCESS {
		t.Fatalf("GetComputeInstanceById(1) = %v", r)
	}
	return []handle{
		{reflect.ValueOf(d), reflect.TypeFor[nvml.Device]()}, {reflect.ValueOf(m), reflect.TypeFor[nvml.Device]()},
		{reflect.ValueOf(gi), reflect.TypeFor[nvml.GpuInstance]()}, {reflect.ValueOf(ci), reflect.TypeFor[nvml.ComputeInstance]()},
	}
}

// walk calls every method of iface with zero values and returns the codes.
func walk(t *testing.T, v reflect.Value, iface reflect.Type, except map[string]bool) map[string][]nvml.Return {
	t.Helper()
	out := map[string][]nvml.Return{}
	for m := range iface.Methods() {
		if except[m.Name] {
			continue
		}
		var args []reflect.Value
		for in := range m.Type.Ins() {
			args = append(args, reflect.Zero(in))
		}
		for _, r := range v.MethodByName(m.Name).Call(args) {
			if code, ok := r.Interface().(nvml.Return); ok {
				out[m.Name] = append(out[m.Name], code)
			}
		}
	}
	return out
}

func TestInitFailsAsOnTheHost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*host.Model)
		want   nvml.Return
	}{
		{"a host that is complete", func(*host.Model) {}, nvml.SUCCESS},
		{"no libraries", func(m *host.Model) { m.Userspace = nil }, nvml.ERROR_LIBRARY_NOT_FOUND},
		{"no kernel driver", func(m *host.Model) { m.Driver = nil }, nvml.ERROR_DRIVER_NOT_LOADED},
		{"libraries upgraded without a reboot", func(m *host.Model) { m.Userspace.Version = "570.86.15" }, nvml.ERROR_LIB_RM_VERSION_MISMATCH},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := model()
			tc.change(&m)
			l := nvmlfake.New(m, nvmlfake.Options{})
			if r := l.Init(); r != tc.want {
				t.Errorf("Init() = %v, want %v", r, tc.want)
			}
			if _, r := l.DeviceGetCount(); (r == nvml.SUCCESS) != (tc.want == nvml.SUCCESS) {
				t.Errorf("DeviceGetCount() = %v after Init() = %v", r, tc.want)
			}
		})
	}
}

func TestInitIsCounted(t *testing.T) {
	l := nvmlfake.New(model(), nvmlfake.Options{})
	if r := l.Shutdown(); r != nvml.ERROR_UNINITIALIZED {
		t.Errorf("Shutdown() before Init = %v", r)
	}
	l.Init()
	l.Init()
	l.Shutdown()
	if n, r := l.DeviceGetCount(); n != 3 || r != nvml.SUCCESS {
		t.Errorf("DeviceGetCount() = %d, %v with one user left", n, r)
	}
	l.Shutdown()
	if _, r := l.DeviceGetCount(); r != nvml.ERROR_UNINITIALIZED {
		t.Errorf("DeviceGetCount() = %v after the last Shutdown", r)
	}
}

func TestVersions(t *testing.T) {
	l := start(t, model(), nvmlfake.Options{})
	driver, _ := l.SystemGetDriverVersion()
	lib, _ := l.SystemGetNVMLVersion()
	cuda, _ := l.SystemGetCudaDriverVersion()
	if driver != "550.163.01" || lib != "12.550.163.01" || cuda != 12040 {
		t.Errorf("driver %q, NVML %q, CUDA %d", driver, lib, cuda)
	}
}

func TestDevicesAreFoundByEveryNumbering(t *testing.T) {
	l := start(t, model(), nvmlfake.Options{})
	d := byIndex(t, l, 1)
	serial, r := d.GetSerial()
	if r != nvml.SUCCESS || len(serial) != 13 || !strings.HasPrefix(serial, "0000") {
		t.Errorf("GetSerial() = %q, %v", serial, r)
	}
	for name, find := range map[string]func() (nvml.Device, nvml.Return){
		"UUID": func() (nvml.Device, nvml.Return) {
			return l.DeviceGetHandleByUUID("GPU-11111111-0000-0000-0000-000000000001")
		},
		"bus id of NVML":  func() (nvml.Device, nvml.Return) { return l.DeviceGetHandleByPciBusId("00000000:07:00.0") },
		"bus id of sysfs": func() (nvml.Device, nvml.Return) { return l.DeviceGetHandleByPciBusId("0000:07:00.0") },
		"serial":          func() (nvml.Device, nvml.Return) { return l.DeviceGetHandleBySerial(serial) },
		"UUID in structure": func() (nvml.Device, nvml.Return) {
			return l.DeviceGetHandleByUUIDV(uuidV("GPU-11111111-0000-0000-0000-000000000001"))
		},
	} {
		if got, r := find(); r != nvml.SUCCESS || got != d {
			t.Errorf("by %s: %v, %v", name, got, r)
		}
	}
	if minor, _ := d.GetMinorNumber(); minor != 3 {
		t.Errorf("GetMinorNumber() = %d: index and minor are not the same", minor)
	}
	for name, r := range map[string]nvml.Return{
		"an index too high": second(l.DeviceGetHandleByIndex(3)), "a negative index": second(l.DeviceGetHandleByIndex(-1)),
		"a bus id that is none": second(l.DeviceGetHandleByPciBusId("07:00")),
	} {
		if r != nvml.ERROR_INVALID_ARGUMENT {
			t.Errorf("%s: %v", name, r)
		}
	}
	if d, r := l.DeviceGetHandleByUUID("GPU-0"); d != nil || r != nvml.ERROR_NOT_FOUND {
		t.Errorf("an unknown UUID: %v, %v", d, r)
	}
}

func second[T any](_ T, r nvml.Return) nvml.Return { return r }

func uuidV(s string) *nvml.UUID {
	u := &nvml.UUID{Type: uint32(nvml.UUID_TYPE_ASCII)}
	copy(u.Value[:], s)
	return u
}

func TestPciInfoHasNVMLsForm(t *testing.T) {
	info, r := byIndex(t, start(t, model(), nvmlfake.Options{}), 1).GetPciInfo()
	if r != nvml.SUCCESS {
		t.Fatal(r)
	}
	var text []byte
	for _, c := range info.BusId {
		if c != 0 {
			text = append(text, byte(c))
		}
	}
	if string(text) != "00000000:07:00.0" || info.PciDeviceId != 0x20b210de || info.PciSubSystemId != 0x146310de {
		t.Errorf("BusId %q, device %#x, subsystem %#x", text, info.PciDeviceId, info.PciSubSystemId)
	}
}

func TestOrinHasNoPCIAddressNoMinorAndNoMemory(t *testing.T) {
	d := byIndex(t, start(t, model(), nvmlfake.Options{}), 2)
	for name, r := range map[string]nvml.Return{
		"GetPciInfo": second(d.GetPciInfo()), "GetMinorNumber": second(d.GetMinorNumber()), "GetMemoryInfo": second(d.GetMemoryInfo()),
		"GetSerial": second(d.GetSerial()),
	} {
		if r != nvml.ERROR_NOT_SUPPORTED {
			t.Errorf("%s = %v", name, r)
		}
	}
	if name, _ := d.GetName(); name != "Orin (nvgpu)" {
		t.Errorf("name %q", name)
	}
	if uuid, _ := d.GetUUID(); strings.Contains(uuid, "GPU") {
		t.Errorf("UUID %q has a prefix", uuid)
	}
}

func TestMIGDevices(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts nvmlfake.Options
		uuid string
	}{
		{"named as drivers from 470 do", nvmlfake.Options{}, "MIG-11111111-0000-5000-8000-00000000000b"},
		{"named as older drivers do", nvmlfake.Options{OldMIGNames: true}, "MIG-GPU-11111111-0000-0000-0000-000000000001/2/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := start(t, model(), tc.opts)
			parent := byIndex(t, l, 1)
			m, r := l.DeviceGetHandleByUUID(tc.uuid)
			if r != nvml.SUCCESS {
				t.Fatalf("DeviceGetHandleByUUID(%q) = %v", tc.uuid, r)
			}
			if same, _ := parent.GetMigDeviceHandleByIndex(1); same != m {
				t.Errorf("index 1 and %s are different devices", tc.uuid)
			}
			uuid, _ := m.GetUUID()
			gi, _ := m.GetGpuInstanceId()
			ci, _ := m.GetComputeInstanceId()
			up, _ := m.GetDeviceHandleFromMigDeviceHandle()
			is, _ := m.IsMigDeviceHandle()
			attr, _ := m.GetAttributes()
			if uuid != tc.uuid || gi != 2 || ci != 1 || up != parent || !is {
				t.Errorf("uuid %s, GI %d, CI %d, parent %v, MIG %v", uuid, gi, ci, up, is)
			}
			if attr.GpuInstanceSliceCount != 3 || attr.ComputeInstanceSliceCount != 2 || attr.MemorySizeMB != 40192 {
				t.Errorf("attributes %+v", attr)
			}
		})
	}
}

func TestMIGModeAndCounts(t *testing.T) {
	l := start(t, model(), nvmlfake.Options{PendingMIG: []int{0}})
	for i, want := range []struct {
		current, pending, max int
		r                     nvml.Return
	}{{0, 1, 7, nvml.SUCCESS}, {1, 1, 7, nvml.SUCCESS}, {0, 0, 0, nvml.ERROR_NOT_SUPPORTED}} {
		d := byIndex(t, l, i)
		current, pending, r := d.GetMigMode()
		n, _ := d.GetMaxMigDeviceCount()
		if current != want.current || pending != want.pending || r != want.r || n != want.max {
			t.Errorf("GPU %d: mode %d, %d, %v; max %d; want %+v", i, current, pending, r, n, want)
		}
	}
	if r := second(byIndex(t, l, 0).GetMigDeviceHandleByIndex(0)); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("MIG mode is off: %v", r)
	}
	if r := second(byIndex(t, l, 2).GetMigDeviceHandleByIndex(0)); r != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("a GPU that knows no MIG: %v", r)
	}
	d := byIndex(t, l, 1)
	if r := second(d.GetMigDeviceHandleByIndex(3)); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("no MIG device there: %v", r)
	}
	if r := second(d.GetMigDeviceHandleByIndex(7)); r != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("an index too high: %v", r)
	}
}

func TestFaults(t *testing.T) {
	l := start(t, model(), nvmlfake.Options{Fail: map[string]nvml.Return{
		"DeviceGetUUID:1": nvml.ERROR_GPU_IS_LOST, "DeviceGetName": nvml.ERROR_TIMEOUT, "DeviceGetPowerUsage": nvml.ERROR_UNKNOWN,
	}})
	for i, want := range []nvml.Return{nvml.SUCCESS, nvml.ERROR_GPU_IS_LOST, nvml.SUCCESS} {
		if r := second(byIndex(t, l, i).GetUUID()); r != want {
			t.Errorf("GPU %d: GetUUID() = %v, want %v", i, r, want)
		}
	}
	if r := second(l.DeviceGetName(byIndex(t, l, 0))); r != nvml.ERROR_TIMEOUT {
		t.Errorf("DeviceGetName() = %v: both spellings of a call share its fault", r)
	}
	if r := second(byIndex(t, l, 0).GetPowerUsage()); r != nvml.ERROR_UNKNOWN {
		t.Errorf("GetPowerUsage() = %v: a call that is not modelled has faults too", r)
	}
	if r := nvmlfake.New(model(), nvmlfake.Options{Fail: map[string]nvml.Return{"Init": nvml.ERROR_TIMEOUT}}).Init(); r != nvml.ERROR_TIMEOUT {
		t.Errorf("Init() = %v", r)
	}
}

func TestOptionsNameRealCalls(t *testing.T) {
	good := nvmlfake.Options{Fail: map[string]nvml.Return{"Init": 1, "DeviceGetUUID:0": 1}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := nvmlfake.Options{Fail: map[string]nvml.Return{"nvmlInit": 1}}
	if err := bad.Validate(); !errors.Is(err, nvmlfake.ErrUnknownCall) {
		t.Errorf("Validate() = %v", err)
	}
	if err := (nvmlfake.Options{Fail: map[string]nvml.Return{"DeviceGetUUID:GPU-0": 1}}).Validate(); err == nil {
		t.Error("a UUID after the colon passed")
	}
}

func TestSymbolsOfHandlersAreMissing(t *testing.T) {
	ext := nvmlfake.New(model(), nvmlfake.Options{}).Extensions()
	for _, name := range []string{"nvmlDeviceGetMigMode", "nvmlInit_v2", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetMemoryInfo_v2"} {
		if err := ext.LookupSymbol(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"nvmlDeviceGetGpuFabricInfoV", "nvmlNoSuchCall", "cuInit"} {
		if err := ext.LookupSymbol(name); !errors.Is(err, nvmlfake.ErrNoSymbol) {
			t.Errorf("LookupSymbol(%q) = %v", name, err)
		}
	}
}

// On a host of the vGPU manager a board that can be divided says so, the others and
// those of other hosts are for themselves; of CUDA the driver's own number is known,
// and no library has one.
func TestHostsOfVGPUs(t *testing.T) {
	m := model()
	m.GPUs = m.GPUs[2:]
	m.GPUs[0].PCI.ID = pci.ID{Vendor: pci.NVIDIA, Device: 0x2235, SubVendor: pci.NVIDIA, SubDevice: 0x145a} // an A40
	for _, vgpu := range []bool{false, true} {
		m.Driver.VGPU, m.Userspace.VGPU = "", vgpu
		want, mode, cuda := nvml.GpuVirtualizationMode(nvml.GPU_VIRTUALIZATION_MODE_NONE), nvml.ERROR_NOT_SUPPORTED, nvml.SUCCESS
		if vgpu {
			m.Driver.VGPU = host.VGPUMDev
			want, mode, cuda = nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU, nvml.SUCCESS, nvml.ERROR_LIBRARY_NOT_FOUND
		}
		l := start(t, m, nvmlfake.Options{})
		d := byIndex(t, l, 0)
		if got, r := d.GetVirtualizationMode(); got != want || r != nvml.SUCCESS {
			t.Errorf("vGPUs %v: GetVirtualizationMode() = %v, %v; want %v", vgpu, got, r, want)
		}
		if got, r := d.GetHostVgpuMode(); r != mode || vgpu && got != nvml.HOST_VGPU_MODE_SRIOV {
			t.Errorf("vGPUs %v: GetHostVgpuMode() = %v, %v; want %v", vgpu, got, r, mode)
		}
		if v, r := l.SystemGetCudaDriverVersion_v2(); r != cuda {
			t.Errorf("vGPUs %v: SystemGetCudaDriverVersion_v2() = %d, %v; want %v", vgpu, v, r, cuda)
		}
		if v, r := l.SystemGetCudaDriverVersion(); v != 12040 || r != nvml.SUCCESS {
			t.Errorf("vGPUs %v: SystemGetCudaDriverVersion() = %d, %v", vgpu, v, r)
		}
	}
}
