package fakehw

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
)

const kfdTop = "/sys/devices/virtual/kfd/kfd/topology"

// A kfdNode is a node of amdgpu's compute topology: a processor, or a GPU. Links are to
// other nodes: of PCIe between a GPU and processors, of XGMI between GPUs of a hive.
type kfdNode struct {
	gpu       *host.GPU // nil: a processor
	numa      int
	partition int // of the GPU: 0 is the first, or all of it
	render    int
}

// share is what each partition of the node's GPU has of n.
func (n kfdNode) share(of int) int { return of / (1 + len(n.gpu.Partitions)) }

// computeModes are amdgpu's names for a GPU in so many partitions.
var computeModes = map[int]string{1: "SPX", 2: "DPX", 4: "QPX", 8: "CPX"}

// A shader is what the driver says of the compute part of a GPU: MI300X's numbers are
// from the topology of one in eight partitions (ROCm's k8s-device-plugin), times eight
// where it is whole; others are unverified.
type shader struct {
	simds, simdsPerCU, cus, arrays, wave, target, xcc, clock, sdma, xgmi int
}

func shaderOf(g *host.GPU) shader {
	if g.PCI.Class == pci.ClassAccel {
		return shader{simds: 1216, simdsPerCU: 4, cus: 10, arrays: 32, wave: 64, target: 90402, xcc: 8, clock: 2100, sdma: 2, xgmi: 14}
	}
	return shader{simds: 192, simdsPerCU: 2, cus: 8, arrays: 12, wave: 32, target: 110000, xcc: 1, clock: 2482, sdma: 2}
}

// kfd makes the compute topology of amdgpu: processors first, then GPUs in order of
// address. gpu_id is unverified.
func (b *builder) kfd() {
	var nodes []kfdNode
	var cpus []int
	for i := range b.m.GPUs {
		g := &b.m.GPUs[i]
		if g.PCI == nil || g.PCI.Driver != "amdgpu" {
			continue
		}
		b.amdgpu(*g)
		n := max(g.PCI.NUMANode, 0)
		if !slices.Contains(cpus, n) {
			cpus = append(cpus, n)
		}
		for i, d := range drmDevices(*g) {
			nodes = append(nodes, kfdNode{gpu: g, numa: n, partition: i, render: d.Render})
		}
	}
	if len(nodes) == 0 {
		return
	}
	slices.Sort(cpus)
	var all []kfdNode
	for _, n := range cpus {
		all = append(all, kfdNode{numa: n})
	}
	all = append(all, nodes...)
	for i := range all {
		b.kfdNode(all, i)
	}
	b.attr(kfdTop+"/generation_id", "2\n")
	b.attr(kfdTop+"/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n")
	b.link("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd")
}

func (b *builder) kfdNode(all []kfdNode, i int) {
	n, dir := all[i], fmt.Sprintf("%s/nodes/%d", kfdTop, i)
	links, caches := 0, 0
	for j := range all {
		if text, ok := kfdLink(all, i, j); ok {
			b.attr(fmt.Sprintf("%s/io_links/%d/properties", dir, links), text)
			links++
		}
	}
	heap, size := 0, uint64(256)<<30 // system memory; its size is unverified
	if n.gpu != nil {
		heap, size = 1, uint64(n.share(int(n.gpu.MemoryMiB)))<<20
		for level, kib := range []int{32, 4096} { // sizes unverified
			b.attr(fmt.Sprintf("%s/caches/%d/properties", dir, caches), fmt.Sprintf("processor_id_low %d\nlevel %d\nsize %d\ncache_line_size 128\ncache_lines_per_tag 1\nassociation 16\nlatency 0\ntype 9\nsibling_map 1\n", i<<16, level+1, kib))
			caches++
		}
	}
	b.attr(dir+"/mem_banks/0/properties", fmt.Sprintf("heap_type %d\nsize_in_bytes %d\nflags 0\nwidth 64\nmem_clk_max 0\n", heap, size))
	for _, d := range []string{"caches", "io_links", "p2p_links", "perf"} {
		b.dir(dir + "/" + d)
	}
	var s strings.Builder
	row := func(key string, v any) { fmt.Fprintf(&s, "%s %d\n", key, v) }
	cores, sh, id := 0, shader{}, pci.ID{}
	if n.gpu == nil {
		b.attr(dir+"/gpu_id", "0\n")
		b.attr(dir+"/name", "\n")
		cores = 16 // of a workstation
		if len(all) > 8 {
			cores = 96
		}
	} else {
		a := n.gpu.PCI.BDF
		b.attr(dir+"/gpu_id", fmt.Sprintf("%d\n", 1000+uint32(a.Bus)<<8|uint32(i)))
		b.attr(dir+"/name", map[bool]string{true: "aqua_vanjaram\n", false: "amdgpu\n"}[n.gpu.PCI.Class == pci.ClassAccel])
		sh, id = shaderOf(n.gpu), n.gpu.PCI.ID
		sh.simds, sh.arrays, sh.xcc = n.share(sh.simds), n.share(sh.arrays), max(n.share(sh.xcc), 1)
	}
	gpu := func(v int) int {
		if n.gpu == nil {
			return 0
		}
		return v
	}
	row("cpu_cores_count", cores)
	row("simd_count", sh.simds)
	row("mem_banks_count", 1)
	row("caches_count", caches)
	row("io_links_count", links)
	row("p2p_links_count", 0)
	row("cpu_core_id_base", map[bool]int{true: 128 * n.numa}[n.gpu == nil])
	row("simd_id_base", gpu(2147487744+i*64))
	row("max_waves_per_simd", gpu(8))
	row("lds_size_in_kb", gpu(64))
	row("gds_size_in_kb", 0)
	row("num_gws", gpu(64))
	row("wave_front_size", sh.wave)
	row("array_count", sh.arrays)
	row("simd_arrays_per_engine", gpu(1))
	row("cu_per_simd_array", sh.cus)
	row("simd_per_cu", sh.simdsPerCU)
	row("max_slots_scratch_cu", gpu(32))
	row("gfx_target_version", sh.target)
	row("vendor_id", id.Vendor)
	row("device_id", id.Device)
	if n.gpu == nil {
		row("location_id", 0)
		row("domain", 0)
		row("drm_render_minor", 0)
	} else {
		a := n.gpu.PCI.BDF
		row("location_id", uint32(n.partition)<<28|uint32(a.Bus)<<8|uint32(a.Device)<<3|uint32(a.Function))
		row("domain", a.Domain)
		row("drm_render_minor", max(n.render, 0))
	}
	row("hive_id", map[bool]int{true: 0x52c9e1a7d3b40018}[sh.xgmi > 0])
	row("num_sdma_engines", sh.sdma)
	row("num_sdma_xgmi_engines", sh.xgmi)
	row("num_sdma_queues_per_engine", gpu(8))
	row("num_cp_queues", gpu(24))
	if n.gpu != nil {
		row("max_engine_clk_fcompute", sh.clock)
		row("local_mem_size", 0)
		row("fw_version", 177)
		row("capability", 2893521536)
		row("debug_prop", 1511)
		row("sdma_fw_version", 24)
		row("unique_id", uniqueID(*n.gpu))
		row("num_xcc", sh.xcc)
	}
	row("max_engine_clk_ccompute", 2750)
	b.attr(dir+"/properties", s.String())
}

// Types of links, and their weights and bandwidth in MB/s between MI300X's nodes; that
// of GPUs among each other is unverified.
const (
	linkPCIe = 2
	linkXGMI = 11
)

// kfdLink is the way from one node to another; ok is false where there is none.
func kfdLink(all []kfdNode, from, to int) (text string, ok bool) {
	a, z := all[from], all[to]
	kind, weight, bandwidth := linkPCIe, 20, 64000
	switch {
	case from == to:
		return "", false
	case a.gpu == nil && z.gpu == nil:
		weight = 32
	case a.gpu != nil && z.gpu != nil:
		if shaderOf(a.gpu).xgmi == 0 || shaderOf(z.gpu).xgmi == 0 {
			return "", false
		}
		kind, weight = linkXGMI, 15
	case a.numa != z.numa:
		return "", false
	}
	return fmt.Sprintf("type %d\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\nweight %d\nmin_latency 0\nmax_latency 0\nmin_bandwidth 0\nmax_bandwidth %d\nrecommended_transfer_size 0\nrecommended_sdma_engine_id_mask 3\nflags 1\n",
		kind, from, to, weight, bandwidth), true
}

// Partitioned reports whether amdgpu can have a GPU in partitions: an MI300.
func Partitioned(id pci.ID) bool { return id.Vendor == pci.AMD && id.Device&0xfff0 == 0x74a0 }

// uniqueID is the number that a board of the data centre has; others have none.
func uniqueID(g host.GPU) uint64 {
	if g.PCI.Class != pci.ClassAccel {
		return 0
	}
	var id uint64
	fmt.Sscanf(uuid(0, "amdgpu ", g.PCI.ID, " ", g.PCI.BDF)[:8], "%x", &id)
	return 0xe3a0<<48 | id
}

// amdgpu makes what the driver adds to its function, which rocm-smi reads; what an idle
// GPU draws and how warm it is, is unverified.
func (b *builder) amdgpu(g host.GPU) {
	f := b.functions[g.PCI.BDF.String()]
	attr := func(name, format string, args ...any) { b.attr(f.dir+"/"+name, fmt.Sprintf(format, args...)+"\n") }
	if g.Name != "" {
		attr("product_name", "%s", g.Name)
	}
	vram := g.MemoryMiB << 20
	attr("mem_info_vram_total", "%d", vram)
	attr("mem_info_vram_used", "%d", 280<<20)
	attr("mem_info_vis_vram_total", "%d", vram)
	attr("mem_info_vis_vram_used", "%d", 280<<20)
	attr("mem_info_gtt_total", "%d", uint64(128)<<30)
	attr("mem_info_gtt_used", "%d", 15<<20)
	attr("gpu_busy_percent", "0")
	attr("mem_busy_percent", "0")
	if id := uniqueID(g); id != 0 {
		attr("unique_id", "%016x", id)
	}
	if Partitioned(g.PCI.ID) {
		b.file(f.dir+"/current_compute_partition", computeModes[1+len(g.Partitions)]+"\n", 0o644)
		attr("available_compute_partition", "SPX, DPX, QPX, CPX")
		b.file(f.dir+"/current_memory_partition", "NPS1\n", 0o644)
	}
	n := b.hwmon
	b.hwmon++
	dir := fmt.Sprintf("%s/hwmon/hwmon%d", f.dir, n)
	b.link(dir+"/device", f.dir)
	b.link(dir+"/subsystem", "/sys/class/hwmon")
	b.link(fmt.Sprintf("/sys/class/hwmon/hwmon%d", n), dir)
	for name, text := range map[string]string{"name": "amdgpu", "temp1_input": "38000", "temp1_label": "junction", "temp1_crit": "100000",
		"temp2_input": "35000", "temp2_label": "mem", "power1_average": "132000000", "power1_label": "PPT", "power1_cap": "750000000",
		"power1_cap_max": "750000000", "power1_cap_min": "0", "freq1_input": "132000000", "freq1_label": "sclk", "freq2_input": "900000000", "freq2_label": "mclk"} {
		b.attr(dir+"/"+name, text+"\n")
	}
}
