package fakehw

import (
	"fmt"

	"gpurig/core/pci"
)

// kfd makes the compute topology of amdgpu: node 0 is the processor, the others
// are GPUs. Only what readers of it use is there; gpu_id is unverified.
func (b *builder) kfd() {
	top := "/sys/devices/virtual/kfd/kfd/topology"
	n := 0
	for _, g := range b.m.GPUs {
		if g.PCI == nil || g.PCI.Driver != "amdgpu" {
			continue
		}
		f := b.functions[g.PCI.BDF.String()]
		if g.Name != "" {
			b.attr(f.dir+"/product_name", g.Name+"\n")
		}
		b.attr(f.dir+"/mem_info_vram_total", fmt.Sprintf("%d\n", g.MemoryMiB<<20))
		if g.PCI.Class == pci.ClassAccel && g.PCI.ID.Device&0xfff0 == 0x74a0 { // MI300 can be partitioned
			b.file(f.dir+"/current_compute_partition", "SPX\n", 0o644)
			b.attr(f.dir+"/available_compute_partition", "SPX, DPX, QPX, CPX\n")
			b.file(f.dir+"/current_memory_partition", "NPS1\n", 0o644)
		}
		n++
		a := g.PCI.BDF
		node := fmt.Sprintf("%s/nodes/%d", top, n)
		b.attr(node+"/gpu_id", fmt.Sprintf("%d\n", 1000+uint32(a.Bus)<<8|uint32(n)))
		b.attr(node+"/name", "amdgpu\n")
		b.attr(node+"/properties", fmt.Sprintf("cpu_cores_count 0\nsimd_count 1216\nvendor_id %d\ndevice_id %d\nlocation_id %d\ndomain %d\ndrm_render_minor %d\n",
			g.PCI.ID.Vendor, g.PCI.ID.Device, uint32(a.Bus)<<8|uint32(a.Device)<<3|uint32(a.Function), a.Domain, max(g.Render, 0)))
	}
	if n == 0 {
		return
	}
	b.attr(top+"/nodes/0/gpu_id", "0\n")
	b.attr(top+"/nodes/0/name", "\n")
	b.attr(top+"/nodes/0/properties", "cpu_cores_count 32\nsimd_count 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\n")
	b.attr(top+"/generation_id", "2\n")
	b.attr(top+"/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n")
	b.link("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd")
}
