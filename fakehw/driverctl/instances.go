package driverctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
)

// mayChange refuses what makes or destroys instances, where that cannot be done.
func (a *applying) mayChange() (Reply, bool) {
	switch {
	case a.gpu.MIG == nil:
		_, r := a.refuse(nvml.ERROR_NOT_SUPPORTED, "its MIG mode is off")
		return r, false
	case !a.mayConfigure():
		_, r := a.refuse(nvml.ERROR_NO_PERMISSION, "the caller cannot read /dev/nvidia-caps/nvidia-cap1")
		return r, false
	}
	return Reply{}, true
}

// placements are the instances that there are, as the catalogue counts them.
func (a *applying) placements() []catalog.Placement {
	var out []catalog.Placement
	for _, gi := range a.gpu.MIG.Instances {
		p, ok := a.product.MIGProfile(gi.Profile)
		if !ok { // of no profile that we know: it takes its memory slices
			p = catalog.MIGProfile{Name: gi.Profile, ID: gi.ProfileID, Size: gi.Size, Compute: Slices(gi.Profile)}
		}
		out = append(out, catalog.Placement{Profile: p, Start: gi.Start, ID: gi.ID})
	}
	return out
}

func (a *applying) createGI() (State, Reply) {
	if r, ok := a.mayChange(); !ok {
		return a.state, r
	}
	i := slices.IndexFunc(a.product.MIG, func(p catalog.MIGProfile) bool { return p.ID == a.cmd.Profile })
	if i < 0 {
		return a.refuse(nvml.ERROR_INVALID_ARGUMENT, "%s has no GPU instance profile %d", a.gpu.Name, a.cmd.Profile)
	}
	profile, start, have := a.product.MIG[i], a.cmd.Start, a.placements()
	if start == Any {
		at, ok := a.product.Choose(profile, have)
		if !ok {
			return a.refuse(nvml.ERROR_INSUFFICIENT_RESOURCES, "no room for %s", profile.Name)
		}
		start = at
	} else if !slices.Contains(profile.Starts, start) {
		return a.refuse(nvml.ERROR_INVALID_ARGUMENT, "%s does not start at memory slice %d, only at %v", profile.Name, start, profile.Starts)
	} else if !a.product.Fits(profile, start, have) {
		return a.refuse(nvml.ERROR_INSUFFICIENT_RESOURCES, "no room for %s at memory slice %d", profile.Name, start)
	}
	gi := fakehw.NewGPUInstance(catalog.Placement{Profile: profile, Start: start, ID: catalog.GPUInstanceID(start, profile.Size, a.product.Slices)})
	return a.with(append(slices.Clone(a.gpu.MIG.Instances), gi), OK(gi.ID, gi.Start, gi.Size))
}

func (a *applying) createCI() (State, Reply) {
	r, ok := a.mayChange()
	if !ok {
		return a.state, r
	}
	at := a.instance()
	if at < 0 {
		return a.refuse(nvml.ERROR_NOT_FOUND, "it has no GPU instance %d", a.cmd.GI)
	}
	gi := a.gpu.MIG.Instances[at]
	total, taken := Slices(gi.Profile), 0
	var ids []int
	for _, ci := range gi.Compute {
		taken += Slices(ci.Profile)
		ids = append(ids, ci.ID)
	}
	n := total
	if a.cmd.Profile != Any {
		if n = computeSlices(a.cmd.Profile, gi); n == 0 || n > total {
			return a.refuse(nvml.ERROR_INVALID_ARGUMENT, "GPU instance %d has no compute instance profile %d", gi.ID, a.cmd.Profile)
		}
	}
	if taken+n > total {
		return a.refuse(nvml.ERROR_INSUFFICIENT_RESOURCES, "GPU instance %d has %d of %d slices left, not %d", gi.ID, total-taken, total, n)
	}
	ci := host.ComputeInstance{Profile: gi.Profile}
	if n < total {
		ci.Profile = fmt.Sprintf("%dc.%s", n, gi.Profile)
	}
	for slices.Contains(ids, ci.ID) {
		ci.ID++
	}
	gi.Compute = append(slices.Clone(gi.Compute), ci)
	return a.replace(at, gi, OK(ci.ID))
}

// doubleMemory is the id of the GPU instance profile of one slice and twice the
// memory, whose compute instance has a profile of its own.
const doubleMemory = 15

// computeSlices returns the slices of a compute instance profile of gi by its
// number, which is its id too (nvml.h, NVML_COMPUTE_INSTANCE_PROFILE_…;
// nvidia-smi mig -lcip); 0 if gi has none of that number.
func computeSlices(profile int, gi host.GPUInstance) int {
	if gi.ProfileID == doubleMemory && Slices(gi.Profile) == 1 {
		if profile == nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 {
			return 1
		}
		return 0
	}
	return map[int]int{
		nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE: 1, nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE: 2, nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE: 3,
		nvml.COMPUTE_INSTANCE_PROFILE_4_SLICE: 4, nvml.COMPUTE_INSTANCE_PROFILE_6_SLICE: 6, nvml.COMPUTE_INSTANCE_PROFILE_7_SLICE: 7,
		nvml.COMPUTE_INSTANCE_PROFILE_8_SLICE: 8,
	}[profile]
}

// Slices returns the compute slices of a profile's name: 3 of "3g.40gb", 1 of
// "1c.3g.40gb"; 0 if it is no such name.
func Slices(profile string) int {
	first, _, _ := strings.Cut(profile, ".")
	var n int
	var unit rune
	if _, err := fmt.Sscanf(first, "%d%c", &n, &unit); err != nil || fmt.Sprintf("%dg", n) != first && fmt.Sprintf("%dc", n) != first {
		return 0
	}
	return n
}

func (a *applying) destroyGI() (State, Reply) {
	if r, ok := a.mayChange(); !ok {
		return a.state, r
	}
	at := a.instance()
	if at < 0 {
		return a.refuse(nvml.ERROR_NOT_FOUND, "it has no GPU instance %d", a.cmd.GI)
	}
	gi := a.gpu.MIG.Instances[at]
	switch {
	case len(gi.Compute) > 0:
		return a.refuse(nvml.ERROR_IN_USE, "GPU instance %d has %d compute instances", gi.ID, len(gi.Compute))
	case a.on.inUse(a.capability(gi.ID)):
		return a.refuse(nvml.ERROR_IN_USE, "%s is open", a.capability(gi.ID))
	}
	return a.with(slices.Delete(slices.Clone(a.gpu.MIG.Instances), at, at+1), OK())
}

func (a *applying) destroyCI() (State, Reply) {
	if r, ok := a.mayChange(); !ok {
		return a.state, r
	}
	at := a.instance()
	if at < 0 {
		return a.refuse(nvml.ERROR_NOT_FOUND, "it has no GPU instance %d", a.cmd.GI)
	}
	gi := a.gpu.MIG.Instances[at]
	c := slices.IndexFunc(gi.Compute, func(ci host.ComputeInstance) bool { return ci.ID == a.cmd.CI })
	if c < 0 {
		return a.refuse(nvml.ERROR_NOT_FOUND, "GPU instance %d has no compute instance %d", gi.ID, a.cmd.CI)
	}
	if node := a.capability(gi.ID, a.cmd.CI); a.on.inUse(node) {
		return a.refuse(nvml.ERROR_IN_USE, "%s is open", node)
	}
	gi.Compute = slices.Delete(slices.Clone(gi.Compute), c, c+1)
	if len(gi.Compute) == 0 {
		gi.Compute = nil
	}
	return a.replace(at, gi, OK())
}

// capability returns the node of a GPU instance, or of a compute instance in it.
func (a *applying) capability(gi int, ci ...int) string {
	minor := 3 + 135*a.gpu.Minor + 9*gi
	for _, c := range ci {
		minor += 1 + c
	}
	return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor)
}

func (a *applying) replace(at int, gi host.GPUInstance, r Reply) (State, Reply) {
	all := slices.Clone(a.gpu.MIG.Instances)
	all[at] = gi
	return a.with(all, r)
}

// with is the GPU with these instances.
func (a *applying) with(instances []host.GPUInstance, r Reply) (State, Reply) {
	m, err := fakehw.WithInstances(a.state.Model, a.gpu.Index, instances)
	if err != nil {
		return a.refuse(nvml.ERROR_UNKNOWN, "%v", err)
	}
	s := a.state
	s.Model = m
	return s, r
}
