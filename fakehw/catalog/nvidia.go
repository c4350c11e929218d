package catalog

import "gpurig/core/pci"

// datacentre are NVIDIA's boards without outputs. Names follow the table of the
// open kernel modules; memory is from captures for T4, A100 40G, L4, L40S, H100
// SXM, B200, GB200 and GB300, else the commonly reported figure.
var datacentre = []Product{
	{Key: "t4", Name: "Tesla T4", ID: nv(0x1eb8, 0x12a2), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 15360,
		ComputeCap: "7.5", VBIOS: "90.04.96.00.02", DMABits: 47, BARs: early(256 * mib), Driver: "nvidia", Render: true},
	{Key: "v100-sxm2-16gb", Name: "Tesla V100-SXM2-16GB", ID: nv(0x1db1, 0x1212), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 16160, // memory and subsystem unverified
		ComputeCap: "7.0", VBIOS: "88.00.4F.00.09", DMABits: 47, BARs: early(16 * gib), Driver: "nvidia", Render: true},

	{Key: "a100-sxm4-40gb", Name: "NVIDIA A100-SXM4-40GB", ID: nv(0x20b0, 0x134f), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 40960,
		ComputeCap: "8.0", VBIOS: "92.00.45.00.03", DMABits: 47, BARs: early(64 * gib), Driver: "nvidia", Render: true,
		MIG: a100x40, Slices: 8, Persistent: true},
	{Key: "a100-sxm4-80gb", Name: "NVIDIA A100-SXM4-80GB", ID: nv(0x20b2, 0x1463), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 81920,
		ComputeCap: "8.0", VBIOS: "92.00.9E.00.01", DMABits: 47, BARs: early(128 * gib), Driver: "nvidia", Render: true,
		MIG: a100x80, Slices: 8, Persistent: true},
	{Key: "a100-pcie-40gb", Name: "NVIDIA A100-PCIE-40GB", ID: nv(0x20f1, 0x145f), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 40960,
		ComputeCap: "8.0", VBIOS: "92.00.25.00.08", DMABits: 47, BARs: early(64 * gib), Driver: "nvidia", Render: true, // VBIOS unverified
		MIG: a100x40, Slices: 8, Persistent: true},
	{Key: "a100-pcie-80gb", Name: "NVIDIA A100 80GB PCIe", ID: nv(0x20b5, 0x1533), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 81920,
		ComputeCap: "8.0", VBIOS: "92.00.A0.00.05", DMABits: 47, BARs: early(128 * gib), Driver: "nvidia", Render: true, // VBIOS unverified
		MIG: a100x80, Slices: 8, Persistent: true},
	{Key: "a30", Name: "NVIDIA A30", ID: nv(0x20b7, 0x1532), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 24576,
		ComputeCap: "8.0", VBIOS: "92.00.66.00.03", DMABits: 47, BARs: early(32 * gib), Driver: "nvidia", Render: true, // VBIOS unverified; window by its MIG devices: 8191MiB at 1g.6gb of four
		MIG: a30, Slices: 4, Persistent: true},
	{Key: "a30x", Name: "NVIDIA A30X", ID: nv(0x20b9, 0x15ba), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 24576, // subsystem unverified
		ComputeCap: "8.0", VBIOS: "92.00.AC.00.01", DMABits: 47, BARs: early(32 * gib), Driver: "nvidia", Render: true, // VBIOS unverified
		MIG: a30, Slices: 4, Persistent: true},
	{Key: "a40", Name: "NVIDIA A40", ID: nv(0x2235, 0x145a), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 46068,
		ComputeCap: "8.6", VBIOS: "94.02.5C.00.03", DMABits: 47, BARs: early(64 * gib), Driver: "nvidia", Render: true}, // window unverified
	{Key: "a10", Name: "NVIDIA A10", ID: nv(0x2236, 0x1482), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 23028,
		ComputeCap: "8.6", VBIOS: "94.02.75.00.01", DMABits: 47, BARs: early(32 * gib), Driver: "nvidia", Render: true}, // window, VBIOS unverified
	{Key: "a10g", Name: "NVIDIA A10G", ID: nv(0x2237, 0x152f), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 23028,
		ComputeCap: "8.6", VBIOS: "94.02.75.00.01", DMABits: 47, BARs: early(32 * gib), Driver: "nvidia", Render: true}, // memory, VBIOS unverified
	{Key: "a16", Name: "NVIDIA A16", ID: nv(0x25b6, 0x14a9), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 15356,
		ComputeCap: "8.6", VBIOS: "94.07.54.00.2B", DMABits: 47, BARs: early(16 * gib), Driver: "nvidia", Render: true}, // memory, VBIOS unverified
	{Key: "a2", Name: "NVIDIA A2", ID: nv(0x25b6, 0x157e), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 15356,
		ComputeCap: "8.6", VBIOS: "94.07.5B.00.92", DMABits: 47, BARs: early(16 * gib), Driver: "nvidia", Render: true}, // memory, VBIOS unverified
	{Key: "l4", Name: "NVIDIA L4", ID: nv(0x27b8, 0x16ca), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 23034,
		ComputeCap: "8.9", VBIOS: "95.04.65.00.13", DMABits: 47, BARs: early(32 * gib), Driver: "nvidia", Render: true}, // window unverified
	{Key: "l40", Name: "NVIDIA L40", ID: nv(0x26b5, 0x169d), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 46068,
		ComputeCap: "8.9", VBIOS: "95.02.18.80.01", DMABits: 47, BARs: early(64 * gib), Driver: "nvidia", Render: true}, // window, VBIOS unverified
	{Key: "l40s", Name: "NVIDIA L40S", ID: nv(0x26b9, 0x1851), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 46068,
		ComputeCap: "8.9", VBIOS: "95.02.66.00.15", DMABits: 47, BARs: early(64 * gib), Driver: "nvidia", Render: true},

	{Key: "h100-sxm5-80gb", Name: "NVIDIA H100 80GB HBM3", ID: nv(0x2330, 0x16c1), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 81559,
		ComputeCap: "9.0", VBIOS: "96.00.99.00.01", DMABits: 52, BARs: late(128 * gib), Driver: "nvidia", Render: true, MIG: h100x80, Slices: 8},
	{Key: "h100-pcie", Name: "NVIDIA H100 PCIe", ID: nv(0x2331, 0x1626), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 81559,
		ComputeCap: "9.0", VBIOS: "96.00.74.00.1A", DMABits: 52, BARs: late(128 * gib), Driver: "nvidia", Render: true, MIG: h100pcie, Slices: 8}, // VBIOS unverified
	{Key: "h100-nvl", Name: "NVIDIA H100 NVL", ID: nv(0x2321, 0x1839), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 95830,
		ComputeCap: "9.0", VBIOS: "96.00.88.00.11", DMABits: 52, BARs: late(128 * gib), Driver: "nvidia", Render: true, MIG: h100x94, Slices: 8}, // memory, VBIOS unverified
	{Key: "h20", Name: "NVIDIA H20", ID: nv(0x2329, 0x198b), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 97871,
		ComputeCap: "9.0", VBIOS: "96.00.9F.00.01", DMABits: 52, BARs: late(128 * gib), Driver: "nvidia", Render: true}, // memory, VBIOS unverified
	{Key: "h200-sxm", Name: "NVIDIA H200", ID: nv(0x2335, 0x18be), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 143771,
		ComputeCap: "9.0", VBIOS: "96.00.A5.00.03", DMABits: 52, BARs: late(256 * gib), Driver: "nvidia", Render: true, MIG: h200, Slices: 8}, // window as its BAR1 is recorded
	{Key: "h200-nvl", Name: "NVIDIA H200 NVL", ID: nv(0x233b, 0x1996), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 143771,
		ComputeCap: "9.0", VBIOS: "96.00.BE.00.02", DMABits: 52, BARs: late(256 * gib), Driver: "nvidia", Render: true, MIG: h200, Slices: 8}, // memory, window, VBIOS unverified
	{Key: "gh200-96gb", Name: "NVIDIA GH200 480GB", ID: nv(0x2342, 0x1809), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 97871,
		ComputeCap: "9.0", VBIOS: "96.00.84.00.02", DMABits: 52, BARs: late(128 * gib), Driver: "nvidia", Render: true, MIG: gh200x96, Slices: 8}, // memory, window, VBIOS unverified

	{Key: "b200", Name: "NVIDIA B200", ID: nv(0x2901, 0x1999), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 183359,
		ComputeCap: "10.0", VBIOS: "97.00.FA.00.09", DMABits: 52, BARs: late(256 * gib), Driver: "nvidia", Render: true, MIG: b200, Slices: 8},
	{Key: "gb200", Name: "NVIDIA GB200", ID: nv(0x2941, 0x2046), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 189471,
		ComputeCap: "10.0", VBIOS: "97.00.B9.00.69", DMABits: 52, BARs: late(256 * gib), Driver: "nvidia", Render: true, MIG: gb200, Slices: 8},
	{Key: "b300", Name: "NVIDIA B300 SXM6 AC", ID: nv(0x3182, 0x20e6), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 275040,
		ComputeCap: "10.3", VBIOS: "97.10.2F.00.01", DMABits: 52, BARs: late(512 * gib), Driver: "nvidia", Render: true, MIG: b300, Slices: 8}, // memory, window, VBIOS unverified
	{Key: "gb300", Name: "NVIDIA GB300", ID: nv(0x31c2, 0x21f1), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 284208,
		ComputeCap: "10.3", VBIOS: "97.10.4A.00.1A", DMABits: 52, BARs: late(512 * gib), Driver: "nvidia", Render: true, MIG: gb300, Slices: 8},
	{Key: "rtx-pro-6000-server", Name: "NVIDIA RTX PRO 6000 Blackwell Server Edition", ID: nv(0x2bb5, 0x204e), Class: pci.Class3D, Revision: 0xa1, MemoryMiB: 97887,
		ComputeCap: "12.0", VBIOS: "98.02.6A.00.02", DMABits: 52, BARs: early(128 * gib), Driver: "nvidia", Render: true, MIG: rtxPro6000, Slices: 4}, // window, VBIOS unverified
}

// workstation are NVIDIA's boards with outputs; the subsystem is the maker's.
var workstation = []Product{
	{Key: "rtx-2080-ti", Name: "NVIDIA GeForce RTX 2080 Ti", ID: nv(0x1e07, 0x12a4), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 11264, // subsystem unverified
		ComputeCap: "7.5", VBIOS: "90.02.17.00.04", DMABits: 47, BARs: geforce(256 * mib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x10f7, pci.NVIDIA, 0x12a4),
			{Function: 2, ID: nv(0x1ad6, 0x12a4), Class: 0x0c0330, Driver: "xhci_hcd"},
			{Function: 3, ID: nv(0x1ad7, 0x12a4), Class: 0x0c8000, Driver: "nvidia-gpu"}}},
	{Key: "rtx-3060", Name: "NVIDIA GeForce RTX 3060", ID: pci.ID{Vendor: pci.NVIDIA, Device: 0x2504, SubVendor: 0x1458, SubDevice: 0x4074}, Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 12288, // subsystem unverified
		ComputeCap: "8.6", VBIOS: "94.06.2F.00.9E", DMABits: 47, BARs: geforce(16 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x228e, 0x1458, 0x4074)}}, // audio id unverified
	{Key: "rtx-3080", Name: "NVIDIA GeForce RTX 3080", ID: nv(0x2206, 0x1467), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 10240, // subsystem unverified
		ComputeCap: "8.6", VBIOS: "94.02.42.00.0F", DMABits: 47, BARs: geforce(16 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x1aef, pci.NVIDIA, 0x1467)}},
	{Key: "rtx-3090", Name: "NVIDIA GeForce RTX 3090", ID: nv(0x2204, 0x147d), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 24576, // subsystem unverified
		ComputeCap: "8.6", VBIOS: "94.02.4B.00.0B", DMABits: 47, BARs: geforce(32 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x1aef, pci.NVIDIA, 0x147d)}},
	{Key: "rtx-4080", Name: "NVIDIA GeForce RTX 4080", ID: nv(0x2704, 0x16bb), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 16376, // memory, subsystem unverified
		ComputeCap: "8.9", VBIOS: "95.03.0E.00.02", DMABits: 47, BARs: geforce(16 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x22bb, pci.NVIDIA, 0x16bb)}}, // audio id unverified
	{Key: "rtx-4090", Name: "NVIDIA GeForce RTX 4090", ID: nv(0x2684, 0x16f3), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 24564, // subsystem unverified
		ComputeCap: "8.9", VBIOS: "95.02.18.00.87", DMABits: 47, BARs: geforce(32 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x22ba, pci.NVIDIA, 0x16f3)}},
	{Key: "rtx-5080", Name: "NVIDIA GeForce RTX 5080", ID: nv(0x2c02, 0x2058), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 16303, // memory, subsystem unverified
		ComputeCap: "12.0", VBIOS: "98.03.3B.00.01", DMABits: 52, BARs: geforce(16 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x22e9, pci.NVIDIA, 0x0000)}}, // audio id unverified
	{Key: "rtx-5090", Name: "NVIDIA GeForce RTX 5090", ID: nv(0x2b85, 0x2057), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 32607, // memory unverified
		ComputeCap: "12.0", VBIOS: "98.02.2E.00.03", DMABits: 52, BARs: geforce(32 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x22e8, pci.NVIDIA, 0x0000)}},
	{Key: "rtx-a6000", Name: "NVIDIA RTX A6000", ID: nv(0x2230, 0x1459), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 49140, // id and memory from common reports, unverified
		ComputeCap: "8.6", VBIOS: "94.02.5C.00.02", DMABits: 47, BARs: geforce(64 * gib), Driver: "nvidia", Render: true, Connectors: outputs,
		Companions: []Companion{audio(pci.NVIDIA, 0x1aef, pci.NVIDIA, 0x1459)}},
	{Key: "rtx-6000-ada", Name: "NVIDIA RTX 6000 Ada Generation", ID: nv(0x26b1, 0x16a1), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 49140, // subsystem unverified
		ComputeCap: "8.9", VBIOS: "95.02.18.80.5F", DMABits: 47, BARs: geforce(64 * gib), Driver: "nvidia", Render: true, Connectors: outputs, // window, VBIOS unverified
		Companions: []Companion{audio(pci.NVIDIA, 0x22ba, pci.NVIDIA, 0x16a1)}},
	{Key: "rtx-pro-6000-max-q", Name: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", ID: nv(0x2bb4, 0x204c), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 97887,
		ComputeCap: "12.0", VBIOS: "98.02.55.00.02", DMABits: 52, BARs: geforce(128 * gib), Driver: "nvidia", Render: true, Connectors: outputs, MIG: rtxPro6000, Slices: 4, // ids, window, VBIOS unverified
		Companions: []Companion{audio(pci.NVIDIA, 0x22e8, pci.NVIDIA, 0x0000)}},
	{Key: "rtx-pro-6000-workstation", Name: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", ID: nv(0x2bb1, 0x204b), Class: pci.ClassVGA, Revision: 0xa1, MemoryMiB: 97887,
		ComputeCap: "12.0", VBIOS: "98.02.55.00.02", DMABits: 52, BARs: geforce(128 * gib), Driver: "nvidia", Render: true, Connectors: outputs, MIG: rtxPro6000, Slices: 4, // window, VBIOS unverified
		Companions: []Companion{audio(pci.NVIDIA, 0x22e8, pci.NVIDIA, 0x0000)}},
}

// fabric are NVSwitches: class 0x068000, run by the driver's nvidia-nvswitch.
var fabric = []Product{
	{Key: "nvswitch-a100", ID: nv(0x1af1, 0x0000), Class: pci.ClassOther, Revision: 0xa1, BARs: early(32 * mib)[:1], Driver: "nvidia-nvswitch"},
	{Key: "nvswitch-h100", ID: nv(0x22a3, 0x1796), Class: pci.ClassOther, Revision: 0xa1, BARs: early(32 * mib)[:1], Driver: "nvidia-nvswitch"}, // subsystem unverified
}
