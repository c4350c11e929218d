package workload

import (
	"strings"

	"gpurig/runner/smoke"
)

// diagnose names the node that made cuInit fail, if it was one: the library itself
// gives a code that several mistakes share. An error about versions is believed.
//
// A GPU in MIG mode whose own node may be opened has no device without a capability
// node: mig says that NVML knows of no other GPU here.
func diagnose(f *smoke.Failure, nodes []smoke.Node, mig bool) *smoke.Failure {
	if f.Cause == smoke.WrongVersion {
		return f
	}
	blame := func(cause smoke.Cause, path, why string) *smoke.Failure {
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
		case n.Open == allowed, isCap, isRender && !tegra, tegra && discrete(n):
		case n.Open == missing:
			return blame(smoke.NodeMissing, n.Path, "no such file")
		default:
			return blame(smoke.NodeForbid, n.Path, n.Open)
		}
	}
	switch {
	case tegra && !render:
		return blame(smoke.NodeMissing, "/dev/dri/renderD*", "no such file, and a Tegra's CUDA needs one")
	case mig:
		return capability(nodes, blame)
	}
	return f
}

// capability blames the first capability node that may not be opened, or that there
// is none that fits.
func capability(nodes []smoke.Node, blame func(smoke.Cause, string, string) *smoke.Failure) *smoke.Failure {
	for _, n := range nodes {
		if strings.HasPrefix(n.Path, "/dev/nvidia-caps/") && n.Open != allowed {
			return blame(smoke.NodeForbid, n.Path, n.Open)
		}
	}
	return blame(smoke.NodeMissing, "/dev/nvidia-caps", "the GPU is in MIG mode, and both nodes of no instance are here")
}
