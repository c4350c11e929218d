package lxd_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpurig/core/emit/lxd"
	"gpurig/core/plan"
)

// B30: whatever a plan says, the YAML is read as the plan says it, or there is
// none.
func FuzzEmitRoundTrip(f *testing.F) {
	for _, s := range [][3]string{
		{"/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", "void"}, {"/a b", `/c\d`, "x y"}, {"/\n", "/\r", "\x00"},
		{"/a\u2028", "/a\u0085", "\xff"}, {"/%", "/{}", `": #`}, {"/a", "/é", "- a: b"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, source, target, value string) {
		p := plan.Plan{
			Mounts: []plan.Mount{{Source: source, Target: target, Options: []string{"ro", "bind"}}},
			Env:    []plan.Var{{Name: "NVIDIA_X", Value: value}},
		}
		c, err := lxd.Emit(p, lxd.Options{HookPath: "/cdi-hook", HookFile: "/hook.json"})
		if err != nil {
			if len(c.Devices)+len(c.Raw) > 0 {
				t.Fatalf("a configuration along with the error %v", err)
			}
			return
		}
		var read struct {
			Config  map[string]string            `yaml:"config"`
			Devices map[string]map[string]string `yaml:"devices"`
		}
		if err := yaml.Unmarshal([]byte(c.Text()), &read); err != nil {
			t.Fatalf("%v\n%s", err, c.Text())
		}
		if len(read.Devices) != 1 {
			t.Fatalf("devices are %q", read.Devices)
		}
		for _, d := range read.Devices {
			if d["source"] != source || d["path"] != target || d["type"] != "disk" || d["readonly"] != "true" {
				t.Fatalf("device %q for %q on %q", d, source, target)
			}
		}
		if got := read.Config["raw.lxc"]; got != strings.Join(c.Raw.Lines(), "\n") || !strings.Contains("\n"+got+"\n", "\nlxc.environment = NVIDIA_X="+value+"\n") {
			t.Fatalf("raw.lxc is read as %q, written %q", got, c.Raw.Lines())
		}
	})
}
