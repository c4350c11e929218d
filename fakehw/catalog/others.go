package catalog

import (
	"gpurig/core/host"
	"gpurig/core/pci"
)

func radeon(vram uint64) []host.BAR {
	return []host.BAR{
		{Index: 0, Size: vram, Flags: flagsPref},
		{Index: 2, Size: 2 * mib, Flags: flagsPref},
		{Index: 4, Size: 256, Flags: flagsIO},
		{Index: 5, Size: mib, Flags: flagsMem32},
		{Index: 6, Size: 128 * kib, Flags: flagsROM},
	}
}

func intel(vram uint64) []host.BAR {
	return []host.BAR{
		{Index: 0, Size: 16 * mib, Flags: flagsMem64},
		{Index: 2, Size: vram, Flags: flagsPref},
	}
}

func amdID(device, sub uint16) pci.ID {
	return pci.ID{Vendor: pci.AMD, Device: device, SubVendor: pci.AMD, SubDevice: sub}
}

func intelID(device, sub uint16) pci.ID {
	return pci.ID{Vendor: pci.Intel, Device: device, SubVendor: pci.Intel, SubDevice: sub}
}

// others are GPUs of other makers, and Tegra's. AMD names are what amdgpu gives
// in product_name, which boards without a FRU lack; subsystems and windows of
// this table are unverified unless said otherwise.
var others = []Product{
	{Key: "mi210", Name: "AMD Instinct MI210", ID: amdID(0x740f, 0x0c34), Class: pci.ClassAccel, Revision: 0x02,
		MemoryMiB: 65520, BARs: radeon(64 * gib), Driver: "amdgpu", Render: true},
	{Key: "mi300x", Name: "AMD Instinct MI300X OAM", ID: amdID(0x74a1, 0x74a1), Class: pci.ClassAccel, Revision: 0x00,
		MemoryMiB: 196592, BARs: radeon(256 * gib), Driver: "amdgpu", Render: true},
	{Key: "mi325x", Name: "AMD Instinct MI325X OAM", ID: amdID(0x74a5, 0x74a5), Class: pci.ClassAccel, Revision: 0x00,
		MemoryMiB: 262128, BARs: radeon(256 * gib), Driver: "amdgpu", Render: true},
	{Key: "rx-7900-xtx", ID: amdID(0x744c, 0x0e3b), Class: pci.ClassVGA, Revision: 0xc8,
		MemoryMiB: 24560, BARs: radeon(32 * gib), Driver: "amdgpu", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.AMD, 0xab30, pci.AMD, 0xab30)}},
	{Key: "rx-6800", ID: amdID(0x73bf, 0x0e3a), Class: pci.ClassVGA, Revision: 0xc3,
		MemoryMiB: 16368, BARs: radeon(16 * gib), Driver: "amdgpu", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.AMD, 0xab28, pci.AMD, 0xab28)}},
	{Key: "uhd-770", ID: intelID(0x4680, 0x7270), Class: pci.ClassVGA, Revision: 0x0c,
		BARs: intel(256 * mib), Driver: "i915", Render: true, Connectors: []string{"DP-1", "HDMI-A-1"}},
	{Key: "arc-a770", ID: intelID(0x56a0, 0x1020), Class: pci.ClassVGA, Revision: 0x08,
		BARs: intel(16 * gib), Driver: "i915", Render: true, Connectors: []string{"DP-1", "DP-2", "DP-3", "HDMI-A-1"}},
	{Key: "arc-b580", ID: intelID(0xe20b, 0x1100), Class: pci.ClassVGA, Revision: 0x00,
		BARs: intel(16 * gib), Driver: "xe", Render: true, Connectors: []string{"DP-1", "DP-2", "DP-3", "HDMI-A-1"}},
	{Key: "flex-170", ID: intelID(0x56c0, 0x4905), Class: pci.ClassVGA, Revision: 0x08,
		BARs: intel(16 * gib), Driver: "i915", Render: true},

	// The console of a server's management controller: a card node that comes
	// first and has no render node.
	{Key: "ast2600", ID: pci.ID{Vendor: 0x1a03, Device: 0x2000, SubVendor: 0x1a03, SubDevice: 0x2000}, Class: pci.ClassVGA, Revision: 0x52,
		BARs:   []host.BAR{{Index: 0, Size: 64 * mib, Flags: flagsMem32}, {Index: 1, Size: 256 * kib, Flags: flagsMem32}, {Index: 2, Size: 128, Flags: flagsIO}},
		Driver: "ast", Connectors: []string{"VGA-1"}},

	// Tegra. Memory is the board's and NVML does not report it.
	{Key: "orin-gpu", Name: "Orin (nvgpu)", ComputeCap: "8.7", Driver: "nvgpu"},
	{Key: "thor-gpu", Name: "NVIDIA Thor", ID: nv(0x2b00, 0x0000), Class: pci.ClassVGA, Revision: 0xa1,
		ComputeCap: "11.0", DMABits: 52, BARs: late(256 * mib), Driver: "nvidia", Render: true}, // class, windows unverified
}
