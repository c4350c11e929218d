package nvidia_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/nvmlfake"
)

// server is a host with an A100 in MIG mode, an empty A100 in MIG mode, a
// GeForce and Orin's GPU.
func server() host.Model {
	at := func(bus uint8, device, sub uint16) *host.PCIFunction {
		return &host.PCIFunction{BDF: pci.BDF{Bus: bus}, ID: pci.ID{Vendor: pci.NVIDIA, Device: device, SubVendor: pci.NVIDIA, SubDevice: sub}}
	}
	return host.Model{
		Driver: &host.Driver{Version: "550.163.01", CUDA: "12.4"}, Userspace: &host.Userspace{Version: "550.163.01"},
		GPUs: []host.GPU{
			{Platform: "17000000.gpu", Index: 3, Minor: -1, UUID: "11111111-0000-5000-8000-000000000003", Name: "Orin (nvgpu)", ComputeCap: "8.7"},
			{PCI: at(0x07, 0x20b2, 0x1463), Index: 0, Minor: 1, UUID: "GPU-11111111-0000-0000-0000-000000000000", Name: "NVIDIA A100-SXM4-80GB",
				MemoryMiB: 81920, ComputeCap: "8.0", VBIOS: "92.00.9E.00.01", MIG: &host.MIG{Instances: []host.GPUInstance{
					{ID: 2, Profile: "3g.40gb", ProfileID: 9, Start: 4, Size: 4, MemoryMiB: 40192, Compute: []host.ComputeInstance{
						{ID: 0, Profile: "1c.3g.40gb", UUID: "MIG-a", Index: 0}, {ID: 1, Profile: "2c.3g.40gb", UUID: "MIG-b", Index: 1},
					}},
					{ID: 9, Profile: "1g.10gb+me", ProfileID: 20, Start: 2, Size: 1, MemoryMiB: 9728, Compute: []host.ComputeInstance{
						{ID: 0, Profile: "1g.10gb+me", UUID: "MIG-c", Index: 2},
					}},
					{ID: 7, Profile: "1g.20gb", ProfileID: 15, Start: 0, Size: 2, MemoryMiB: 19968},
				}}},
			{PCI: at(0x0f, 0x20b2, 0x1463), Index: 1, Minor: 0, UUID: "GPU-11111111-0000-0000-0000-000000000001", Name: "NVIDIA A100-SXM4-80GB",
				MemoryMiB: 81920, ComputeCap: "8.0", MIG: &host.MIG{}},
			{PCI: at(0x47, 0x2684, 0x1111), Index: 2, Minor: 2, UUID: "GPU-11111111-0000-0000-0000-000000000002", Name: "NVIDIA GeForce RTX 4090",
				MemoryMiB: 24564, ComputeCap: "8.9"},
		},
	}
}

func TestNVMLTellsWhatTheModelHas(t *testing.T) {
	m := server()
	lib := nvmlfake.New(m, nvmlfake.Options{})
	n := nvidia.NVML(lib)
	cuda, err := n.CUDAVersion()
	if err != nil || cuda != "12.4" {
		t.Errorf("CUDAVersion() = %q, %v", cuda, err)
	}
	got, err := n.Devices()
	if err != nil {
		t.Fatal(err)
	}
	var want []host.NVMLDevice
	for _, g := range m.NVIDIAGPUs() {
		d := host.NVMLDevice{Index: g.Index, Minor: g.Minor, UUID: g.UUID, Name: g.Name, MemoryMiB: g.MemoryMiB,
			ComputeCap: g.ComputeCap, VBIOS: g.VBIOS, MIG: g.MIG}
		if g.PCI != nil {
			d.PCI = &g.PCI.BDF
		}
		want = append(want, d)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Devices() differs from the model (-model +NVML):\n%s", diff)
	}
	if lib.Users() != 0 {
		t.Errorf("%d users of the library left behind", lib.Users())
	}
}

// B45: no list is shorter than the host for an error.
func TestNVMLNamesTheCallThatFailed(t *testing.T) {
	for call, fail := range map[string]nvml.Return{
		"Init": nvml.ERROR_LIB_RM_VERSION_MISMATCH, "DeviceGetCount": nvml.ERROR_UNKNOWN, "DeviceGetUUID": nvml.ERROR_GPU_IS_LOST,
		"DeviceGetMigMode": nvml.ERROR_TIMEOUT,
	} {
		lib := nvmlfake.New(server(), nvmlfake.Options{Fail: map[string]nvml.Return{call: fail}})
		got, err := nvidia.NVML(lib).Devices()
		if e, ok := errors.AsType[*nvidia.Error](err); !ok || e.Call != call || !errors.Is(err, fail) || got != nil {
			t.Errorf("%s fails: %v, %v", call, got, err)
		}
		if lib.Users() != 0 {
			t.Errorf("%s fails: %d users of the library left behind", call, lib.Users())
		}
	}
}

// B45: a GPU that does not answer is in the list with its error, and the others
// are what they were.
func TestNVMLListsAGPUThatDoesNotAnswer(t *testing.T) {
	for call, fail := range map[string]nvml.Return{
		"DeviceGetHandleByIndex:0": nvml.ERROR_GPU_IS_LOST, "DeviceGetUUID:0": nvml.ERROR_UNKNOWN,
		"GpuInstanceGetInfo": nvml.ERROR_UNKNOWN, "DeviceGetGpuInstanceId": nvml.ERROR_UNKNOWN,
	} {
		lib := nvmlfake.New(server(), nvmlfake.Options{Fail: map[string]nvml.Return{call: fail}})
		got, err := nvidia.NVML(lib).Devices()
		if err != nil || len(got) != 4 {
			t.Fatalf("%s fails: %v, %v", call, got, err)
		}
		name, _, _ := strings.Cut(call, ":")
		if e, ok := errors.AsType[*nvidia.Error](got[0].Err); !ok || e.Call != name || e.Return != fail || got[0].Index != 0 || got[0].UUID != "" {
			t.Errorf("%s fails: %+v", call, got[0])
		}
		whole, err := nvidia.NVML(nvmlfake.New(server(), nvmlfake.Options{})).Devices()
		if diff := cmp.Diff(whole[1:], got[1:]); err != nil || diff != "" {
			t.Errorf("%s fails: %v; the other GPUs (-healthy +got):\n%s", call, err, diff)
		}
	}
}
