package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/runner/observe"
	"gpurig/runner/smoke"
)

var _ observe.Worker = (*view)(nil)

// Smoke is part of observe.Worker. It says what the workload would: the reasoning of
// the fake libcuda (fakehw/cudalib/csrc/init.c), which is that of the real one, done
// on what was seen of the container. It computes nothing: kernels on a device that
// opens pass.
func (v *view) Smoke(w observe.Work, at observe.Workplace) (smoke.Result, error) {
	if w.Model == nil {
		return smoke.Result{}, errors.New("no model of the host")
	}
	env, err := v.Environ()
	if err != nil {
		return smoke.Result{}, err
	}
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "CUDA_VISIBLE_DEVICES=") }) {
		return smoke.Result{}, errors.New("CUDA_VISIBLE_DEVICES is not simulated")
	}
	var r smoke.Result
	if r.Failure = v.loads(at); r.Failure != nil {
		return r, nil
	}
	r.Library = at.CUDA.Final
	f := foretold{model: w.Model, state: w.State, at: at, open: map[string]syscall.Errno{}}
	for _, n := range at.Nodes {
		f.open[n.Path] = v.OpenNode(n.Path, !strings.HasPrefix(n.Path, capDir))
	}
	devices, code := f.init()
	if code != 0 {
		for _, n := range at.Nodes {
			if smoke.OfGPU(n.Path) {
				r.Nodes = append(r.Nodes, smoke.Node{Path: n.Path, Open: answer(f.open[n.Path])})
			}
		}
		r.Nodes = smoke.Arrange(r.Nodes)
		failure := &smoke.Failure{Step: smoke.Init, Cause: smoke.CUDAError, Code: code, Reason: fmt.Sprintf("cuInit: %d", code)}
		switch code {
		case noDevice:
			failure.Cause = smoke.NoDevice
		case versions:
			failure.Cause = smoke.WrongVersion
		}
		r.Failure = smoke.Diagnose(failure, r.Nodes, f.listed())
		return r, nil
	}
	for i, d := range devices {
		r.Devices = append(r.Devices, d)
		r.Kernels = append(r.Kernels, smoke.Kernel{Device: i, Result: smoke.Pass})
	}
	return r, nil
}

// loads says whether the loader takes the file that it finds. The driver's libraries
// are glibc's, and need its loader by name; a file of the image's own has none of the
// driver API.
func (v *view) loads(at observe.Workplace) *smoke.Failure {
	fail := func(cause smoke.Cause, reason string) *smoke.Failure {
		return &smoke.Failure{Step: smoke.Library, Cause: cause, Reason: reason}
	}
	switch {
	case at.CUDA.Path == "":
		return fail(smoke.NotFound, "libcuda.so.1 is not found")
	case at.CUDA.Problem != "":
		return fail(smoke.NotLoadable, at.CUDA.Path+": "+at.CUDA.Problem)
	case at.Musl:
		return fail(smoke.NotLoadable, at.CUDA.Path+" needs glibc's loader")
	}
	if data, err := v.ReadFile(at.CUDA.Final); err == nil && !bytes.Contains(data, []byte("cuInit")) {
		return fail(smoke.NotLoadable, at.CUDA.Final+": no cuInit")
	}
	return nil
}

// Codes of cuInit.
const (
	noDevice     = 100
	notSupported = 801
	versions     = 803
	unknown      = 999
)

const capDir = "/dev/nvidia-caps/"

// answer is an errno as the workload writes it.
func answer(e syscall.Errno) string {
	switch e {
	case 0, syscall.ENXIO, syscall.ENODEV:
		return smoke.Allowed
	}
	return e.Error()
}

// foretold is what cuInit would find.
type foretold struct {
	model *host.Model
	state string // of the fake host's libraries
	at    observe.Workplace
	open  map[string]syscall.Errno // of the nodes that are there
}

// permitted says whether a node is there, has its number, and may be opened. minor -1:
// any. Majors are not asked: a container's /proc/devices is this machine's.
func (f *foretold) permitted(p string, major uint32, minor int) bool {
	i := slices.IndexFunc(f.at.Nodes, func(n observe.Node) bool { return n.Path == p })
	if i < 0 || answer(f.open[p]) != smoke.Allowed {
		return false
	}
	n := f.at.Nodes[i].Num
	return (major == 0 || n.Major == major) && (minor < 0 || n.Minor == uint32(minor))
}

// fact returns the value of a line of the state, before its first GPU.
func (f *foretold) fact(key string) string {
	for line := range strings.Lines(f.state) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == key {
			return rest
		}
		if word == "gpu" {
			break
		}
	}
	return ""
}

const nvidiaMajor, ctlMinor = 195, 255

func (f *foretold) init() ([]smoke.Device, int) {
	switch f.fact("init") {
	case "0":
	case "9", "12":
		return nil, noDevice
	case "18":
		return nil, versions
	default:
		return nil, unknown
	}
	var found []smoke.Device
	code := noDevice
	for _, g := range f.model.NVIDIAGPUs() {
		var c int
		if g.Minor < 0 {
			c = f.nvgpu()
		} else {
			c = f.shared()
		}
		if c != 0 {
			code = c
			continue
		}
		if g.Minor < 0 || f.permitted(fmt.Sprintf("/dev/nvidia%d", g.Minor), nvidiaMajor, g.Minor) {
			found = append(found, f.devices(g)...)
		}
	}
	if len(found) == 0 {
		return nil, code
	}
	// Of MIG devices a process gets one, and no full GPU beside it.
	if i := slices.IndexFunc(found, func(d smoke.Device) bool { return d.MIG }); i >= 0 {
		return found[i : i+1], 0
	}
	return found, 0
}

func (f *foretold) shared() int {
	if !f.permitted("/dev/nvidiactl", nvidiaMajor, ctlMinor) {
		return noDevice
	}
	_, own, _ := strings.Cut(path.Base(f.at.CUDA.Final), ".so.")
	branch, _, dotted := strings.Cut(own, ".")
	if n, err := strconv.Atoi(branch); dotted && err == nil && n >= 100 && own != f.fact("driver") {
		return versions
	}
	if !f.permitted("/dev/nvidia-uvm", 0, 0) {
		return unknown
	}
	return 0
}

// nvgpu checks the nodes of an integrated GPU without /dev/nvidiaN.
func (f *foretold) nvgpu() int {
	branch, _, _ := strings.Cut(f.fact("driver"), ".")
	release, _ := strconv.Atoi(branch)
	render := release < 540 || slices.ContainsFunc(f.at.Nodes, func(n observe.Node) bool {
		return strings.HasPrefix(n.Path, "/dev/dri/renderD") && f.permitted(n.Path, 226, -1)
	})
	control := f.permitted("/dev/nvgpu/igpu0/ctrl", 0, -1) || f.permitted("/dev/nvhost-ctrl-gpu", 0, -1)
	if !f.permitted("/dev/nvmap", 0, -1) || !control || !render {
		return notSupported
	}
	return 0
}

// devices are a GPU, or those of its MIG devices whose capability nodes open.
func (f *foretold) devices(g host.GPU) []smoke.Device {
	if g.MIG == nil {
		return []smoke.Device{{UUID: "GPU-" + strings.TrimPrefix(g.UUID, "GPU-")}}
	}
	type device struct {
		index int
		id    string
	}
	var all []device
	for _, gi := range g.MIG.Instances {
		for _, ci := range gi.Compute {
			access := 3 + 135*g.Minor + 9*gi.ID
			if f.capability(access) && f.capability(access+1+ci.ID) {
				all = append(all, device{ci.Index, ci.UUID})
			}
		}
	}
	slices.SortFunc(all, func(a, b device) int { return cmp.Compare(a.index, b.index) })
	var out []smoke.Device
	for _, d := range all {
		out = append(out, smoke.Device{UUID: d.id, MIG: true})
	}
	return out
}

func (f *foretold) capability(minor int) bool {
	return f.permitted(fmt.Sprintf("%snvidia-cap%d", capDir, minor), 0, minor)
}

// listed is what NVML names in the container: GPUs whose own node opens.
func (f *foretold) listed() []string {
	if f.at.NVML.Path == "" || f.at.NVML.Problem != "" || f.fact("init") != "0" {
		return nil
	}
	var out []string
	for _, g := range f.model.NVIDIAGPUs() {
		switch {
		case g.Minor >= 0 && !f.permitted(fmt.Sprintf("/dev/nvidia%d", g.Minor), 0, -1):
		case g.MIG != nil:
			out = append(out, smoke.MIGMode+g.UUID)
		default:
			out = append(out, g.UUID)
		}
	}
	return out
}
