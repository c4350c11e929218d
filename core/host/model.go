// Package host describes a GPU host and reads one.
//
// A Model has the facts: PCI functions; GPUs with their four numberings (PCI
// address, DRM card, NVIDIA minor, NVML index) and their UUIDs; MIG instances; the
// driver; device nodes; the layout of the file system. A Root is a view of a
// machine's files; Discover makes a Model from a Root. Other packages make files
// from a Model, or change a machine.
package host

import (
	"slices"
	"strconv"

	"gpurig/core/device"
	"gpurig/core/pci"
)

// A Model is what a host has, flat and explicit: nothing in it is a default to
// be filled in. It is a value: print it, compare it, store it as JSON.
//
// GPUs are ordered by PCI address, platform GPUs first; NVSwitches likewise.
// Nodes are ordered by path.
type Model struct {
	Arch       string        `json:"arch"`   // uname -m: "x86_64", "aarch64"
	Kernel     string        `json:"kernel"` // uname -r, /proc/sys/kernel/osrelease
	Cmdline    string        `json:"cmdline,omitempty"`
	OS         OS            `json:"os"`
	GPUs       []GPU         `json:"gpus,omitempty"`
	NVSwitches []PCIFunction `json:"nvswitches,omitempty"`
	Companions []PCIFunction `json:"companions,omitempty"` // audio, USB and bridge functions beside GPUs
	VFs        []VF          `json:"vfs,omitempty"`        // virtual functions of GPUs, by address
	MDevs      []MDev        `json:"mdevs,omitempty"`      // mediated devices, by UUID
	Drivers    []string      `json:"drivers,omitempty"`    // PCI drivers of GPUs that are loaded and hold none of these functions, sorted
	Driver     *Driver       `json:"driver,omitempty"`     // NVIDIA's; nil: not loaded
	Userspace  *Userspace    `json:"userspace,omitempty"`  // NVIDIA's libraries; nil: none installed
	Tegra      *Tegra        `json:"tegra,omitempty"`
	Nodes      []device.Node `json:"nodes,omitempty"`  // GPU-related nodes below /dev
	Majors     []Major       `json:"majors,omitempty"` // lines of /proc/devices that Nodes need, by number then name
	IOMMU      bool          `json:"iommu,omitempty"`
	NoProbe    bool          `json:"noProbe,omitempty"`  // /sys/bus/pci/drivers_autoprobe is 0: new functions get no driver
	Lost       []int         `json:"lost,omitempty"`     // NVML indexes of GPUs that do not answer: which of GPUs they are is not known
	Problems   []Problem     `json:"problems,omitempty"` // what of the host could not be read or understood
}

// Library is what a Problem of NVIDIA's management library is about.
const Library = "NVIDIA's management library"

// A Problem is something of a host, other than a GPU, that could not be read or
// understood. What it is about is not in the Model; the rest of the Model holds.
type Problem struct {
	What string `json:"what"` // Library, "PCI function 0000:65:00.0"
	Text string `json:"text"` // one line
}

// An OS is the distribution and how it lays out files.
type OS struct {
	ID        string `json:"id"`        // /etc/os-release ID: "ubuntu", "rhel", "nixos", "ubuntu-core"
	VersionID string `json:"versionID"` // "24.04"
	MergedUsr bool   `json:"mergedUsr"` // /lib is a link to usr/lib
}

// A Userspace is NVIDIA's user-space driver: libraries, tools, firmware.
type Userspace struct {
	Version    string `json:"version"`              // suffix of libcuda.so.V: "550.163.01"
	DriverRoot string `json:"driverRoot,omitempty"` // prefix of every driver file: "/var/lib/snapd/hostfs"; empty: "/"
	LibDir     string `json:"libDir"`               // below DriverRoot, as the loader finds it: "/usr/lib/x86_64-linux-gnu"
	StorePath  string `json:"storePath,omitempty"`  // where the files really are when LibDir's files are links (Nix)
	Persist    bool   `json:"persist,omitempty"`    // nvidia-persistenced's socket is there
	Fabric     bool   `json:"fabric,omitempty"`     // nv-fabricmanager's socket is there
	MPS        bool   `json:"mps,omitempty"`        // the MPS pipe directory is there
	VGPU       bool   `json:"vgpu,omitempty"`       // the package of the vGPU manager: NVML, but no CUDA and no graphics
}

// A PCIFunction is one entry of /sys/bus/pci/devices.
type PCIFunction struct {
	BDF        pci.BDF   `json:"bdf"`
	ID         pci.ID    `json:"id"`
	Class      pci.Class `json:"class"`
	Revision   uint8     `json:"revision,omitempty"`
	Driver     string    `json:"driver,omitempty"`   // bound driver: "nvidia", "vfio-pci"; empty: none
	NUMANode   int       `json:"numaNode"`           // -1: not known
	IOMMUGroup int       `json:"iommuGroup"`         // -1: none
	BARs       []BAR     `json:"bars,omitempty"`     // in order of index, without unused ones
	Override   string    `json:"override,omitempty"` // the only driver that may have it, driver_override; empty: any
	VFIODev    string    `json:"vfioDev,omitempty"`  // its device of iommufd's interface, "vfio0"; empty: none
	SRIOV      *SRIOV    `json:"sriov,omitempty"`    // nil: it can have no virtual functions
	Board      *Board    `json:"board,omitempty"`    // what its ids do not say; nil: they do
}

// A Board describes a function whose ids are in no list of products: what its driver
// will say of it. No file of a host tells this, so Discover leaves it nil; who writes a
// Model may give it. It is not changed once it is made.
type Board struct {
	Like       string       `json:"like,omitempty"` // product that it resembles in all that is not here; empty: none
	Name       string       `json:"name,omitempty"`
	Driver     string       `json:"driver"` // "nvidia", "amdgpu", "i915", "xe"
	MemoryMiB  uint64       `json:"memoryMiB,omitempty"`
	ComputeCap string       `json:"computeCap,omitempty"` // "8.0"; empty: not NVIDIA's
	VBIOS      string       `json:"vbios,omitempty"`
	MIG        []MIGProfile `json:"mig,omitempty"` // none: not capable of MIG
}

// A MIGProfile is one kind of GPU instance that a GPU can be cut into.
type MIGProfile struct {
	Name      string `json:"name"`      // "3g.20gb", "1g.5gb+me"
	ID        int    `json:"id"`        // as nvidia-smi mig -lgip prints it; not NVML's enumeration
	Count     int    `json:"count"`     // how many fit on an empty GPU
	Compute   int    `json:"compute"`   // compute slices: the "3" of 3g
	Size      int    `json:"size"`      // memory slices
	Starts    []int  `json:"starts"`    // memory slices where one may begin
	MemoryMiB uint64 `json:"memoryMiB"` // drifts between drivers: never a key
	SMs       int    `json:"sms"`
}

// An SRIOV says which virtual functions a PCI function can have and has
// (Documentation/PCI/pci-iov-howto.rst). Virtual function k, from 0, has the
// routing id of the function plus Offset plus k times Stride.
type SRIOV struct {
	Total   int    `json:"total"` // sriov_totalvfs
	Num     int    `json:"num"`   // sriov_numvfs: how many there are
	Offset  int    `json:"offset"`
	Stride  int    `json:"stride"`
	Device  uint16 `json:"device"`            // sriov_vf_device
	NoProbe bool   `json:"noProbe,omitempty"` // sriov_drivers_autoprobe is 0
}

// A VF is a virtual function of a GPU.
type VF struct {
	PCIFunction
	PF pci.BDF `json:"pf"` // whose it is: physfn
	// VGPU is the type of the vGPU that it is, where the driver has attributes of
	// its own for that; zero: none.
	VGPU int `json:"vgpu,omitempty"`
	// Params are what vgpu_params holds.
	Params string `json:"params,omitempty"`
}

// An MDev is a mediated device (Documentation/driver-api/vfio-mediated-device.rst).
type MDev struct {
	UUID       string  `json:"uuid"`
	Parent     pci.BDF `json:"parent"`     // a GPU or a VF
	Type       string  `json:"type"`       // folder of mdev_supported_types: "nvidia-558"
	Driver     string  `json:"driver"`     // of the mdev bus: "vfio_mdev"
	IOMMUGroup int     `json:"iommuGroup"` // -1: none
}

// A BAR is one memory or port window. Its address is the machine's affair.
type BAR struct {
	Index int    `json:"index"` // line of the sysfs file "resource", from 0
	Size  uint64 `json:"size"`  // bytes
	Flags uint64 `json:"flags"` // IORESOURCE_* as sysfs prints them
}

// A GPU is one graphics processor, whatever its vendor.
//
// Card, NVIDIA minor, NVML index and PCI address count independently: never use
// one for another. Each says -1 where the GPU has none.
type GPU struct {
	PCI        *PCIFunction `json:"pci,omitempty"`      // nil: a platform device (Tegra)
	Platform   string       `json:"platform,omitempty"` // sysfs name of a platform device, "17000000.gpu"
	Name       string       `json:"name,omitempty"`     // as the driver names it: "NVIDIA A100-SXM4-80GB"
	UUID       string       `json:"uuid,omitempty"`     // "GPU-…"; Orin's has no prefix
	Minor      int          `json:"minor"`              // N of /dev/nvidiaN
	Index      int          `json:"index"`              // NVML's
	Card       int          `json:"card"`               // N of /dev/dri/cardN
	Render     int          `json:"render"`             // N of /dev/dri/renderDN, from 128
	MemoryMiB  uint64       `json:"memoryMiB,omitempty"`
	ComputeCap string       `json:"computeCap,omitempty"` // "8.0"
	VBIOS      string       `json:"vbios,omitempty"`
	MIG        *MIG         `json:"mig,omitempty"`        // nil: not capable, or mode off
	Partitions []Partition  `json:"partitions,omitempty"` // of AMD's, beyond the first, which has Card and Render; by render node
	// Problem is why the GPU is not to be used, one line: a file about it could not be
	// read or understood, or two sources disagree about it. What is known of it stands
	// in the other fields. Empty: nothing is wrong.
	Problem string `json:"problem,omitempty"`
}

// A Partition is a part of an AMD GPU in a compute partition mode, such as DPX or CPX
// (drivers/gpu/drm/amd/amdxcp): a GPU for programs, with nodes of its own.
type Partition struct {
	Card   int `json:"card"`   // N of /dev/dri/cardN; -1: none
	Render int `json:"render"` // N of /dev/dri/renderDN; -1: none
}

// Paths returns the nodes of p.
func (p Partition) Paths() []string {
	var out []string
	if p.Card >= 0 {
		out = append(out, "/dev/dri/card"+strconv.Itoa(p.Card))
	}
	if p.Render >= 0 {
		out = append(out, "/dev/dri/renderD"+strconv.Itoa(p.Render))
	}
	return out
}

// A MIG is the state of a GPU whose MIG mode is on.
type MIG struct {
	Instances []GPUInstance `json:"instances,omitempty"` // in NVML's order; none: enabled and empty
}

// A GPUInstance (GI) is a part of a MIG-enabled GPU.
type GPUInstance struct {
	ID        int               `json:"id"`        // 0 to 14, from the placement
	Profile   string            `json:"profile"`   // "3g.40gb", "1g.10gb+me"
	ProfileID int               `json:"profileID"` // as nvidia-smi mig -lgip prints it
	Start     int               `json:"start"`     // placement, memory slices
	Size      int               `json:"size"`
	MemoryMiB uint64            `json:"memoryMiB"`
	Compute   []ComputeInstance `json:"compute"`
}

// A ComputeInstance (CI) is what a MIG device is: one part of a GPU instance.
type ComputeInstance struct {
	ID      int    `json:"id"`      // 0 to 7
	Profile string `json:"profile"` // "3g.40gb", or "1c.3g.40gb" for a part
	UUID    string `json:"uuid"`    // "MIG-…"
	Index   int    `json:"index"`   // the MIG device index within its GPU
}

// A Driver is NVIDIA's kernel driver, loaded.
type Driver struct {
	Version string   `json:"version"`        // /sys/module/nvidia/version
	Open    bool     `json:"open,omitempty"` // the open kernel modules
	CUDA    string   `json:"cuda,omitempty"` // newest CUDA that NVML reports: "12.4"
	Modules []string `json:"modules"`        // sorted, sysfs spelling: "nvidia", "nvidia_drm", "nvidia_uvm"
	VGPU    string   `json:"vgpu,omitempty"` // how it makes vGPUs: VGPUMDev or VGPUVendor; empty: not at all
}

// The two ways in which NVIDIA's driver makes vGPUs. A host has one of them.
const (
	VGPUMDev   = "mdev"   // mediated devices
	VGPUVendor = "vendor" // attributes of each virtual function, from Linux 6.8 on
)

// A Major is one line of /proc/devices.
type Major struct {
	Major uint32      `json:"major"`
	Name  string      `json:"name"`
	Type  device.Type `json:"type"`
}

// A Tegra is an SoC with an integrated GPU.
type Tegra struct {
	Chip       string   `json:"chip"`          // "tegra234"
	Model      string   `json:"model"`         // device tree: "NVIDIA Jetson AGX Orin Developer Kit"
	Compatible []string `json:"compatible"`    // device tree, most specific first
	Release    string   `json:"release"`       // L4T release: "R36"
	Revision   string   `json:"revision"`      // "4.0"
	CSV        []string `json:"csv,omitempty"` // names in host-files-for-container.d, sorted
}

// Functions returns every PCI function of the model, by address. What the
// pointers lead to is the model's own.
func (m *Model) Functions() []*PCIFunction {
	var out []*PCIFunction
	for _, g := range m.GPUs {
		if g.PCI != nil {
			out = append(out, g.PCI)
		}
	}
	for _, list := range [][]PCIFunction{m.NVSwitches, m.Companions} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	for i := range m.VFs {
		out = append(out, &m.VFs[i].PCIFunction)
	}
	slices.SortStableFunc(out, func(a, b *PCIFunction) int { return a.BDF.Compare(b.BDF) })
	return out
}

// NVIDIAGPUs returns the GPUs that NVIDIA's driver runs, in NVML order.
func (m *Model) NVIDIAGPUs() []GPU {
	var out []GPU
	for _, g := range m.GPUs {
		if g.Index >= 0 {
			out = append(out, g)
		}
	}
	for i := 1; i < len(out); i++ {
		for j := i; j > 0 && out[j].Index < out[j-1].Index; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// Integrated reports whether g is the GPU of a Tegra system on chip: a platform
// device, or, from Thor on, the PCI function at the address that NVIDIA's
// toolkit knows it by.
func (m *Model) Integrated(g GPU) bool {
	return m.Tegra != nil && (g.PCI == nil || g.PCI.BDF == pci.BDF{Bus: 1} && g.PCI.ID.Vendor == pci.NVIDIA)
}
