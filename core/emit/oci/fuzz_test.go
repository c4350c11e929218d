package oci_test

import (
	"encoding/json"
	"slices"
	"testing"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/emit/oci"
	"gpurig/core/plan"
)

// B30: whatever a plan says, config.json is read as the plan says it, or there
// are no edits.
func FuzzEmitRoundTrip(f *testing.F) {
	for _, s := range [][3]string{
		{"/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", "void"}, {"/a b", `/c\d`, "x y"}, {"/\n", "/\r", "\x00"},
		{"/a\u2028", "/a\u0085", "\xff"}, {"//", "/..", "a\\"}, {"/x", "/dev/../etc", "=,"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, source, target, value string) {
		p := plan.Plan{
			Mounts: []plan.Mount{{Source: source, Target: target, Options: []string{"ro", "nosuid", "nodev", "bind"}}},
			Env:    []plan.Var{{Name: "NVIDIA_X", Value: value}},
		}
		e, err := oci.Emit(p, oci.Options{HookPath: "/cdi-hook", HookFile: "/hook.json"})
		if err != nil {
			if len(e.Mounts)+len(e.Env) > 0 || e.Hooks != nil {
				t.Fatalf("edits along with the error %v", err)
			}
			return
		}
		var spec, again rspec.Spec
		e.Apply(&spec)
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		m := again.Mounts
		if len(m) != 1 || m[0].Source != source || m[0].Destination != target || m[0].Type != "bind" || !slices.Equal(m[0].Options, p.Mounts[0].Options) {
			t.Fatalf("mounts %+v for %q on %q", m, source, target)
		}
		if env := again.Process.Env; len(env) != 1 || env[0] != "NVIDIA_X="+value {
			t.Fatalf("environment %q for %q", env, value)
		}
	})
}
