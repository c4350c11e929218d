package catalog

import (
	"fmt"
	"strconv"
	"strings"
)

// A VGPUType is one kind of vGPU that a board can be divided into.
type VGPUType struct {
	ID             int    // as the driver numbers it: 558
	Name           string // full name: "NVIDIA A40-2Q"
	FramebufferMiB int
	Max            int // how many the whole board can have at once
	Heads          int
	FrameRate      int    // of the frame rate limiter
	Width, Height  int    // largest resolution
	MIG            string // profile of the GPU instance that it takes whole: "1g.10gb"; empty: it shares the board in time
}

// Dir is the folder of the type below mdev_supported_types.
func (t VGPUType) Dir() string { return "nvidia-" + strconv.Itoa(t.ID) }

// Description is the text of the attribute of that name.
func (t VGPUType) Description() string {
	return fmt.Sprintf("num_heads=%d, frl_config=%d, framebuffer=%dM, max_resolution=%dx%d, max_instance=%d",
		t.Heads, t.FrameRate, t.FramebufferMiB, t.Width, t.Height, t.Max)
}

// A Virtual says how a board is divided.
type Virtual struct {
	VFs    int // virtual functions; zero: mediated devices stand on the board itself
	Offset int // of the first one's routing id
	Stride int
	Types  []VGPUType
}

// virtual is by product. Type ids are from the vGPU configuration of 510.47.03
// (A40, A100, T4; Kata's guide prints those of the A100) and from reports of hosts
// with 580 (L40S). Counts of virtual functions: a listing of an A40; those of the
// A100s, as many as the smallest type allows, and of the L40S are unverified.
var virtual = map[string]Virtual{
	"t4": {Types: vgpuTypes("GRID T4", 16, "222 1B,223 2B,224 2B4,252 1B4,225 1A,226 2A,227 4A,228 8A,229 16A,230 1Q,231 2Q,232 4Q,233 8Q,234 16Q,319 4C,320 8C,321 16C")},
	"a40": {VFs: 32, Offset: 4, Stride: 1, Types: vgpuTypes("NVIDIA A40", 48,
		"555 1B,556 2B,557 1Q,558 2Q,559 3Q,560 4Q,561 6Q,562 8Q,563 12Q,564 16Q,565 24Q,566 48Q,581 4C,582 6C,583 8C,584 12C,585 16C,586 24C,587 48C")},
	"a100-pcie-40gb": {VFs: 16, Offset: 4, Stride: 1, Types: vgpuTypes("GRID A100", 40,
		"468 4C,469 5C,470 8C,471 10C,472 20C,473 40C,474 1-5C=1g.5gb,475 2-10C=2g.10gb,476 3-20C=3g.20gb,477 4-20C=4g.20gb,478 7-40C=7g.40gb,706 1-5CME=1g.5gb+me")},
	"a100-pcie-80gb": {VFs: 20, Offset: 4, Stride: 1, Types: vgpuTypes("GRID A100D", 80,
		"692 4C,693 8C,694 10C,695 16C,696 20C,697 40C,698 80C,699 1-10C=1g.10gb,700 2-20C=2g.20gb,701 3-40C=3g.40gb,702 4-40C=4g.40gb,703 7-80C=7g.80gb,707 1-10CME=1g.10gb+me")},
	"l40s": {VFs: 32, Offset: 4, Stride: 1, Types: vgpuTypes("NVIDIA L40S", 48,
		"1145 1B,1146 2B,2164 3B,1147 1Q,1148 2Q,1149 3Q,1150 4Q,1151 6Q,1152 8Q,1153 12Q,1154 16Q,1155 24Q,1156 48Q,"+
			"1157 1A,1158 2A,1159 3A,1160 4A,1161 6A,1162 8A,1163 12A,1164 16A,1165 24A,1166 48A")},
}

// Virtual returns how the board is divided into vGPUs; false: it is not.
func (p Product) Virtual() (Virtual, bool) {
	v, ok := virtual[p.Key]
	return v, ok
}

// Type returns the type with this id.
func (v Virtual) Type(id int) (VGPUType, bool) {
	for _, t := range v.Types {
		if t.ID == id {
			return t, true
		}
	}
	return VGPUType{}, false
}

// migMax is how many GPU instances of so many slices a board has room for.
var migMax = map[string]int{"1": 7, "2": 3, "3": 2, "4": 1, "7": 1}

// vgpuTypes makes the types of a board of so many GiB out of "557 1Q,558 2Q":
// the size in GiB and the series are in the name, "699 1-10C=1g.10gb" has the
// slices before and the GPU instance's profile behind.
func vgpuTypes(board string, total int, list string) []VGPUType {
	var out []VGPUType
	for entry := range strings.SplitSeq(list, ",") {
		t := VGPUType{}
		var suffix string
		if n, err := fmt.Sscanf(entry, "%d %s", &t.ID, &suffix); n != 2 || err != nil {
			continue // cannot be: the lists are above, and a test counts
		}
		suffix, t.MIG, _ = strings.Cut(suffix, "=")
		slices, rest, mig := strings.Cut(suffix, "-")
		if !mig {
			rest = suffix
		}
		size := rest[:strings.IndexAny(rest, "ABCQ")]
		gib, err := strconv.Atoi(size)
		if err != nil {
			continue
		}
		t.Name = board + "-" + suffix
		t.FramebufferMiB = gib << 10
		t.Max = min(total/gib, 32)
		switch {
		case strings.HasSuffix(t.MIG, "+me"):
			t.Max = 1
		case mig:
			t.Max = migMax[slices]
		}
		switch series := strings.TrimPrefix(rest, size); series[0] {
		case 'Q':
			t.Heads, t.FrameRate, t.Width, t.Height = 4, 60, 7680, 4320
			if size == "1" {
				t.Width, t.Height = 5120, 2880
			}
		case 'B':
			t.Heads, t.FrameRate, t.Width, t.Height = 4, 45, 5120, 2880
		case 'C':
			t.Heads, t.FrameRate, t.Width, t.Height = 1, 60, 4096, 2160
		default:
			t.Heads, t.FrameRate, t.Width, t.Height = 1, 60, 1280, 1024
		}
		out = append(out, t)
	}
	return out
}
