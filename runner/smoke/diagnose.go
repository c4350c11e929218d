package smoke

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Answers in Node.Open besides an error's text. ENXIO and ENODEV are those of a node
// that may be opened, and whose driver is not there.
const (
	Allowed = "allowed"
	Missing = "missing"
)

// ofGPU matches the nodes that CUDA opens: those of NVIDIA's discrete GPUs, of MIG,
// and of a Tegra. discrete matches the first kind.
var (
	ofGPU    = regexp.MustCompile(`^/dev/(nvidia(\d+|ctl|-uvm)|nvidia-caps/nvidia-cap\d+|nvmap|nvhost-(ctrl|as|dbg|tsg)?-?gpu|nvgpu/igpu0/(ctrl|as|channel)|dri/renderD\d+)$`)
	discrete = regexp.MustCompile(`^/dev/nvidia(\d+|ctl|-uvm)$`)
)

// OfGPU reports whether CUDA may open a node of this path.
func OfGPU(path string) bool { return ofGPU.MatchString(path) }

// Arrange orders nodes as cuInit opens them, and adds the shared ones that are missing
// beside a discrete GPU's.
func Arrange(nodes []Node) []Node {
	out := slices.Clone(nodes)
	if slices.ContainsFunc(out, func(n Node) bool { return discrete.MatchString(n.Path) }) {
		for _, p := range shared {
			if !slices.ContainsFunc(out, func(n Node) bool { return n.Path == p }) {
				out = append(out, Node{Path: p, Open: Missing})
			}
		}
	}
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(turn(a.Path), turn(b.Path)), strings.Compare(a.Path, b.Path))
	})
	return out
}

var shared = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}

// turn is when cuInit opens a node: the first that fails decides its code.
func turn(path string) int {
	if i := slices.Index(shared, path); i >= 0 {
		return i
	}
	return len(shared)
}

// MIGMode is what a Listing has before the UUID of a GPU in MIG mode that has no MIG
// device.
const MIGMode = "MIG mode of "

// IsFull tells a full GPU in a Listing from a MIG device and from a GPU in MIG mode.
func IsFull(id string) bool { return !strings.HasPrefix(id, "MIG") }

// Diagnose names the node that made cuInit fail, if it was one: the library itself
// gives a code that several mistakes share. An error about versions is believed.
//
// A GPU in MIG mode whose own node may be opened has no device without a capability
// node: listed are the devices that NVML knows of here. Nodes are those of Arrange.
func Diagnose(f *Failure, nodes []Node, listed []string) *Failure {
	if f.Cause == WrongVersion {
		return f
	}
	blame := func(cause Cause, path, why string) *Failure {
		out := *f
		out.Cause, out.Reason = cause, out.Reason+"; "+path+": "+why
		return &out
	}
	tegra := false
	for _, n := range nodes {
		tegra = tegra || n.Path == "/dev/nvmap" || strings.HasPrefix(n.Path, "/dev/nvgpu/") || strings.HasPrefix(n.Path, "/dev/nvhost-")
	}
	render := false
	for _, n := range nodes {
		isRender, isCap := strings.HasPrefix(n.Path, "/dev/dri/"), strings.HasPrefix(n.Path, "/dev/nvidia-caps/")
		render = render || isRender
		switch {
		case n.Open == Allowed, isCap, isRender && !tegra, tegra && discrete.MatchString(n.Path):
		case n.Open == Missing:
			return blame(NodeMissing, n.Path, "no such file")
		default:
			return blame(NodeForbid, n.Path, n.Open)
		}
	}
	switch {
	case tegra && !render:
		return blame(NodeMissing, "/dev/dri/renderD*", "no such file, and a Tegra's CUDA needs one")
	case len(listed) > 0 && !slices.ContainsFunc(listed, IsFull):
		return capability(nodes, blame)
	}
	return f
}

// capability blames the first capability node that may not be opened, or that there
// is none that fits.
func capability(nodes []Node, blame func(Cause, string, string) *Failure) *Failure {
	for _, n := range nodes {
		if strings.HasPrefix(n.Path, "/dev/nvidia-caps/") && n.Open != Allowed {
			return blame(NodeForbid, n.Path, n.Open)
		}
	}
	return blame(NodeMissing, "/dev/nvidia-caps", "the GPU is in MIG mode, and both nodes of no instance are here")
}
