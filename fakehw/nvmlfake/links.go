package nvmlfake

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// linked reports whether the NVLinks of g are up: its host has switches, or the
// fabric is elsewhere in the rack.
func linked(m host.Model, p catalog.Product) bool {
	return p.Card().Links > 0 && (len(m.NVSwitches) > 0 || m.Userspace != nil && m.Userspace.Fabric || p.Coherent())
}

// affinity are the words of the mask of CPUs that are near the GPU.
func (l *list) affinity(m host.Model, g host.GPU) {
	if g.PCI.NUMANode < 0 {
		return
	}
	mask := catalog.ProcessorsOf(m).Mask(g.PCI.NUMANode)
	for i, word := range mask.Bits() {
		l.at("DeviceGetCpuAffinity", i, int(word))
	}
	if g.PCI.NUMANode < 64 {
		l.add("DeviceGetMemoryAffinity", 1<<g.PCI.NUMANode)
	}
}

// GetMemoryAffinity is the node of the GPU, in the first word; the scope changes nothing.
func (g *gpu) GetMemoryAffinity(nodes int, scope nvml.AffinityScope) ([]uint, nvml.Return) {
	const call = "DeviceGetMemoryAffinity"
	out := make([]uint, (nodes-1)/8+1)
	r := g.check(call)
	if r == nvml.SUCCESS && scope > nvml.AFFINITY_SCOPE_SOCKET {
		r = nvml.ERROR_INVALID_ARGUMENT
	}
	if r != nvml.SUCCESS {
		return out, r
	}
	v, r := g.read(call, 0)
	out[0] = uint(v)
	return out, r
}

// GetCpuAffinity returns the first words of the mask; those that it does not have are 0.
func (g *gpu) GetCpuAffinity(cpus int) ([]uint, nvml.Return) {
	const call = "DeviceGetCpuAffinity"
	out := make([]uint, (cpus-1)/8+1) // as go-nvml sizes it
	if _, r := g.reading(call, 0); r != nvml.SUCCESS {
		return out, r
	}
	for i := range out {
		v, _ := g.read(call, i)
		out[i] = uint(v)
	}
	return out, nvml.SUCCESS
}

// links are a GPU's NVLinks, its place in the fabric, and the way to the others.
func (l *list) links(m host.Model, g host.GPU, p catalog.Product) {
	b, up := p.Card(), linked(m, p)
	for i := range b.Links {
		if !up {
			l.at("DeviceGetNvLinkState", i, int(nvml.FEATURE_DISABLED))
			continue
		}
		l.at("DeviceGetNvLinkState", i, int(nvml.FEATURE_ENABLED))
		l.at("DeviceGetNvLinkVersion", i, b.LinkVersion)
		l.at("DeviceGetNvLinkRemoteDeviceType", i, int(nvml.NVLINK_DEVICE_TYPE_SWITCH))
		if n := len(m.NVSwitches); n > 0 {
			far := pciInfo(&m.NVSwitches[i*n/b.Links])
			for k, v := range []int{int(far.Domain), int(far.Bus), int(far.Device), int(far.PciDeviceId)<<32 | int(far.PciSubSystemId)} {
				l.at("DeviceGetNvLinkRemotePciInfo", i*4+k, v)
			}
		}
	}
	for i, other := range m.NVIDIAGPUs() {
		if other.PCI == nil || other.PCI.BDF == g.PCI.BDF {
			continue
		}
		l.at("DeviceGetTopologyCommonAncestor", i, int(between(g, other)))
		o, _ := catalog.OfGPU(other)
		status, link := nvml.P2P_STATUS_OK, nvml.P2P_STATUS_NOT_SUPPORTED
		if s, _ := o.Readings(); !s.ECC || o.Key != p.Key {
			status = nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED
		}
		if up && linked(m, o) {
			link = nvml.P2P_STATUS_OK
		}
		l.at("DeviceGetP2PStatus", i*p2pKinds+int(nvml.P2P_CAPS_INDEX_READ), int(status))
		l.at("DeviceGetP2PStatus", i*p2pKinds+int(nvml.P2P_CAPS_INDEX_WRITE), int(status))
		l.at("DeviceGetP2PStatus", i*p2pKinds+int(nvml.P2P_CAPS_INDEX_NVLINK), int(link))
		l.at("DeviceGetP2PStatus", i*p2pKinds+int(nvml.P2P_CAPS_INDEX_ATOMICS), int(link))
	}
	if !fabric(m, p) {
		return
	}
	const bandwidth, recovery, route, timeout = 2, 2 << 2, 2 << 4, 2 << 6 // each: known, and well
	clique, health, summary, cluster := 0, 0, 0, strings.Repeat("0", 32)
	if p.Platform() {
		health = timeout
	}
	if p.Coherent() { // a rack's switches are beyond the tray
		clique, health, cluster = 2, bandwidth|recovery|route|timeout, strings.Repeat("0", 7)+"1"+strings.Repeat("0", 23)+"1"
	}
	if p.Platform() {
		summary = nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY
	}
	l.add("DeviceGetGpuFabricInfo", clique, health, summary)
	l.text("DeviceGetGpuFabricInfo", 3, cluster)
}

// p2pKinds is above the number of a P2P capability.
const p2pKinds = int(nvml.P2P_CAPS_INDEX_UNKNOWN) + 1

// fabric reports whether a GPU of this host has to do with a fabric.
func fabric(m host.Model, p catalog.Product) bool { return p.Fabric() && linked(m, p) }

// fabricUp reports whether somebody has set the fabric up.
func (g *gpu) fabricUp() bool {
	m := g.lib.model
	p, ok := catalog.OfGPU(g.GPU)
	return ok && (p.Coherent() || m.Userspace != nil && m.Userspace.Fabric)
}

// between is how far two GPUs are from each other: every function of a fake host has a
// root port of its own.
func between(a, b host.GPU) nvml.GpuTopologyLevel {
	if a.PCI.NUMANode == b.PCI.NUMANode && a.PCI.NUMANode >= 0 {
		return nvml.TOPOLOGY_NODE
	}
	return nvml.TOPOLOGY_SYSTEM
}

// toOther reads an answer about two GPUs.
func (g *gpu) toOther(call string, other nvml.Device, stride, kind int) (uint64, nvml.Return) {
	r := g.check(call)
	o, ok := other.(*gpu)
	switch {
	case r != nvml.SUCCESS:
		return 0, r
	case !ok:
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	for i, x := range g.lib.gpus {
		if x == o {
			return g.read(call, i*stride+kind)
		}
	}
	return 0, nvml.ERROR_INVALID_ARGUMENT
}

// GetTopologyCommonAncestor is of two GPUs; a GPU and itself are not supported.
func (g *gpu) GetTopologyCommonAncestor(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
	v, r := g.toOther("DeviceGetTopologyCommonAncestor", other, 1, 0)
	return nvml.GpuTopologyLevel(v), r
}

func (g *gpu) GetP2PStatus(other nvml.Device, kind nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
	if r := g.check("DeviceGetP2PStatus"); r != nvml.SUCCESS {
		return 0, r
	}
	if kind < 0 || int(kind) >= p2pKinds-1 {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	v, r := g.toOther("DeviceGetP2PStatus", other, p2pKinds, int(kind))
	return nvml.GpuP2PStatus(v), r
}

func (g *gpu) GetNvLinkState(link int) (nvml.EnableState, nvml.Return) {
	v, r := indexed(g, "DeviceGetNvLinkState", int32(link), nvml.NVLINK_MAX_LINKS)
	return nvml.EnableState(v), r
}

func (g *gpu) GetNvLinkVersion(link int) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetNvLinkVersion", int32(link), nvml.NVLINK_MAX_LINKS)
}

func (g *gpu) GetNvLinkRemoteDeviceType(link int) (nvml.IntNvLinkDeviceType, nvml.Return) {
	v, r := indexed(g, "DeviceGetNvLinkRemoteDeviceType", int32(link), nvml.NVLINK_MAX_LINKS)
	return nvml.IntNvLinkDeviceType(v), r
}

// GetNvLinkRemotePciInfo is the NVSwitch at the end of a link.
func (g *gpu) GetNvLinkRemotePciInfo(link int) (nvml.PciInfo, nvml.Return) {
	const call = "DeviceGetNvLinkRemotePciInfo"
	if r := g.check(call); r != nvml.SUCCESS {
		return nvml.PciInfo{}, r
	}
	if link < 0 || link >= nvml.NVLINK_MAX_LINKS {
		return nvml.PciInfo{}, nvml.ERROR_INVALID_ARGUMENT
	}
	bus, r := g.read(call, link*4+1)
	for _, f := range g.lib.model.NVSwitches {
		if r == nvml.SUCCESS && uint64(f.BDF.Bus) == bus {
			return pciInfo(&f), r
		}
	}
	return nvml.PciInfo{}, r
}
