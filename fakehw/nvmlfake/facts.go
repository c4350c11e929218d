package nvmlfake

import (
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// brand reads the brand off the product name. Boards named Tesla are NVIDIA's since
// branch 470, by nvidia-smi -q of T4s in public reports.
func brand(name string) nvml.BrandType {
	for _, b := range []struct {
		part  string
		brand nvml.BrandType
	}{
		{"GeForce", nvml.BRAND_GEFORCE},
		{"Tesla", nvml.BRAND_NVIDIA},
		{"Quadro RTX", nvml.BRAND_QUADRO_RTX},
		{"Quadro", nvml.BRAND_QUADRO},
		{"TITAN", nvml.BRAND_TITAN},
		{"RTX", nvml.BRAND_NVIDIA_RTX},
		{"NVIDIA", nvml.BRAND_NVIDIA},
	} {
		if strings.Contains(name, b.part) {
			return b.brand
		}
	}
	return nvml.BRAND_UNKNOWN
}

// architecture follows from the compute capability (CUDA C++ programming guide,
// table "compute capabilities").
func architecture(cc string) nvml.DeviceArchitecture {
	major, minor, ok := parseDotted(cc)
	switch {
	case !ok:
		return nvml.DEVICE_ARCH_UNKNOWN
	case major == 3:
		return nvml.DEVICE_ARCH_KEPLER
	case major == 5:
		return nvml.DEVICE_ARCH_MAXWELL
	case major == 6:
		return nvml.DEVICE_ARCH_PASCAL
	case major == 7 && minor < 5:
		return nvml.DEVICE_ARCH_VOLTA
	case major == 7:
		return nvml.DEVICE_ARCH_TURING
	case major == 8 && minor == 9:
		return nvml.DEVICE_ARCH_ADA
	case major == 8:
		return nvml.DEVICE_ARCH_AMPERE
	case major == 9:
		return nvml.DEVICE_ARCH_HOPPER
	case major >= 10 && major <= 12:
		return nvml.DEVICE_ARCH_BLACKWELL
	}
	return nvml.DEVICE_ARCH_UNKNOWN
}

// share is what a GPU instance of a profile has.
type share struct {
	sms     int
	engines catalog.Engines
}

// ProfileName returns the name of a GPU instance profile of g by its id, as
// nvidia-smi mig -lgip prints it after "MIG"; empty if g has none of that id.
func ProfileName(g host.GPU, id int) string {
	for _, p := range geometry(g) {
		if p.ID == id {
			return p.Name
		}
	}
	if g.MIG != nil {
		for _, gi := range g.MIG.Instances {
			if gi.ProfileID == id {
				return gi.Profile
			}
		}
	}
	return ""
}

// ComputeProfileName returns the name of the profile of n slices in a GPU
// instance of a profile: "1c.3g.40gb" of "3g.40gb", which is that of all three.
func ComputeProfileName(profile string, n int) string {
	if n == gpuSlices(profile) {
		return profile
	}
	return strconv.Itoa(n) + "c." + profile
}

// shareOf returns the share of a profile of g; nothing where the catalogue does
// not have it.
func shareOf(g host.GPU, profile string) share {
	if p, ok := catalog.OfGPU(g); ok {
		if m, ok := p.MIGProfile(profile); ok {
			return share{m.SMs, p.Engines(m)}
		}
	}
	return share{}
}

// placements are the instances of g as the catalogue counts them.
func placements(p catalog.Product, g host.GPU) []catalog.Placement {
	var out []catalog.Placement
	for _, gi := range g.MIG.Instances {
		m, ok := p.MIGProfile(gi.Profile)
		if !ok {
			m = catalog.MIGProfile{Name: gi.Profile, ID: gi.ProfileID, Size: gi.Size, Compute: gpuSlices(gi.Profile)}
		}
		out = append(out, catalog.Placement{Profile: m, Start: gi.Start, ID: gi.ID})
	}
	return out
}

// geometry returns the MIG profiles of a product; none for one that knows no MIG
// or that the catalogue does not have.
func geometry(g host.GPU) []catalog.MIGProfile {
	p, _ := catalog.OfGPU(g)
	return p.MIG
}

// maxMIGDevices returns how many MIG devices fit on the GPU: as many as it has
// compute slices; 0 if it knows no MIG.
func maxMIGDevices(g host.GPU) int {
	most := 0
	for _, p := range geometry(g) {
		most = max(most, p.Compute)
	}
	if most == 0 && g.MIG != nil {
		return 7 // no product of ours: every GPU but the four-slice ones has seven
	}
	return most
}

// gpuSlices returns the GPU slices of a profile name: 3 of "3g.40gb" and of
// "1c.3g.40gb"; 0 if the name is none.
func gpuSlices(profile string) int { return count(profile, "g") }

// slices returns the compute slices: 1 of "1c.3g.40gb", 3 of "3g.40gb".
func (c *computeInstance) slices() int {
	if n := count(c.Profile, "c"); n > 0 {
		return n
	}
	return gpuSlices(c.Profile)
}

func count(profile, unit string) int {
	for part := range strings.SplitSeq(profile, ".") {
		if n, ok := strings.CutSuffix(part, unit); ok {
			if v, err := strconv.Atoi(n); err == nil {
				return v
			}
		}
	}
	return 0
}

// giProfiles are the numbers of NVML by slices and attribute.
var giProfiles = map[string]int{
	"1": nvml.GPU_INSTANCE_PROFILE_1_SLICE, "2": nvml.GPU_INSTANCE_PROFILE_2_SLICE,
	"3": nvml.GPU_INSTANCE_PROFILE_3_SLICE, "4": nvml.GPU_INSTANCE_PROFILE_4_SLICE,
	"6": nvml.GPU_INSTANCE_PROFILE_6_SLICE, "7": nvml.GPU_INSTANCE_PROFILE_7_SLICE, "8": nvml.GPU_INSTANCE_PROFILE_8_SLICE,
	"1+me": nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1, "2+me": nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1,
	"1+gfx": nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX, "2+gfx": nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX,
	"3+gfx": nvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX, "4+gfx": nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX,
	"1-me": nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME, "2-me": nvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME,
	"1+me.all": nvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME, "2+me.all": nvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME,
}

// giProfile returns the nvml.GPU_INSTANCE_PROFILE_ number of a profile; -1 if
// it has none. The double-memory 1g profile ("1g.20gb" of an 80 GB GPU) is told
// from the plain one by its id, which is 15 on every GPU that has it.
func giProfile(profile string, id int) int {
	name, attr := profile, ""
	if i := strings.IndexAny(name, "+-"); i >= 0 {
		name, attr = name[:i], name[i:]
	}
	if attr == "" && gpuSlices(name) == 1 && id == 15 {
		return nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2
	}
	n, ok := giProfiles[strconv.Itoa(gpuSlices(name))+attr]
	if !ok {
		return -1
	}
	return n
}

// ciProfile returns the nvml.COMPUTE_INSTANCE_PROFILE_ number of a number of
// slices, which is the id too; -1 if there is none. In the double-memory 1g
// instance the one slice is of a revision of its own, as a capture of a GH200
// has it; on A100 that is unverified.
func ciProfile(n int, gi host.GPUInstance) int {
	if n == 1 && giProfile(gi.Profile, gi.ProfileID) == nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2 {
		return nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1
	}
	switch n {
	case 1:
		return nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE
	case 2:
		return nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE
	case 3:
		return nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE
	case 4:
		return nvml.COMPUTE_INSTANCE_PROFILE_4_SLICE
	case 6:
		return nvml.COMPUTE_INSTANCE_PROFILE_6_SLICE
	case 7:
		return nvml.COMPUTE_INSTANCE_PROFILE_7_SLICE
	case 8:
		return nvml.COMPUTE_INSTANCE_PROFILE_8_SLICE
	}
	return -1
}
