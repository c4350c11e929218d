package translate_test

import (
	"encoding/json"
	"path"
	"testing"

	cdispecs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/emit/lxc"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
	"gpurig/fixtures/specs"
)

// shipped returns the Spec of a profile as NVIDIA's generator made it, and the
// host; nil where the profile has none.
func shipped(t testing.TB, name string) (*cdispecs.Spec, *tree.Tree, host.Model) {
	t.Helper()
	data, err := specs.FS.ReadFile(name + ".json")
	if err != nil {
		return nil, nil, host.Model{}
	}
	var stored struct {
		Result struct{ Spec *cdispecs.Spec }
	}
	must(t, json.Unmarshal(data, &stored))
	p, err := profiles.Load(name)
	must(t, err)
	m, err := p.Model()
	must(t, err)
	h, err := fakehw.Build(m)
	must(t, err)
	return stored.Result.Spec, h, m
}

func editsFor(spec *cdispecs.Spec, devices ...int) []cdi.Edits {
	out := []cdi.Edits{{Kind: spec.Kind, Edits: &spec.ContainerEdits}}
	for _, i := range devices {
		d := &spec.Devices[i]
		out = append(out, cdi.Edits{Device: spec.Kind + "=" + d.Name, Kind: spec.Kind, Edits: &d.ContainerEdits})
	}
	return out
}

// Every device of every shipped host becomes a plan, privileged and idmapped,
// that liblxc and the hook take; each mount's source is there, no target is
// there twice, and each link has somewhere to lead.
func TestEveryShippedSpecIsTranslated(t *testing.T) {
	idmap := []plan.IDMap{{Host: 100000, Count: 65536}}
	translated := 0
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			spec, h, m := shipped(t, name)
			if spec == nil {
				t.Skipf("host %s has no Spec of NVIDIA's generator", name)
			}
			opts := translate.Options{}
			if m.Userspace != nil {
				opts.DriverRoot = m.Userspace.DriverRoot
			}
			for i := range spec.Devices {
				for _, opts.IDMap = range [][]plan.IDMap{nil, idmap} {
					p := mustEdits(t, h, opts, editsFor(spec, i)...)
					checkWhole(t, h, p)
					if _, err := lxc.Emit(p, lxc.Options{IDMap: opts.IDMap, HookPath: "/cdi-hook", HookFile: "/hook.json", NodesDir: "/nodes"}); err != nil {
						t.Errorf("device %s: %v", spec.Devices[i].Name, err)
					}
				}
			}
			var all []int
			for i := range spec.Devices {
				all = append(all, i)
			}
			opts.IDMap = nil
			checkWhole(t, h, mustEdits(t, h, opts, editsFor(spec, all...)...)) // what they share is equal
			translated += len(spec.Devices)
		})
	}
	if translated == 0 {
		t.Error("no shipped Spec was translated")
	}
}

func checkWhole(t *testing.T, h *tree.Tree, p plan.Plan) {
	t.Helper()
	there := map[string]bool{}
	for _, m := range p.Mounts {
		if _, err := h.Lstat(m.Source); err != nil || there[m.Target] {
			t.Errorf("mount %+v: %v, there twice: %v", m, err, there[m.Target])
		}
		there[m.Target] = true
	}
	for _, n := range p.Nodes {
		there[n.Path] = true
	}
	for _, l := range p.Links {
		there[l.Path] = true
	}
	for _, l := range p.Links {
		if to := path.Join(path.Dir(l.Path), l.Target); !there[to] && !hasBelow(there, to) {
			t.Errorf("link %s leads to %s, which is not in the plan", l.Path, to)
		}
	}
}

func hasBelow(there map[string]bool, dir string) bool {
	for p := range there {
		if len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/' {
			return true
		}
	}
	return false
}

func BenchmarkEdits(b *testing.B) {
	for _, name := range []string{"t4-server", "dgx-h100", "jetson-agx-orin"} {
		b.Run(name, func(b *testing.B) {
			spec, h, _ := shipped(b, name)
			edits := editsFor(spec, len(spec.Devices)-1) // "all", or the last
			b.ReportAllocs()
			for b.Loop() {
				if _, err := translate.Edits(h, edits, translate.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
