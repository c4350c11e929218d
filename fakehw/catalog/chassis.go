package catalog

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// A Chassis is the machine that GPUs stand in: what its firmware says of it, its
// processors and memory, and how its PCI Express is wired.
type Chassis struct {
	Vendor, Product, Family string // of the system
	Board                   string // of the main board
	BIOSVendor, BIOS, Date  string
	Type                    int // SMBIOS's kind of enclosure: 3 is a desktop, 23 for a rack
	Processors              Processors
	NodeGiB                 int // memory of each NUMA node

	Gen        int       // of PCIe, of root ports and switches
	Host, Port pci.ID    // at 00.0 of each root bus; the root ports
	HostClass  pci.Class // of Host
	Unit       pci.ID    // the IOMMU at 00.2 of each root bus; zero: it is no function
	Switch     pci.ID    // ports of the switches
	// Ways are how functions are reached: the root port, and by turns the upstream and
	// the downstream port of a switch, each with its part where it is not Switch:
	// "10:00.0=hgx". What is last is an adapter with its part, or another function.
	Ways      []string
	RootNodes map[uint32]int // NUMA nodes of root buses that no GPU is below
}

// A Part is a function that a way names.
type Part struct {
	ID     pci.ID
	Class  pci.Class
	Driver string
	Gen    int // of PCIe; 0: it has no link
}

// Parts are adapters, and ports of switches that are not the chassis's: a downstream
// port has the next device number where the part is a GPU's own.
var Parts = map[string]Part{
	"cx6":    {pci.ID{Vendor: mellanox, Device: 0x101b, SubVendor: mellanox, SubDevice: 0x0007}, 0x020700, "mlx5_core", 4},
	"cx7":    {pci.ID{Vendor: mellanox, Device: 0x1021, SubVendor: mellanox, SubDevice: 0x0023}, 0x020700, "mlx5_core", 5},
	"eth6":   {pci.ID{Vendor: mellanox, Device: 0x101d, SubVendor: mellanox, SubDevice: 0x0042}, 0x020000, "mlx5_core", 4},
	"eth7":   {pci.ID{Vendor: mellanox, Device: 0x1021, SubVendor: mellanox, SubDevice: 0x0040}, 0x020000, "mlx5_core", 5},
	"hgx":    {pci.ID{Vendor: broadcom, Device: 0xc010, SubVendor: pci.NVIDIA, SubDevice: 0x13b8}, pci.ClassBridge, "pcieport", 4},
	"mi300":  {pci.ID{Vendor: amdChips, Device: 0x1500, SubVendor: amdChips, SubDevice: 0x1500}, pci.ClassBridge, "pcieport", 5},
	"radeon": {pci.ID{Vendor: pci.AMD, Device: 0x1478}, pci.ClassBridge, "pcieport", 4},
	"ast":    {pci.ID{Vendor: 0x1a03, Device: 0x1150, SubVendor: 0x1a03, SubDevice: 0x1150}, pci.ClassBridge, "", 2},
}

const (
	mellanox = 0x15b3
	amdChips = 0x1022
	broadcom = 0x1000
)

// Parts that chassis are built of. Addresses of switches between root port and GPU are
// unverified where the comment on a chassis says nothing else.
var (
	rome     = Chassis{Gen: 4, Host: pci.ID{Vendor: amdChips, Device: 0x1480, SubVendor: amdChips, SubDevice: 0x1480}, HostClass: 0x060000, Port: pci.ID{Vendor: amdChips, Device: 0x1483}, Unit: pci.ID{Vendor: amdChips, Device: 0x1481, SubVendor: amdChips, SubDevice: 0x1481}}
	genoa    = Chassis{Gen: 5, Host: pci.ID{Vendor: amdChips, Device: 0x14a4, SubVendor: amdChips, SubDevice: 0x14a4}, HostClass: 0x060000, Port: pci.ID{Vendor: amdChips, Device: 0x14ab}, Unit: pci.ID{Vendor: amdChips, Device: 0x149e, SubVendor: amdChips, SubDevice: 0x149e}}
	sapphire = Chassis{Gen: 5, Host: pci.ID{Vendor: pci.Intel, Device: 0x09a2}, HostClass: 0x088000, Port: pci.ID{Vendor: pci.Intel, Device: 0x352a}}
	icelake  = Chassis{Gen: 4, Host: pci.ID{Vendor: pci.Intel, Device: 0x09a2}, HostClass: 0x088000, Port: pci.ID{Vendor: pci.Intel, Device: 0x347a}}
	raptor   = Chassis{Gen: 5, Host: pci.ID{Vendor: pci.Intel, Device: 0xa700}, HostClass: 0x060000, Port: pci.ID{Vendor: pci.Intel, Device: 0xa70d}}
	nvidiaRP = Chassis{Gen: 5, Port: pci.ID{Vendor: pci.NVIDIA, Device: 0x22b1}}
	pexGen4  = pci.ID{Vendor: broadcom, Device: 0xc010, SubVendor: broadcom, SubDevice: 0xa096}
	pexGen5  = pci.ID{Vendor: broadcom, Device: 0xc030, SubVendor: broadcom, SubDevice: 0x100b}
)

func (c Chassis) with(f func(*Chassis)) *Chassis {
	f(&c)
	return &c
}

// dgxA100 has switches as NCCL found them (NVIDIA/nccl issue 1505; 879 for the boards'
// own), and what its firmware said in a kernel's log (BIOS 0.25). Adapters are where
// the user guide has them.
var dgxA100 = rome.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board = "NVIDIA", "DGXA100 920-23687-2530-000", "DGXA100", "DGXA100"
	c.BIOSVendor, c.BIOS, c.Date, c.Type = "American Megatrends Inc.", "0.25", "06/30/2020", 23
	c.Processors, c.NodeGiB, c.Switch = Processors{Nodes: 8, Cores: 16, Threads: 2, Sockets: 2, Model: epyc7742}, 128, pexGen4
	for _, q := range [][8]int{{0x00, 0x01, 0x07, 0x0a, 0x0c, 0x0f, 0x10, 0x12}, {0x40, 0x41, 0x47, 0x49, 0x4b, 0x4e, 0x52, 0x54},
		{0x80, 0x81, 0x87, 0x8b, 0x8d, 0x90, 0x92, 0x94}, {0xb0, 0xb1, 0xb7, 0xb8, 0xba, 0xbd, 0xca, 0xcc}} {
		top := fmt.Sprintf("%02x:01.1 %02x:00.0 %02x:", q[0], q[1], q[1]+1)
		c.Ways = append(c.Ways,
			top+fmt.Sprintf("00.0 %02x:00.0 %02x:00.0 %02x:00.0=hgx %02x:00.0=hgx %02x:00.0", q[2]-4, q[2]-3, q[2]-2, q[2]-1, q[2]),
			top+fmt.Sprintf("04.0 %02x:00.0 %02x:00.0 %02x:00.0=cx6", q[3], q[3]+1, q[4]),
			top+fmt.Sprintf("04.0 %02x:00.0 %02x:04.0 %02x:00.0=hgx %02x:00.0=hgx %02x:00.0", q[3], q[3]+1, q[4]+1, q[4]+2, q[5]),
			top+fmt.Sprintf("08.0 %02x:00.0 %02x:00.0 %02x:00.0=cx6", q[6], q[6]+1, q[7]))
	}
	for i := range 6 {
		c.Ways = append(c.Ways, fmt.Sprintf("b0:01.1 b1:00.0 b2:0c.0 be:00.0=hgx bf:%02x.0=hgx %02x:00.0", i, 0xc4+i))
	}
	c.Ways = append(c.Ways, "b0:05.2 c1:00.0=ast c2:00.0",
		"60:01.1 61:00.0=eth6", "60:01.1 61:00.1=eth6", "e0:01.1 e1:00.0=eth6", "e0:01.1 e1:00.1=eth6")
	c.RootNodes = map[uint32]int{0x60: 0, 0xe0: 4}
})

// dgxHopper is how DGX H100 and B200 are wired: an adapter and a GPU below each switch,
// where their user guides have them.
func dgxHopper(c *Chassis) {
	c.Type, c.Switch = 23, pexGen5
	for _, gpu := range []int{0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf} {
		top := fmt.Sprintf("%02x:01.0 %02x:00.0 %02x:", gpu-6, gpu-5, gpu-4)
		c.Ways = append(c.Ways, top+fmt.Sprintf("00.0 %02x:00.0=cx7", gpu-3), top+fmt.Sprintf("04.0 %02x:00.0", gpu))
	}
	c.RootNodes = map[uint32]int{0x00: 0, 0x28: 0, 0xa9: 1}
	c.Ways = append(c.Ways, "28:01.0 29:00.0=cx7", "28:01.0 29:00.1=eth7", "a9:01.0 aa:00.0=cx7", "a9:01.0 aa:00.1=eth7")
}

var dgxH100 = sapphire.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date = "NVIDIA", "DGXH100", "DGX", "DGXH100", "NVIDIA", "1.1.3", "03/14/2024"
	c.Processors, c.NodeGiB = Processors{Nodes: 2, Cores: 56, Threads: 2, Sockets: 2, Model: xeon8480c}, 1024
	dgxHopper(c)
	for i := range 4 {
		c.Ways = append(c.Ways, fmt.Sprintf("00:05.0 05:00.0 06:%02x.0 %02x:00.0", i, 7+i))
	}
	c.Ways = append(c.Ways, "00:1c.4 01:00.0=ast 02:00.0")
})

// dgxB200 has four functions more, the adapters that manage its NVLink switches
// (NVIDIA/nccl-tests issue 333 counts 16).
var dgxB200 = sapphire.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date = "NVIDIA", "DGXB200", "DGX", "DGXB200", "NVIDIA", "1.6.7", "01/27/2025"
	c.Processors, c.NodeGiB = Processors{Nodes: 2, Cores: 56, Threads: 2, Sockets: 2, Model: xeon8570}, 1024
	dgxHopper(c)
	for i := range 4 {
		c.Ways = append(c.Ways, fmt.Sprintf("00:05.0 05:00.0 06:%02x.0 %02x:00.0=cx7", i, 7+i))
	}
})

// hgxH200 is a server with NVIDIA's board of eight: an adapter beside each GPU.
var hgxH200 = sapphire.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date = "Supermicro", "SYS-821GE-TNHR", "Family", "X13DEG-OAD", "American Megatrends International, LLC.", "2.4", "10/24/2024"
	c.Processors, c.NodeGiB, c.Type, c.Switch = Processors{Nodes: 2, Cores: 56, Threads: 2, Sockets: 2, Model: xeon8480c}, 1024, 23, pexGen5
	for _, gpu := range []int{0x19, 0x3b, 0x4c, 0x5d, 0x9b, 0xbb, 0xcb, 0xdb} {
		top := fmt.Sprintf("%02x:01.0 %02x:00.0 %02x:", gpu-4, gpu-3, gpu-2)
		c.Ways = append(c.Ways, top+fmt.Sprintf("00.0 %02x:00.0=cx7", gpu-1), top+fmt.Sprintf("04.0 %02x:00.0", gpu))
	}
	for i := range 4 {
		c.Ways = append(c.Ways, fmt.Sprintf("00:05.0 01:00.0 02:%02x.0 %02x:00.0", i, 3+i))
	}
})

// mi300x: between a switch and each GPU stands a port of the GPU's own, as on the
// machine of MI350X that RCCL has (ROCm/rccl topo_8p_950.xml).
var mi300x = genoa.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date = "Supermicro", "AS -8125GS-TNMR2", "H13", "H13DSG-O-CPU", "American Megatrends International, LLC.", "1.8", "02/07/2024"
	c.Processors, c.NodeGiB, c.Type, c.Switch = Processors{Nodes: 2, Cores: 96, Threads: 2, Sockets: 2, Model: epyc9654}, 768, 23, pexGen5
	for _, gpu := range []int{0x05, 0x26, 0x46, 0x65, 0x85, 0xa6, 0xc6, 0xe5} {
		top := fmt.Sprintf("%02x:01.1 %02x:00.0 %02x:", gpu&0xe0, gpu-4, gpu-3)
		c.Ways = append(c.Ways, top+fmt.Sprintf("00.0 %02x:00.0=mi300 %02x:00.0=mi300 %02x:00.0", gpu-2, gpu-1, gpu))
	}
})

var gb200Tray = nvidiaRP.with(func(c *Chassis) {
	c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date, c.Type = "NVIDIA", "GB200 NVL", "GB200", "P4059", "NVIDIA", "02.03.19", "04/25/2025", 23
	c.Processors, c.NodeGiB = Processors{Nodes: 2, Cores: 72, Threads: 1, Sockets: 2, Model: grace}, 480
	c.Switch = pci.ID{Vendor: pci.NVIDIA, Device: 0x1979, SubVendor: pci.NVIDIA, SubDevice: 0x1979}
	for _, domain := range []string{"0008", "0009", "0018", "0019"} {
		c.Ways = append(c.Ways, fmt.Sprintf("%[1]s:00:00.0 %[1]s:01:00.0 %[1]s:02:00.0 %[1]s:06:00.0", domain))
	}
})

// built are the chassis that are built around a board.
var built = map[string]*Chassis{
	"a100-sxm4-40gb": dgxA100, "h100-sxm5-80gb": dgxH100, "b200": dgxB200, "b300": dgxB200, "h200-sxm": hgxH200, "mi300x": mi300x, "mi325x": mi300x,
	"gb200": gb200Tray, "gb300": gb200Tray, "gh200-96gb": gb200Tray,
}

// server and desktop are what other GPUs stand in; the models are examples.
var (
	server = icelake.with(func(c *Chassis) {
		c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date, c.Type = "Supermicro", "SYS-420GP-TNR", "Family", "X12DPG-OA6", "American Megatrends International, LLC.", "1.4", "11/18/2022", 23
		c.Processors, c.NodeGiB = Processors{Nodes: 1, Cores: 32, Threads: 1, Sockets: 1, Model: xeon6338}, 256
	})
	desktop = raptor.with(func(c *Chassis) {
		c.Vendor, c.Product, c.Family, c.Board, c.BIOSVendor, c.BIOS, c.Date, c.Type = "ASUS", "System Product Name", "To be filled by O.E.M.", "ProArt Z790-CREATOR WIFI", "American Megatrends Inc.", "2703", "07/26/2024", 3
		c.Processors, c.NodeGiB = Processors{Nodes: 1, Cores: 32, Threads: 1, Sockets: 1, Paired: 8, Model: core14900}, 64
	})
)

// ChassisOf returns the machine that has these GPUs, on this SoC: the one that is built
// around them, if they are where it has them, else a desktop, or a server of as many
// sockets as the GPUs are on. The result is shared: it is for reading.
func ChassisOf(gpus []host.GPU, soc *host.Tegra) *Chassis {
	if soc != nil {
		return jetson(soc)
	}
	nodes, desk, at := 0, false, true
	var around *Chassis
	for _, g := range gpus {
		if g.PCI == nil {
			continue
		}
		p, _ := OfGPU(g)
		if c := built[p.Key]; c != nil {
			around = c
			at = at && c.Reaches(g.PCI.BDF)
		}
		nodes = max(nodes, g.PCI.NUMANode+1)
		desk = desk || p.Driver != "ast"
	}
	switch {
	case around != nil && at:
		return around
	case around != nil:
		return around.with(func(c *Chassis) {
			p := c.Processors
			*c = *server
			c.Processors, c.Host, c.HostClass, c.Port, c.Unit, c.Gen = p, around.Host, around.HostClass, around.Port, around.Unit, around.Gen
		})
	case nodes == 0 && desk:
		return desktop
	case nodes <= 1:
		return server
	}
	return server.with(func(c *Chassis) { c.Processors.Nodes, c.Processors.Sockets = nodes, nodes })
}

// Reaches reports whether one of the ways ends at an address.
func (c *Chassis) Reaches(a pci.BDF) bool {
	return slices.ContainsFunc(c.Ways, func(way string) bool { return strings.HasSuffix(way, " "+strings.TrimPrefix(a.String(), "0000:")) })
}

// ProcessorsOf returns the processors of the machine of a model.
func ProcessorsOf(m host.Model) Processors { return ChassisOf(m.GPUs, m.Tegra).Processors }

// jetson is a developer kit. Its firmware is a part of Jetson Linux.
func jetson(soc *host.Tegra) *Chassis {
	p, gib := Processors{Nodes: 1, Cores: 12, Threads: 1, Sockets: 1, Model: a78ae}, 64
	switch {
	case soc.Chip == "tegra264":
		p.Cores, p.Model, gib = 14, v3ae, 128
	case strings.Contains(soc.Model, "Nano"):
		p.Cores, gib = 6, 8
	}
	facts := L4T(soc.Release)
	return nvidiaRP.with(func(c *Chassis) {
		c.Vendor, c.Product, c.Board, c.BIOSVendor, c.Type = "NVIDIA", soc.Model, "Jetson", "EDK II", 3
		c.BIOS = strings.TrimPrefix(soc.Release, "R") + "." + soc.Revision + "-gcid-" + facts.GCID
		c.Date, c.Processors, c.NodeGiB = facts.Built, p, gib
	})
}

// A Release has facts of a Jetson Linux that a model does not carry.
type Release struct {
	GCID, Date string // as /etc/nv_tegra_release has them
	Built      string // as the firmware has it
}

// L4T are the facts of a release, "R36". GCIDs and dates of R36 are unverified.
func L4T(release string) Release {
	return map[string]Release{
		"R35": {"32827747", "Sun Mar 19 15:19:21 UTC 2023", "03/19/2023"},
		"R36": {"38968081", "Wed Jan  8 01:49:37 UTC 2025", "01/08/2025"},
		"R38": {"41844464", "Fri Aug 22 00:55:42 UTC 2025", "08/22/2025"},
		"R39": {"45755727", "Mon Jun  1 09:28:48 PM UTC 2026", "06/01/2026"},
	}[release]
}
