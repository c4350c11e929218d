package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/fakehw/tree"
	"gpurig/runner"
	"gpurig/runner/verdict"
)

func wish(t *testing.T, name string, integrated bool) request.Selection {
	t.Helper()
	n, err := cdi.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return request.Selection{Names: []cdi.Name{n}, Integrated: integrated}
}

// maker makes a Spec of one device in every mode, named after it, except those
// that refuse.
func maker(calls *[]string, refusing map[string]refuse.Reason) runner.SpecMaker {
	return runner.SpecMaker{
		Model: host.Model{Driver: &host.Driver{}},
		Root:  func() (host.Root, error) { return tree.New(), nil },
		NVIDIA: func(_ context.Context, mode string) (*nvidia.Result, error) {
			*calls = append(*calls, mode)
			if r := refusing[mode]; r != "" {
				return nil, refuse.New(r, "", "%s refused", mode)
			}
			withheld := map[string]*refuse.Error{"1": refuse.New("gone", "", "gone")}
			return &nvidia.Result{Spec: &specs.Spec{Kind: "nvidia.com/" + mode, Devices: []specs.Device{{Name: "0"}}}, Mode: mode, Withheld: withheld}, nil
		},
	}
}

// Each kind has a mode of its own, and the GPU of a system on chip the mode that
// knows it (bug thor-node-filter).
func TestGatherMakesTheKindsThatAreAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		asked []request.Selection
		want  string
	}{
		{"a GPU and a MIG device have one Spec", []request.Selection{wish(t, "nvidia.com/gpu=0", false), wish(t, "nvidia.com/mig=0:1", false)}, "auto"},
		{"an integrated GPU", []request.Selection{wish(t, "nvidia.com/igpu=0", true)}, "csv"},
		{"an integrated GPU beside a card", []request.Selection{wish(t, "nvidia.com/gpu=1", false), wish(t, "nvidia.com/gpu=0", true)}, "csv"},
		{"a channel", []request.Selection{wish(t, "nvidia.com/imex-channel=0", false)}, "imex"},
		{"switches", []request.Selection{wish(t, "nvidia.com/nvswitch=all", false)}, "nvswitch"},
		{"management", []request.Selection{wish(t, "management.nvidia.com/gpu=all", false)}, "management"},
		{"rights", []request.Selection{wish(t, "nvidia.com/mig-caps=config", false)}, "mig-caps"},
		{"direct storage and copies", []request.Selection{wish(t, "nvidia.com/gds=all", false), wish(t, "nvidia.com/gdrcopy=all", false), wish(t, "nvidia.com/mofed=all", false)}, "gds gdrcopy mofed"},
		{"another vendor's", []request.Selection{wish(t, "vendor.com/dev=a", false)}, ""},
		{"no device by name", []request.Selection{{GPUs: []int{0}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls []string
			sources, _, err := maker(&calls, nil).Gather(t.Context(), tc.asked)
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
	m := maker(&calls, map[string]refuse.Reason{"auto": "broken"})
	gpu := []request.Selection{wish(t, "nvidia.com/gpu=0", false)}
	if _, _, err := m.Gather(t.Context(), gpu); !errors.Is(err, refuse.Reason("broken")) {
		t.Errorf("Gather = %v", err)
	}
	m.OnDisk = []cdi.Source{{Spec: &specs.Spec{Kind: "nvidia.com/gpu"}, Where: "/etc/cdi/n.yaml"}}
	sources, warnings, err := m.Gather(t.Context(), gpu)
	if err != nil || len(sources) != 1 || len(warnings) != 1 || warnings[0].Reason != "broken" {
		t.Errorf("Gather = %v, %v, %v", sources, warnings, err)
	}
}

func TestAllNeedsTheGPUsAndNothingElse(t *testing.T) {
	var calls []string
	sources, warnings, err := maker(&calls, map[string]refuse.Reason{"gds": nvidia.ReasonNoDevices, "mofed": "broken"}).All(t.Context())
	said := slices.ContainsFunc(warnings, func(w verdict.Warning) bool { return strings.Contains(w.Text, "nvidia.com/mofed: mofed refused") })
	if err != nil || !said || calls[0] != "auto" || len(calls) != 8 || len(sources) != 6 {
		t.Errorf("All: modes %q, %d sources, warnings %v, %v", calls, len(sources), warnings, err)
	}
	if _, _, err := maker(&calls, map[string]refuse.Reason{"auto": "broken"}).All(t.Context()); !errors.Is(err, refuse.Reason("broken")) {
		t.Errorf("All without its GPUs = %v", err)
	}
	calls = nil
	m := maker(&calls, nil)
	m.Model = host.Model{}
	if sources, _, err := m.All(t.Context()); err != nil || len(sources)+len(calls) > 0 {
		t.Errorf("All without a driver: modes %q, %v", calls, err)
	}
}
