package passthrough

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// files are the files of a shipped host, and its library.
func files(t testing.TB, name string) (*tree.Tree, nvml.Interface) {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	root, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	return root, nvmlfake.New(m, nvmlfake.Options{})
}

// open opens a shipped host whose generator makes a Spec of one device in every
// mode, named after it, except those that refuse.
func open(t *testing.T, name string, calls *[]string, refusing map[string]refuse.Reason) *Host {
	t.Helper()
	root, lib := files(t, name)
	return New(root, lib, HostOptions{Generate: func(_ context.Context, o nvidia.Options) (*nvidia.Result, error) {
		*calls = append(*calls, o.Mode)
		if r := refusing[o.Mode]; r != "" {
			return nil, refuse.New(r, "", "%s refused", o.Mode)
		}
		withheld := map[string]*refuse.Error{"1": refuse.New("gone", "", "gone")}
		return &nvidia.Result{Spec: &specs.Spec{Kind: "nvidia.com/" + o.Mode, Devices: []specs.Device{{Name: "0"}}}, Mode: o.Mode, Withheld: withheld}, nil
	}})
}

func selection(t *testing.T, name string, integrated bool) request.Selection {
	t.Helper()
	n, err := cdi.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return request.Selection{Names: []cdi.Name{n}, Integrated: integrated}
}

// Each kind has a mode of its own, and the GPU of a system on chip the mode that
// knows it (bug thor-node-filter).
func TestGatherMakesTheKindsThatAreAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		asked []request.Selection
		want  string
	}{
		{"a GPU and a MIG device have one Spec", []request.Selection{selection(t, "nvidia.com/gpu=0", false), selection(t, "nvidia.com/mig=0:1", false)}, "auto"},
		{"an integrated GPU", []request.Selection{selection(t, "nvidia.com/igpu=0", true)}, "csv"},
		{"an integrated GPU beside a card", []request.Selection{selection(t, "nvidia.com/gpu=1", false), selection(t, "nvidia.com/gpu=0", true)}, "csv"},
		{"a channel", []request.Selection{selection(t, "nvidia.com/imex-channel=0", false)}, "imex"},
		{"switches", []request.Selection{selection(t, "nvidia.com/nvswitch=all", false)}, "nvswitch"},
		{"management", []request.Selection{selection(t, "management.nvidia.com/gpu=all", false)}, "management"},
		{"rights", []request.Selection{selection(t, "nvidia.com/mig-caps=config", false)}, "mig-caps"},
		{"direct storage and copies", []request.Selection{selection(t, "nvidia.com/gds=all", false), selection(t, "nvidia.com/gdrcopy=all", false), selection(t, "nvidia.com/mofed=all", false)}, "gds gdrcopy mofed"},
		{"another vendor's", []request.Selection{selection(t, "vendor.com/dev=a", false)}, ""},
		{"no device by name", []request.Selection{{GPUs: []int{0}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls []string
			sources, _, err := open(t, "t4-server", &calls, nil).gather(t.Context(), tc.asked)
			if err != nil || strings.Join(calls, " ") != tc.want || len(sources) != len(calls) {
				t.Errorf("modes %q, %d sources, %v; want %q", calls, len(sources), err, tc.want)
			}
			for _, s := range sources {
				if s.Where != cdi.Generated || s.Withheld["1"] == nil {
					t.Errorf("source %+v lost what is withheld", s)
				}
			}
		})
	}
}

func TestGatherWarnsWhereASpecOnDiskStandsIn(t *testing.T) {
	var calls []string
	h := open(t, "t4-server", &calls, map[string]refuse.Reason{"auto": "broken"})
	gpu := []request.Selection{selection(t, "nvidia.com/gpu=0", false)}
	if _, _, err := h.gather(t.Context(), gpu); !errors.Is(err, refuse.Reason("broken")) {
		t.Errorf("gather = %v", err)
	}
	root, lib := files(t, "t4-server")
	const spec = "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices: [{name: \"0\", containerEdits: {env: [A=B]}}]\n"
	if err := root.WriteFile("/etc/cdi/n.yaml", []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	h = New(root, lib, h.opts)
	sources, warnings, err := h.gather(t.Context(), gpu)
	if err != nil || len(sources) != 1 || len(warnings) != 1 || warnings[0].Reason != "broken" {
		t.Errorf("gather = %v, %v, %v", sources, warnings, err)
	}
}

func TestSpecsNeedsTheGPUsAndNothingElse(t *testing.T) {
	var calls []string
	sources, warnings, err := open(t, "t4-server", &calls, map[string]refuse.Reason{"gds": nvidia.ReasonNoDevices, "mofed": "broken"}).Specs(t.Context())
	said := slices.ContainsFunc(warnings, func(w Warning) bool { return strings.Contains(w.Text, "nvidia.com/mofed: mofed refused") })
	if err != nil || !said || calls[0] != "auto" || len(calls) != 8 || len(sources) != 6 {
		t.Errorf("Specs: modes %q, %d sources, warnings %v, %v", calls, len(sources), warnings, err)
	}
	if _, _, err := open(t, "t4-server", &calls, map[string]refuse.Reason{"auto": "broken"}).Specs(t.Context()); !errors.Is(err, refuse.Reason("broken")) {
		t.Errorf("Specs without its GPUs = %v", err)
	}
	calls = nil
	if sources, _, err := open(t, "no-gpu", &calls, nil).Specs(t.Context()); err != nil || len(sources)+len(calls) > 0 {
		t.Errorf("Specs without a driver: modes %q, %v", calls, err)
	}
}
