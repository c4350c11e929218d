package pve_test

import (
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/emit/pve"
	"gpurig/core/plan"
)

// B30: whatever a plan says, each line is read as "key: value" with what the plan
// says, or there are none. Proxmox reads devN as a path and options between
// commas.
func FuzzEmitRoundTrip(f *testing.F) {
	for _, s := range [][2]string{{"/dev/nvidia0", "void"}, {"/dev/a,uid=0", "x y"}, {"/dev/a\nx", "\x00"}, {"/dev/a: b", "a: b"}, {"/dev/é", "#"}} {
		f.Add(s[0], s[1], uint32(195))
	}
	f.Fuzz(func(t *testing.T, path, value string, major uint32) {
		p := plan.Plan{
			Nodes: []plan.Node{{Path: path, Source: path, Type: device.Char, Num: device.Num{Major: major}, Permissions: "rw", UID: 7, Mode: 0o777}},
			Env:   []plan.Var{{Name: "NVIDIA_X", Value: value}},
		}
		c, err := pve.Emit(p, options())
		if err != nil {
			if len(c.Lines()) > 0 {
				t.Fatalf("lines along with the error %v", err)
			}
			return
		}
		lines := strings.Split(strings.TrimSuffix(c.Text(), "\n"), "\n")
		if len(lines) != 2 {
			t.Fatalf("lines are %q", lines)
		}
		key, rest, _ := strings.Cut(lines[0], ": ")
		fields := strings.Split(rest, ",")
		if key != "dev0" || len(fields) != 4 || fields[0] != path || fields[1] != "mode=0777" || fields[2] != "uid=7" || fields[3] != "gid=0" {
			t.Fatalf("line %q for %q", lines[0], path)
		}
		if lines[1] != "lxc.environment: NVIDIA_X="+value {
			t.Fatalf("line %q for %q", lines[1], value)
		}
	})
}
