package nvmllib

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/nvmlfake"
)

// State is what the library answers for the host m, as the text of its state
// file. Equal hosts have equal states.
func State(m host.Model) []byte { return StateWith(m, nvmlfake.Options{}) }

// StateWith is State of a library that differs from the host as opts say.
//
// The facts are asked of nvmlfake, so there is one place that knows them. What
// it does not support is not in the file. Of a host on which NVML does not
// start, the file has the code and the library's version alone.
func StateWith(m host.Model, opts nvmlfake.Options) []byte {
	w := &state{made: map[string]string{}, cut: map[string][]string{}}
	w.all(m, opts)
	return w.Bytes()
}

func (w *state) all(m host.Model, opts nvmlfake.Options) {
	w.line("gpurig-nvml 1")
	lib := nvmlfake.New(m, nvmlfake.Options{OldMIGNames: opts.OldMIGNames, PendingMIG: opts.PendingMIG, Persistence: opts.Persistence})
	r := lib.Init()
	w.line("init %d", r)
	fact(w, "nvml", lib.SystemGetNVMLVersion)
	for _, call := range slices.Sorted(maps.Keys(opts.Fail)) {
		w.line("fail %s %d", call, opts.Fail[call])
	}
	for _, call := range nvmlfake.Deprecated(m) {
		if _, named := opts.Fail[call]; !named {
			w.line("fail %s %d", call, nvml.ERROR_DEPRECATED)
		}
	}
	for _, i := range opts.OffBus {
		w.line("offbus %d", i)
	}
	for _, x := range opts.Xids {
		w.line("xid %d %d", x.GPU, x.Code)
	}
	if r == nvml.SUCCESS {
		w.host(lib)
		for i, g := range m.NVIDIAGPUs() {
			if d, r := lib.DeviceGetHandleByIndex(i); r == nvml.SUCCESS {
				w.gpu(i, d)
				for _, x := range nvmlfake.Readings(m, g) {
					w.reading(x)
				}
				w.mig(g, d)
				if i == 0 { // the others are about as long
					w.Grow(w.Len() * len(m.NVIDIAGPUs()))
				}
			}
		}
	}
	w.line("end")
}

// A state is the file while it is written. See csrc/host.c for its form.
type state struct {
	bytes.Buffer
	made map[string]string   // lines that other GPUs and instances have as well, by what they follow from; nil: none is kept
	cut  map[string][]string // the same of a GPU's instances: what stands around the UUIDs of its MIG devices

	parts []string // of the GPU that is written, up to from
	from  int
}

// same writes what lines writes, which was made before where the key was the same.
func (w *state) same(key string, lines func()) {
	if text, ok := w.made[key]; ok {
		w.WriteString(text)
		return
	}
	start := w.Len()
	lines()
	if w.made != nil {
		w.made[key] = string(w.Bytes()[start:])
	}
}

// product names what a GPU is.
func product(g host.GPU) string {
	if g.PCI == nil {
		return g.Platform
	}
	return g.PCI.ID.String()
}

// layout says how a GPU is cut, without what its instances are called.
func layout(g host.GPU) string {
	if g.MIG == nil {
		return "off"
	}
	out := []byte("on")
	for _, gi := range g.MIG.Instances {
		out = numbers(append(out, gi.Profile...), gi.ID, gi.Start, gi.ProfileID, gi.Size, int(gi.MemoryMiB))
		for _, ci := range gi.Compute {
			out = numbers(append(append(out, '/'), ci.Profile...), ci.ID, ci.Index)
		}
		out = append(out, ';')
	}
	return string(out)
}

// numbers appends each number and what no number has in it.
func numbers(out []byte, all ...int) []byte {
	for _, n := range all {
		out = strconv.AppendInt(append(out, '@'), int64(n), 10)
	}
	return out
}

func (w *state) line(format string, args ...any) {
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

// reading is line("reading %s %d %d"), or a text: a GPU has two hundred of them.
func (w *state) reading(x nvmlfake.Reading) {
	kind := "reading "
	if x.Text != "" {
		kind = "text "
	}
	b := append(w.AvailableBuffer(), kind...)
	b = strconv.AppendInt(append(append(b, x.Call...), ' '), int64(x.Arg), 10)
	if b = append(b, ' '); x.Text != "" {
		b = append(b, x.Text...)
	} else {
		b = strconv.AppendUint(b, x.Value, 10)
	}
	w.Write(append(b, '\n'))
}

// fact writes a line unless its value is not supported.
func fact[T any](w *state, key string, get func() (T, nvml.Return)) {
	v, r := get()
	if r != nvml.SUCCESS {
		return
	}
	if text, ok := any(v).(string); ok { // most are, and formatting takes its time
		for _, s := range []string{key, " ", text, "\n"} {
			w.WriteString(s)
		}
		return
	}
	w.line("%s %v", key, v)
}

// pair is fact for calls with two results.
func pair[T any](w *state, key string, get func() (T, T, nvml.Return)) {
	if a, b, r := get(); r == nvml.SUCCESS {
		w.line("%s %v %v", key, a, b)
	}
}

func (w *state) host(lib *nvmlfake.Library) {
	fact(w, "driver", lib.SystemGetDriverVersion)
	fact(w, "cuda", lib.SystemGetCudaDriverVersion)
	if _, r := lib.SystemGetCudaDriverVersion_v2(); r == nvml.ERROR_LIBRARY_NOT_FOUND {
		w.line("nolibcuda")
	}
}

func (w *state) gpu(index int, d nvml.Device) {
	w.line("gpu %d", index)
	fact(w, "uuid", d.GetUUID)
	fact(w, "name", d.GetName)
	fact(w, "serial", d.GetSerial)
	fact(w, "vbios", d.GetVbiosVersion)
	fact(w, "minor", d.GetMinorNumber)
	fact(w, "brand", func() (int32, nvml.Return) { v, r := d.GetBrand(); return int32(v), r })
	fact(w, "arch", func() (uint32, nvml.Return) { v, r := d.GetArchitecture(); return uint32(v), r })
	pair(w, "cc", d.GetCudaComputeCapability)
	fact(w, "persistence", func() (int32, nvml.Return) { v, r := d.GetPersistenceMode(); return int32(v), r })
	fact(w, "memory", func() (uint64, nvml.Return) { v, r := d.GetMemoryInfo(); return v.Total, r })
	fact(w, "bar1", func() (uint64, nvml.Return) { v, r := d.GetBAR1MemoryInfo(); return v.Bar1Total, r })
	fact(w, "fabric", func() (uint8, nvml.Return) { v, r := d.GetGpuFabricInfo(); return v.State, r })
	pair(w, "migmode", d.GetMigMode)
	fact(w, "maxmig", d.GetMaxMigDeviceCount)
	p, r := d.GetPciInfo()
	ext, r2 := d.GetPciInfoExt()
	if r == nvml.SUCCESS && r2 == nvml.SUCCESS {
		w.line("pci %d %d %d %#x %#x %#x %#x %s %s", p.Domain, p.Bus, p.Device, p.PciDeviceId, p.PciSubSystemId, ext.BaseClass, ext.SubClass,
			text(p.BusId[:]), text(p.BusIdLegacy[:]))
	}
}

// text reads a C character array up to its NUL.
func text(a []int8) string {
	var b []byte
	for _, c := range a {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func (w *state) mig(g host.GPU, d nvml.Device) {
	cut := layout(g)
	w.same("profiles "+product(g)+" "+cut, func() { w.profiles(g, d) })
	if g.MIG == nil {
		return
	}
	var sizes []uint64
	for _, b := range g.PCI.BARs {
		sizes = append(sizes, b.Size)
	}
	key := fmt.Sprint("instances ", product(g), " ", g.Name, " ", cut, sizes)
	devices := migDevices(d)
	if between, ok := w.cut[key]; ok {
		w.WriteString(between[0])
		for _, gi := range g.MIG.Instances {
			for _, ci := range gi.Compute {
				if m, ok := devices[ids{gi.ID, ci.ID}]; ok {
					fact(w, "miguuid", m.GetUUID)
					between = between[1:]
					w.WriteString(between[0])
				}
			}
		}
		return
	}
	w.parts, w.from = nil, w.Len()
	for _, gi := range g.MIG.Instances {
		if h, r := d.GetGpuInstanceById(gi.ID); r == nvml.SUCCESS {
			w.gi(gi, h, devices)
		}
	}
	if w.made != nil {
		w.cut[key] = append(w.parts, string(w.Bytes()[w.from:]))
	}
}

func (w *state) profiles(g host.GPU, d nvml.Device) {
	for n := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		p, r := d.GetGpuInstanceProfileInfo(n)
		if r != nvml.SUCCESS {
			continue
		}
		remaining, _ := d.GetGpuInstanceRemainingCapacity(&p) // 0 while MIG mode is off
		w.line("profile %d %d %d %d %d %d %d %s", n, p.Id, p.SliceCount, p.InstanceCount, p.MultiprocessorCount, remaining, p.MemorySizeMB,
			engines(p.CopyEngineCount, p.DecoderCount, p.EncoderCount, p.JpegCount, p.OfaCount))
		if name := nvmlfake.ProfileName(g, int(p.Id)); name != "" {
			w.line("profilename MIG %s", name)
		}
		places, _ := d.GetGpuInstancePossiblePlacements(&p)
		for _, at := range places {
			w.line("place %d %d", at.Start, at.Size)
		}
	}
}

// engines writes counts of engines in the order of NVML's structures.
func engines(n ...uint32) string { return strings.Trim(fmt.Sprint(n), "[]") }

// ids name a compute instance within its GPU.
type ids struct{ gi, ci int }

// migDevices returns the MIG devices of a GPU by their instances.
func migDevices(d nvml.Device) map[ids]nvml.Device {
	out := map[ids]nvml.Device{}
	n, _ := d.GetMaxMigDeviceCount()
	for i := range n {
		m, r := d.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS {
			continue
		}
		gi, _ := m.GetGpuInstanceId()
		ci, _ := m.GetComputeInstanceId()
		out[ids{gi, ci}] = m
	}
	return out
}

func (w *state) gi(gi host.GPUInstance, h nvml.GpuInstance, devices map[ids]nvml.Device) {
	info, _ := h.GetInfo()
	w.line("gi %d %d %d %d", info.Id, info.ProfileId, info.Placement.Start, info.Placement.Size)
	for n := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		if p, r := h.GetComputeInstanceProfileInfo(n, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED); r == nvml.SUCCESS {
			remaining, _ := h.GetComputeInstanceRemainingCapacity(&p)
			w.line("ciprofile %d %d %d %d %d %d %s", n, p.Id, p.SliceCount, p.InstanceCount, p.MultiprocessorCount, remaining,
				engines(p.SharedCopyEngineCount, p.SharedDecoderCount, p.SharedEncoderCount, p.SharedJpegCount, p.SharedOfaCount))
			w.line("ciname MIG %s", nvmlfake.ComputeProfileName(gi.Profile, int(p.SliceCount)))
		}
	}
	for _, ci := range gi.Compute {
		c, r := h.GetComputeInstanceById(ci.ID)
		if r != nvml.SUCCESS {
			continue
		}
		info, _ := c.GetInfo()
		w.line("ci %d %d %d %d", info.Id, info.ProfileId, info.Placement.Start, info.Placement.Size)
		if m, ok := devices[ids{gi.ID, ci.ID}]; ok {
			w.migDevice(m)
		}
	}
}

func (w *state) migDevice(m nvml.Device) {
	index, _ := m.GetIndex()
	a, _ := m.GetAttributes()
	memory, _ := m.GetMemoryInfo()
	w.line("mig %d %d %d %d %d %d %s", index, a.GpuInstanceSliceCount, a.ComputeInstanceSliceCount, a.MemorySizeMB, memory.Total, a.MultiprocessorCount,
		engines(a.SharedCopyEngineCount, a.SharedDecoderCount, a.SharedEncoderCount, a.SharedJpegCount, a.SharedOfaCount))
	w.parts = append(w.parts, string(w.Bytes()[w.from:]))
	fact(w, "miguuid", m.GetUUID)
	w.from = w.Len()
	fact(w, "migbar1", func() (uint64, nvml.Return) { v, r := m.GetBAR1MemoryInfo(); return v.Bar1Total, r })
	fact(w, "migname", m.GetName)
}
