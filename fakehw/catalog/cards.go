package catalog

import "strings"

// A Card is what a board's inforom, firmware and resting state say beyond its
// Readings. Zero values: not reported.
type Card struct {
	Part, Image, OEM, ECC string // part number; inforom versions
	ReservedMiB           int    // memory that the driver keeps, rounded up as nvidia-smi prints it
	Banks                 int    // of the row remapper
	Shutdown, Slowdown    int    // degrees to T.Limit, below 0
	MemoryC               int    // temperature of HBM
	TargetC               int    // temperature that the fans keep
	CanECC                bool   // corrects memory where it is told to, and is not
	MaxLimitW             int    // highest power limit that can be set; 0: the default
	Video, MaxVideo       int    // clocks in MHz
	AppClock              int    // default graphics clock of applications; 0: the highest
	DeviceLink            int    // PCIe generation of the chip; 0: that of the link
	TxKB, RxKB            int    // PCIe throughput at rest, KB/s
	AtomicsIn, AtomicsOut int    // masks of PCIe atomics
	ModuleW, MinModuleW   int    // power limit of the module, and the lowest
	MemoryW, ModuleIdleW  int    // drawn by memory and by the module
	Links                 int    // NVLinks
	LinkVersion           int    // NVML's number of NVLink's version
}

// allAtomics are fetch-and-add, swap and compare-and-swap of 32 and 64 bits.
const allAtomics = 0x3f

// cards are recorded where fixtures/records has the product; links of the others
// are from data sheets.
var cards = map[string]Card{
	"t4": {Part: "900-2G183-A800-001", Image: "G183.0200.00.02", OEM: "1.1", ECC: "5.0", ReservedMiB: 448, Video: 540, MaxVideo: 1470, AppClock: 585, // AppClock unverified
		TxKB: 439, RxKB: 292},
	"l40s": {Part: "900-2G133-A880-000", Image: "G133.0242.00.03", OEM: "2.1", ECC: "6.16", ReservedMiB: 609, Banks: 192, Shutdown: -5, Slowdown: -2,
		Video: 1185, MaxVideo: 1965, TxKB: 585, RxKB: 292},
	"a100-sxm4-40gb": {Part: "692-2G506-0200-003", Image: "G506.0200.00.04", OEM: "2.0", ECC: "6.16", ReservedMiB: 518, Banks: 640, MemoryC: 34,
		Video: 585, MaxVideo: 1290, AppClock: 1095, TxKB: 350, RxKB: 300, Links: 12, LinkVersion: 5},
	"a100-sxm4-80gb": {Part: "692-2G506-0212-002", Image: "G506.0212.00.01", OEM: "2.0", ECC: "6.16", ReservedMiB: 869, Banks: 640, MemoryC: 34,
		Video: 585, MaxVideo: 1290, AppClock: 1275, Links: 12, LinkVersion: 5},
	"h100-sxm5-80gb": {Part: "692-2G520-0200-000", Image: "G520.0200.00.05", OEM: "2.1", ECC: "7.16", ReservedMiB: 480, Banks: 2560, Shutdown: -8, Slowdown: -2, MemoryC: 37,
		Video: 765, MaxVideo: 1545, TxKB: 502, RxKB: 578, MemoryW: 33, Links: 18, LinkVersion: 6},
	"h200-sxm": {Part: "695-2G520-0280-001", Image: "G520.0280.02.02", OEM: "2.1", ECC: "7.16", ReservedMiB: 614, Banks: 3072, Shutdown: -8, Slowdown: -2, MemoryC: 37,
		Video: 765, MaxVideo: 1545, TxKB: 502, RxKB: 578, MemoryW: 47, Links: 18, LinkVersion: 6},
	"b200": {Part: "692-2G525-0220-500", Image: "G525.0220.00.03", OEM: "2.1", ECC: "7.16", ReservedMiB: 728, Banks: 3840, Shutdown: -5, Slowdown: -3, MemoryC: 39,
		Video: 600, MaxVideo: 1965, TxKB: 833, RxKB: 869, AtomicsIn: allAtomics, AtomicsOut: allAtomics, MemoryW: 22, Links: 18, LinkVersion: 7},
	"gb200": {Part: "900-2G548-A801-000", Image: "G548.0201.00.06", OEM: "2.1", ECC: "7.16", ReservedMiB: 742, Banks: 3968, Shutdown: -5, Slowdown: -2, MemoryC: 27,
		Video: 600, MaxVideo: 1890, DeviceLink: 6, AtomicsIn: allAtomics, ModuleW: 2500, MinModuleW: 500, MemoryW: 30, ModuleIdleW: 467, Links: 18, LinkVersion: 7},
	"gb300": {Part: "900-2G548-0081-000", Image: "G548.0301.00.03", OEM: "2.1", ECC: "7.16", ReservedMiB: 947, Banks: 5952, Shutdown: -5, Slowdown: -2, MemoryC: 38,
		Video: 600, MaxVideo: 1912, AtomicsIn: allAtomics, ModuleW: 2900, MinModuleW: 500, MemoryW: 36, ModuleIdleW: 488, Links: 18, LinkVersion: 7},
	"rtx-3080": {Image: "G001.0000.03.03", OEM: "2.0", ReservedMiB: 397, MaxVideo: 1950, TargetC: 83, MaxLimitW: 336},
	"rtx-3090": {OEM: "2.0", ReservedMiB: 316, MaxVideo: 1950, TargetC: 83, MaxLimitW: 375},
	"rtx-4090": {Image: "G002.0000.00.03", OEM: "2.0", ECC: "6.16", ReservedMiB: 346, Banks: 192, Shutdown: -7, Slowdown: -2, MaxVideo: 2415, TargetC: 84,
		CanECC: true, MaxLimitW: 600},
	"v100-sxm2-16gb": {Links: 6, LinkVersion: 2, MemoryC: 36},
}

// Card returns what is known of p as a board. Of a product that no record is about
// it has what its kind has.
func (p Product) Card() Card {
	b := cards[p.Key]
	s, ok := p.Readings()
	if !ok {
		return b
	}
	if b.Video == 0 {
		b.Video = s.SM * 5 / 2
	}
	if b.MaxVideo == 0 {
		b.MaxVideo = s.MaxSM * 9 / 10
	}
	if b.MaxLimitW == 0 {
		b.MaxLimitW = s.LimitW
	}
	if b.AppClock == 0 {
		b.AppClock = s.MaxSM
	}
	if b.DeviceLink == 0 {
		b.DeviceLink = s.Link
	}
	if b.Shutdown == 0 && p.TLimit() {
		b.Shutdown, b.Slowdown = -5, -2
	}
	return b
}

// atLeast compares compute capabilities: "8.9" and "10.0".
func (p Product) atLeast(major, minor int) bool {
	var a, b int
	for i, part := range strings.SplitN(p.ComputeCap, ".", 2) {
		n := 0
		for _, c := range part {
			n = n*10 + int(c-'0')
		}
		if i == 0 {
			a = n
		} else {
			b = n
		}
	}
	return a > major || a == major && b >= minor
}

// TLimit reports whether thresholds are told as degrees to a limit: Ada and newer.
func (p Product) TLimit() bool { return p.atLeast(8, 9) }

// LinkMBps is the speed of one NVLink in MB/s by NVML's number of its version: Hopper's is
// recorded, the others are from data sheets.
func (c Card) LinkMBps() int {
	return map[int]int{2: 25000, 5: 25000, 6: 26562, 7: 53125}[c.LinkVersion]
}

// Averages reports whether power is averaged over a second: Ampere but for GA100, and
// newer (nvml.h, nvmlDeviceGetPowerUsage).
func (p Product) Averages() bool { return p.atLeast(8, 6) }

// Displays reports whether the chip has a display engine: GA100, GH100 and Blackwell of
// the data centre have none (captures of A100, T4 and GeForce tell another display mode).
func (p Product) Displays() bool {
	return !(p.ComputeCap == "8.0" || strings.HasPrefix(p.ComputeCap, "9.") || strings.HasPrefix(p.ComputeCap, "10."))
}

// Remaps reports whether rows of memory are remapped where older boards retire pages.
func (p Product) Remaps() bool { return p.atLeast(8, 0) }

// Fabric reports whether the GPU registers with an NVLink fabric: Hopper and newer
// with links.
func (p Product) Fabric() bool { return p.atLeast(9, 0) && p.Card().Links > 0 }

// Platform reports whether the GPU knows its place in a rack: Blackwell of the data
// centre.
func (p Product) Platform() bool { return strings.HasPrefix(p.ComputeCap, "10.") }

// Coherent reports whether a coherent link joins the GPU to its processor.
func (p Product) Coherent() bool { return p.Card().ModuleW > 0 || strings.HasPrefix(p.Key, "gh") }
