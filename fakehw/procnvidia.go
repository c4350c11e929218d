package fakehw

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// nvidiaProc makes /proc/driver/nvidia and its neighbours, in the formats of
// nv-procfs.c and nv-caps.c of the open kernel modules.
func (b *builder) nvidiaProc() {
	d := b.m.Driver
	if d == nil {
		return
	}
	top := "/proc/driver/nvidia"
	b.attr(top+"/version", versionText(b.m))
	b.attr(top+"/params", paramsText(d.Version))
	b.file(top+"/registry", "Binary: \"\"\n", 0o644)
	b.file(top+"/suspend", "suspend hibernate resume\n", 0o644)
	b.file(top+"/suspend_depth", "default modeset uvm\n", 0o644)
	b.dir(top + "/gpus")
	b.dir(top + "/warnings")
	b.dir(top + "/patches")
	for _, g := range b.m.GPUs {
		if driven(g) {
			b.gpuProc(g)
		}
	}
	b.capabilities()
	b.fabricProc()
	if hasModule(b.m, "nvidia_uvm") {
		b.dir("/proc/driver/nvidia-uvm/gpus")
		b.dir("/proc/driver/nvidia-uvm/cpu")
	}
}

// versionText is the file "version"; note the two spaces around the number.
func versionText(m *host.Model) string {
	d := m.Driver
	built, gcc := "", "gcc version 12.2.0 (GCC) "
	if r, err := catalog.FindDriver(d.Version); err == nil {
		built = r.Built
	}
	if os, err := catalog.FindOS(m.OS.ID); err == nil {
		gcc = os.GCC
	}
	if d.Open {
		return fmt.Sprintf("NVRM version: NVIDIA UNIX Open Kernel Module for %s  %s  Release Build  (dvs-builder@U22-I3-AM02-24-3)  %s\nGCC version:  %s\n", m.Arch, d.Version, built, gcc)
	}
	return fmt.Sprintf("NVRM version: NVIDIA UNIX %s Kernel Module  %s  %s\nGCC version:  %s\n", m.Arch, d.Version, built, gcc)
}

// gpuProc makes one GPU's directory.
func (b *builder) gpuProc(g host.GPU) {
	f := b.functions[g.PCI.BDF.String()]
	dir := "/proc/driver/nvidia/gpus/" + f.bdf
	p, _ := productOf(g)
	bits := p.DMABits
	if bits == 0 {
		bits = 47
	}
	var s strings.Builder
	fmt.Fprintf(&s, "Model: \t\t %s\n", g.Name)
	fmt.Fprintf(&s, "IRQ:   \t\t %d\n", f.irq)
	if g.UUID != "" {
		fmt.Fprintf(&s, "GPU UUID: \t %s\n", g.UUID)
	}
	fmt.Fprintf(&s, "Video BIOS: \t %s\n", orElse(g.VBIOS, "??.??.??.??.??"))
	fmt.Fprintf(&s, "Bus Type: \t PCIe\nDMA Size: \t %d bits\nDMA Mask: \t 0x%x\n", bits, uint64(1)<<bits-1)
	fmt.Fprintf(&s, "Bus Location: \t %s\n", f.bdf)
	fmt.Fprintf(&s, "Device Minor: \t %d\n", g.Minor)
	if b.m.Driver.Open {
		fmt.Fprintf(&s, "GPU Firmware: \t %s\n", b.m.Driver.Version)
	}
	s.WriteString("GPU Excluded:\t No\n")
	b.attr(dir+"/information", s.String())
	b.attr(dir+"/power", powerText)
	b.file(dir+"/registry", "Binary: \"\"\n", 0o644)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

const powerText = `Runtime D3 status:          Disabled by default
Video Memory:               Active

GPU Hardware Support:
 Video Memory Self Refresh: Not Supported
 Video Memory Off:          Not Supported

S0ix Power Management:
 Platform Support:          Not Supported
 Status:                    Disabled

Notebook Dynamic Boost:     Not Supported
`

// Modes that the driver asks for, as it prints them: in decimal.
const (
	modeAdmin = 0o400
	modeUser  = 0o444
)

// capability makes the file that says which node a right has.
func (b *builder) capability(p string, minor uint32, mode int) {
	text := append(make([]byte, 0, 64), "DeviceFileMinor: "...)
	text = append(strconv.AppendUint(text, uint64(minor), 10), "\nDeviceFileMode: "...)
	text = append(strconv.AppendInt(text, int64(mode), 10), "\nDeviceFileModify: 1\n"...)
	b.data(p, text, 0o444)
}

// capabilities makes what a driver with capability nodes shows: the fixed
// tables, and a tree that follows MIG mode and live instances.
func (b *builder) capabilities() {
	if _, ok := majorOf(b.m, "nvidia-caps"); !ok {
		return
	}
	top := "/proc/driver/nvidia/capabilities"
	b.capability(top+"/mig/config", capConfig, modeAdmin)
	b.capability(top+"/mig/monitor", capMonitor, modeUser)
	b.data("/proc/driver/nvidia-caps/mig-minors", migMinors(), 0o444) // the same everywhere and long: shared
	b.attr("/proc/driver/nvidia-caps/nvlink-minors", "fabric-mgmt 0\n")
	if catalog.BranchNumber(b.m.Driver.Version) >= 550 {
		b.attr("/proc/driver/nvidia-caps/sys-minors", fmt.Sprintf("fabric-imex-mgmt %d\n", capIMEX))
		b.capability(top+"/fabric-imex-mgmt", capIMEX, modeAdmin)
	}
	for _, g := range b.m.GPUs {
		if g.MIG == nil {
			continue
		}
		mig := top + "/gpu" + strconv.Itoa(g.Minor) + "/mig"
		b.dir(mig)
		for _, gi := range g.MIG.Instances {
			at := mig + "/gi" + strconv.Itoa(gi.ID)
			minor := giCap(g.Minor, gi.ID)
			b.capability(at+"/access", minor, modeUser)
			for _, ci := range gi.Compute {
				b.capability(at+"/ci"+strconv.Itoa(ci.ID)+"/access", minor+1+uint32(ci.ID), modeUser)
			}
		}
	}
}

// migMinors is the driver's fixed table: 4322 lines for 32 GPUs of 15 GPU
// instances of 8 compute instances, numbered from 1 in this order.
var migMinors = sync.OnceValue(func() []byte {
	var s strings.Builder
	s.Grow(120 << 10)
	s.WriteString("config 1\nmonitor 2\n")
	minor := 3
	for g := range capGPUs {
		for i := range 15 {
			fmt.Fprintf(&s, "gpu%d/gi%d/access %d\n", g, i, minor)
			minor++
			for c := range 8 {
				fmt.Fprintf(&s, "gpu%d/gi%d/ci%d/access %d\n", g, i, c, minor)
				minor++
			}
		}
	}
	return []byte(s.String())
})

// fabricProc makes the files of the NVLink and NVSwitch parts.
func (b *builder) fabricProc() {
	if _, ok := majorOf(b.m, "nvidia-nvlink"); ok {
		b.attr("/proc/driver/nvidia-nvlink/permissions", "DeviceFileMode: 438\n")
		b.capability("/proc/driver/nvidia-nvlink/capabilities/fabric-mgmt", 0, modeAdmin)
	}
	if _, ok := majorOf(b.m, "nvidia-nvswitch"); !ok {
		return
	}
	b.attr("/proc/driver/nvidia-nvswitch/permissions", "DeviceFileMode: 438\n")
	b.dir("/proc/driver/nvidia-nvswitch/devices")
	for i, f := range b.m.NVSwitches { // the spacing is unverified
		if f.Driver != "nvidia-nvswitch" {
			continue
		}
		b.attr("/proc/driver/nvidia-nvswitch/devices/"+f.BDF.String()+"/information",
			fmt.Sprintf("BIOS Version: 92.10.18.00.02\nUUID: SWX-%s\nPhysical location ID: %04x\n", strings.ToUpper(uuid(0, "switch ", f.BDF)), i))
	}
}
