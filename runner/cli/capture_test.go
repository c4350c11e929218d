package cli

import (
	"testing"

	"gpurig/core/device"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// Starting NVML on a machine that lacks a node would make the node (bug
// modules-loaded-no-nodes): a machine in that state is recorded as it is.
func TestNVMLIsNotAskedWhereItWouldMakeNodes(t *testing.T) {
	for _, tc := range []struct {
		name, host, want string
		change           func(*tree.Tree) error
	}{
		{name: "all nodes are there", host: "dgx-a100"},
		{name: "no driver", host: "no-driver"},
		{name: "no control node", host: "dgx-a100", want: "/dev/nvidiactl", change: func(f *tree.Tree) error { return f.Remove("/dev/nvidiactl") }},
		{name: "one GPU without node", host: "dgx-a100", want: "/dev/nvidia5", change: func(f *tree.Tree) error { return f.Remove("/dev/nvidia5") }},
		{name: "a node of nothing", host: "t4-server", change: func(f *tree.Tree) error {
			return f.Mknod(device.Node{Path: "/dev/nvidia9", Type: device.Char, Num: device.Num{Major: 195, Minor: 9}})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := profiles.Load(tc.host)
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.Model()
			if err != nil {
				t.Fatal(err)
			}
			fake, err := fakehw.Build(m)
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				if err := tc.change(fake); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := nodeThatNVMLWouldMake(fake); err != nil || got != tc.want {
				t.Errorf("nodeThatNVMLWouldMake() = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
