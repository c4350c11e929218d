package catalog

import "gpurig/core/host"

// A MIGProfile is one kind of GPU instance that a product can be cut into.
type MIGProfile = host.MIGProfile

var (
	any7  = []int{0, 1, 2, 3, 4, 5, 6}
	even4 = []int{0, 2, 4, 6}
	even3 = []int{0, 2, 4}
	half  = []int{0, 4}
	zero  = []int{0}
)

// seven lays out a GPU of seven compute and eight memory slices. Ids and starts
// are those of the A100 in the MIG user guide; newer GPUs print the same ids.
// Names are those of 1g, double-memory 1g, 2g, 3g, 4g and 7g.
func seven(names [6]string, memory [6]uint64, sms [6]int) []MIGProfile {
	return []MIGProfile{
		{Name: names[0], ID: 19, Count: 7, Compute: 1, Size: 1, Starts: any7, MemoryMiB: memory[0], SMs: sms[0]},
		{Name: names[0] + "+me", ID: 20, Count: 1, Compute: 1, Size: 1, Starts: any7, MemoryMiB: memory[0], SMs: sms[0]},
		{Name: names[1], ID: 15, Count: 4, Compute: 1, Size: 2, Starts: even4, MemoryMiB: memory[1], SMs: sms[1]},
		{Name: names[2], ID: 14, Count: 3, Compute: 2, Size: 2, Starts: even3, MemoryMiB: memory[2], SMs: sms[2]},
		{Name: names[3], ID: 9, Count: 2, Compute: 3, Size: 4, Starts: half, MemoryMiB: memory[3], SMs: sms[3]},
		{Name: names[4], ID: 5, Count: 1, Compute: 4, Size: 4, Starts: zero, MemoryMiB: memory[4], SMs: sms[4]},
		{Name: names[5], ID: 0, Count: 1, Compute: 7, Size: 8, Starts: zero, MemoryMiB: memory[5], SMs: sms[5]},
	}
}

// Names and counts are from the MIG user guide and mig-parted. Memory is from
// go-nvml's A100 40G and A30 tables, the guide (A100 80G), and captures quoted
// in mig-parted issues (H100 80G, H200, B200 and GB200 up to 2g); the rest of
// it is unverified, as are the placements of Hopper and Blackwell.
var (
	a100x40 = seven([6]string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
		[6]uint64{4864, 9856, 9856, 19968, 19968, 40192}, [6]int{14, 14, 28, 42, 56, 98})
	a100x80 = seven([6]string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		[6]uint64{9728, 19968, 19968, 40192, 40192, 80896}, [6]int{14, 14, 28, 42, 56, 98})
	h100x80 = seven([6]string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		[6]uint64{9984, 20096, 20096, 40448, 40448, 81152}, [6]int{16, 26, 32, 60, 64, 132})
	h100pcie = seven([6]string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		[6]uint64{9984, 20096, 20096, 40448, 40448, 81152}, [6]int{14, 14, 30, 46, 62, 114})
	h100x94 = seven([6]string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"},
		[6]uint64{11008, 22144, 22144, 47488, 47488, 95360}, [6]int{16, 26, 32, 60, 64, 132})
	h200 = seven([6]string{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
		[6]uint64{16384, 33024, 33024, 71168, 71168, 143104}, [6]int{16, 26, 32, 60, 64, 132})
	gh200x96 = seven([6]string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"},
		[6]uint64{11264, 22528, 22528, 48128, 48128, 97280}, [6]int{16, 26, 32, 60, 64, 132})
	b200 = seven([6]string{"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"},
		[6]uint64{22528, 45312, 45312, 91136, 91136, 182784}, [6]int{18, 30, 36, 70, 72, 148})
	gb200 = seven([6]string{"1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"},
		[6]uint64{22528, 46592, 46592, 94208, 94208, 189184}, [6]int{18, 32, 38, 70, 76, 152})
	b300 = seven([6]string{"1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"},
		[6]uint64{33792, 68096, 68096, 137216, 137216, 274432}, [6]int{18, 30, 36, 70, 72, 148})
	gb300 = seven([6]string{"1g.35gb", "1g.70gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"},
		[6]uint64{34816, 70656, 70656, 141824, 141824, 283648}, [6]int{18, 32, 38, 70, 76, 152})

	a30 = []MIGProfile{ // ids, memory and counts as public nvidia-smi mig -lgip prints them; 2g.12gb+me unverified
		{Name: "1g.6gb", ID: 14, Count: 4, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 5952, SMs: 14},
		{Name: "1g.6gb+me", ID: 21, Count: 1, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 5952, SMs: 14},
		{Name: "2g.12gb", ID: 5, Count: 2, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 11968, SMs: 28},
		{Name: "2g.12gb+me", ID: 6, Count: 1, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 11968, SMs: 28},
		{Name: "4g.24gb", ID: 0, Count: 1, Compute: 4, Size: 4, Starts: zero, MemoryMiB: 24000, SMs: 56},
	}
	rtxPro6000 = []MIGProfile{ // ids above 1g, and the placements, unverified
		{Name: "1g.24gb", ID: 14, Count: 4, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 24192, SMs: 46},
		{Name: "1g.24gb+me", ID: 21, Count: 1, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 24192, SMs: 46},
		{Name: "1g.24gb+gfx", ID: 47, Count: 4, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 24192, SMs: 46},
		{Name: "1g.24gb+me.all", ID: 65, Count: 1, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 24192, SMs: 46},
		{Name: "1g.24gb-me", ID: 67, Count: 4, Compute: 1, Size: 1, Starts: any7[:4], MemoryMiB: 24192, SMs: 46},
		{Name: "2g.48gb", ID: 5, Count: 2, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 48512, SMs: 94},
		{Name: "2g.48gb+gfx", ID: 35, Count: 2, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 48512, SMs: 94},
		{Name: "2g.48gb+me.all", ID: 64, Count: 1, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 48512, SMs: 94},
		{Name: "2g.48gb-me", ID: 66, Count: 2, Compute: 2, Size: 2, Starts: even4[:2], MemoryMiB: 48512, SMs: 94},
		{Name: "4g.96gb", ID: 0, Count: 1, Compute: 4, Size: 4, Starts: zero, MemoryMiB: 97152, SMs: 188},
		{Name: "4g.96gb+gfx", ID: 32, Count: 1, Compute: 4, Size: 4, Starts: zero, MemoryMiB: 97152, SMs: 188},
	}
)

// MIGProfile returns the profile of p that nvidia-smi calls name.
func (p Product) MIGProfile(name string) (MIGProfile, bool) {
	for _, m := range p.MIG {
		if m.Name == name {
			return m, true
		}
	}
	return MIGProfile{}, false
}

// GPUInstanceID returns the id that the driver gives an instance at memory
// slice start, size slices wide, on a GPU of total slices. It follows from the
// position alone, not from the order of creation: 0 is the whole GPU, 1 and 2
// its halves, 3 to 6 the quarters, 7 to 14 the eighths (kernel_mig_manager.c of
// the open kernel modules). Four-slice GPUs count their slices as quarters.
func GPUInstanceID(start, size, total int) int {
	switch total / size {
	case 1:
		return 0
	case 2:
		return 1 + start/size
	case 4:
		return 3 + start/size
	}
	return 7 + start/size
}

// GPUInstanceSpan is the inverse of GPUInstanceID: the first slice and the
// width of the instance with this id.
func GPUInstanceSpan(id, total int) (start, size int) {
	switch {
	case id == 0:
		return 0, total
	case id <= 2:
		return (id - 1) * total / 2, total / 2
	case id <= 6:
		return (id - 3) * total / 4, total / 4
	}
	return (id - 7) * total / 8, total / 8
}
