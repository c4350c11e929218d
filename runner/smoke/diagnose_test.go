package smoke

import (
	"strings"
	"testing"
)

func TestDiagnose(t *testing.T) {
	const eperm = "operation not permitted"
	type nodes []Node
	ctl, uvm, gpu := Node{Path: "/dev/nvidiactl", Open: Allowed}, Node{Path: "/dev/nvidia-uvm", Open: Allowed}, Node{Path: "/dev/nvidia0", Open: Allowed}
	with := func(n Node, open string) Node { n.Open = open; return n }
	capability := Node{Path: "/dev/nvidia-caps/nvidia-cap12", Open: Allowed}
	nvmap, render := Node{Path: "/dev/nvmap", Open: Allowed}, Node{Path: "/dev/dri/renderD128", Open: Allowed}
	for _, tc := range []struct {
		name  string
		code  Cause
		nodes nodes
		mig   bool
		want  Cause
		says  string
	}{
		{"all open", CUDAError, nodes{ctl, uvm, gpu}, false, CUDAError, "said"},
		{"uvm forbidden", CUDAError, nodes{ctl, with(uvm, eperm), gpu}, false, NodeForbid, "said; /dev/nvidia-uvm: " + eperm},
		{"the GPU forbidden", NoDevice, nodes{ctl, uvm, with(gpu, eperm)}, false, NodeForbid, "/dev/nvidia0: " + eperm},
		{"all forbidden: the first that is opened", NoDevice, nodes{with(ctl, eperm), with(uvm, eperm), with(gpu, eperm)}, false, NodeForbid, "/dev/nvidiactl"},
		{"uvm missing", CUDAError, nodes{ctl, with(uvm, Missing), gpu}, false, NodeMissing, "/dev/nvidia-uvm"},
		{"no nodes", NoDevice, nil, false, NoDevice, "said"},
		{"versions, whatever the nodes are", WrongVersion, nodes{with(ctl, eperm)}, false, WrongVersion, "said"},
		{"a render node of a discrete GPU does not matter", CUDAError, nodes{ctl, uvm, gpu, with(render, eperm)}, false, CUDAError, "said"},
		{"MIG, its capability forbidden", NoDevice, nodes{ctl, uvm, gpu, with(capability, eperm)}, true, NodeForbid, "nvidia-cap12: " + eperm},
		{"MIG, no capability", NoDevice, nodes{ctl, uvm, gpu}, true, NodeMissing, "/dev/nvidia-caps"},
		{"MIG, and uvm missing", CUDAError, nodes{ctl, with(uvm, Missing), gpu}, true, NodeMissing, "/dev/nvidia-uvm"},
		{"a Tegra without render nodes", CUDAError, nodes{nvmap}, false, NodeMissing, "renderD"},
		{"a Tegra whose render node is forbidden", CUDAError, nodes{nvmap, with(render, eperm)}, false, NodeForbid, "renderD128"},
		{"a Tegra's display nodes do not matter", CUDAError, nodes{with(ctl, eperm), nvmap, render}, false, CUDAError, "said"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			listed := []string{"GPU-0"}
			if tc.mig {
				listed = []string{MIGMode + "GPU-0"}
			}
			got := Diagnose(&Failure{Cause: tc.code, Reason: "said"}, tc.nodes, listed)
			if got.Cause != tc.want || !strings.Contains(got.Reason, tc.says) {
				t.Errorf("%+v; want %s, %q", *got, tc.want, tc.says)
			}
		})
	}
}
