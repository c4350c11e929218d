package pve_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/emit/pve"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/fixtures/golden"
)

func options() pve.Options {
	return pve.Options{HookPath: "/usr/libexec/cdi-hook", HookFile: "/var/lib/lxc/100/cdi-hook.json", Container: "100"}
}

func TestGoldenLines(t *testing.T) {
	for _, tc := range []struct {
		name, plan string
		idmap      []plan.IDMap
	}{
		{"one-gpu", "one-gpu", nil},
		{"one-gpu-idmapped", "one-gpu-idmapped", []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data, err := os.ReadFile("../../translate/testdata/plan/" + tc.plan + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var p plan.Plan
			if err := json.Unmarshal(data, &p); err != nil {
				t.Fatal(err)
			}
			o := options()
			o.IDMap = tc.idmap
			c, err := pve.Emit(p, o)
			if err != nil {
				t.Fatal(err)
			}
			text := c.Text()
			for _, n := range c.Notes {
				text += "# " + n.Reason + "\n"
			}
			golden.Equal(t, "testdata/"+tc.name+".conf", []byte(text))
		})
	}
}

func TestNodesThatAreNoDevices(t *testing.T) {
	good := plan.Node{Path: "/dev/nvidia0", Source: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666, Permissions: "rw"}
	if c, err := pve.Emit(plan.Plan{Nodes: []plan.Node{good}}, options()); err != nil || c.Lines()[0] != "dev0: /dev/nvidia0,mode=0666,uid=0,gid=0" {
		t.Fatalf("Emit(a node) = %q, %v", c.Lines(), err)
	}
	for _, tc := range []struct {
		name   string
		change func(*plan.Node)
		says   string
	}{
		{"another path on the host", func(n *plan.Node) { n.Source = "/dev/other" }, "same path"},
		{"a comma in its name", func(n *plan.Node) { n.Path, n.Source = "/dev/a,uid=0", "/dev/a,uid=0" }, "commas"},
		{"a line break in its name", func(n *plan.Node) { n.Path, n.Source = "/dev/a\nx", "/dev/a\nx" }, "blanks"},
		{"no permission", func(n *plan.Node) { n.Permissions = "" }, "may not be read"},
		{"no number", func(n *plan.Node) { n.Num = device.Num{} }, "number"},
		{"not below /dev", func(n *plan.Node) { n.Path, n.Source = "/etc/x", "/etc/x" }, "below /dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := good
			tc.change(&n)
			c, err := pve.Emit(plan.Plan{Nodes: []plan.Node{n}}, options())
			if list := refuse.As(err); len(list) != 1 || list[0].Reason != pve.ReasonNode || !strings.Contains(err.Error(), tc.says) || len(c.Lines()) > 0 {
				t.Errorf("Emit() = %q, %v; want %s with %q", c.Lines(), err, pve.ReasonNode, tc.says)
			}
		})
	}
}
