package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	cdispecs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/passthrough"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/specs"
)

// open opens a shipped host with the Spec that NVIDIA's generator made of it.
func open(t *testing.T, name string) *passthrough.Host {
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
	return passthrough.New(root, nvmlfake.New(m, nvmlfake.Options{}), passthrough.HostOptions{Generate: func(context.Context, nvidia.Options) (*nvidia.Result, error) {
		data, err := specs.FS.ReadFile(name + ".json")
		if err != nil {
			return nil, err
		}
		var made struct{ Result struct{ Spec *cdispecs.Spec } }
		if err := json.Unmarshal(data, &made); err != nil {
			return nil, err
		}
		return &nvidia.Result{Spec: made.Result.Spec, Mode: "auto"}, nil
	}})
}

func nodes(p *plan.Plan) string {
	var out []string
	for _, n := range p.Nodes {
		out = append(out, strings.TrimPrefix(n.Path, "/dev/"))
	}
	return strings.Join(out, " ")
}

// What a container gets, by devices and capabilities. Has and lacks are the
// beginnings of names.
func TestPlan(t *testing.T) {
	const driver = "nvidia-uvm nvidia-uvm-tools nvidiactl"
	for name, tc := range map[string]struct {
		host  string
		r     Request
		nodes string
		has   string
		lacks string
	}{
		"one GPU": {"dgx-a100", Request{Devices: []string{"0"}, Capabilities: []Capability{Compute, Utility}}, "nvidia-uvm nvidia-uvm-tools nvidia0 nvidiactl",
			"libcuda.so libnvidia-ml.so nvidia-smi gsp_ socket nvidia.icd libnvidia-allocator.so", "libEGL libnvcuvid.so libnvidia-ngx nvidia-drm_gbm nvidia_icd.json"},
		"by UUID and PCI address": {"dgx-a100", Request{Devices: []string{"GPU-03A2623C-0176-8648-22c4-3cc52ef9e179", "00000000:07:00.0", "1"}}, "nvidia0 nvidia1 nvidiactl", "gsp_", "libcuda.so libnvidia-ml.so nvidia-smi"},
		"no GPU":                  {"dgx-a100", Request{Devices: []string{"none"}, Capabilities: []Capability{Compute, Utility}}, driver, "libcuda.so nvidia-smi", "libEGL"},
		"graphics": {"dgx-a100", Request{Capabilities: []Capability{Graphics}}, "nvidia-modeset nvidiactl",
			"libEGL_nvidia nvidia_icd.json libnvidia-allocator.so nvidia-drm_gbm.so", "libcuda.so nvidia-smi libnvidia-ml"},
		"video has what its libraries load":            {"dgx-a100", Request{Capabilities: []Capability{Video}}, driver, "libnvcuvid.so libcuda.so libvdpau_nvidia", "libEGL nvidia-smi"},
		"parts left out":                               {"dgx-a100", Request{Capabilities: []Capability{Utility}, Omit: []Part{Firmware, Persistenced, FabricManager, Nodes}}, "", "nvidia-smi", "gsp_ socket"},
		"a MIG device":                                 {"a100-mig-mixed", Request{Devices: []string{"0:0"}, Capabilities: []Capability{Compute}}, "nvidia-caps/nvidia-cap291 nvidia-caps/nvidia-cap292 nvidia-uvm nvidia-uvm-tools nvidia2 nvidiactl", "libcuda.so", "nvidia-smi"},
		"a system on chip has all its files and nodes": {"jetson-agx-orin", Request{Capabilities: []Capability{Utility}}, "*", "libcuda.so", ""},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := Plan(t.Context(), open(t, tc.host), tc.r, nil, nil, passthrough.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := nodes(res.Plan); got != tc.nodes && (tc.nodes != "*" || got == "") {
				t.Errorf("nodes %s\nwant  %s", got, tc.nodes)
			}
			var files []string
			for _, m := range res.Plan.Mounts {
				files = append(files, path.Base(m.Target))
			}
			for _, l := range res.Plan.Links {
				files = append(files, path.Base(l.Path))
			}
			there := func(p string) bool {
				return slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, p) })
			}
			for _, p := range strings.Fields(tc.has) {
				if !there(p) {
					t.Errorf("no %s* among %q", p, files)
				}
			}
			for _, p := range strings.Fields(tc.lacks) {
				if there(p) {
					t.Errorf("%s* is among %q", p, files)
				}
			}
			if len(res.Plan.LibraryDirs) != len(res.Plan.LibraryOwners) {
				t.Errorf("library folders %q of %q", res.Plan.LibraryDirs, res.Plan.LibraryOwners)
			}
		})
	}
}

// The nodes of an instance's own GPU devices stay, whatever else is left out.
func TestDevicesOfTheInstance(t *testing.T) {
	more := map[string]request.Options{"gpu0": {GPUType: "physical", PCI: "0000:07:00.0"}}
	res, err := Plan(t.Context(), open(t, "dgx-a100"), Request{Capabilities: []Capability{Utility}}, more, nil, passthrough.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := nodes(res.Plan); !strings.Contains(got, "nvidia0") || strings.Contains(got, "nvidia1 ") || !strings.Contains(got, "dri/card1") {
		t.Errorf("nodes %s", got)
	}
}

func TestPlanRefuses(t *testing.T) {
	for text, tc := range map[string]struct {
		r    Request
		want refuse.Reason
	}{
		`"8": unknown device`:                      {Request{Devices: []string{"0", "8"}}, ReasonDevice},
		`"GPU-e238": unknown device`:               {Request{Devices: []string{"GPU-e238"}}, ReasonDevice},
		"unsatisfied condition: cuda>=13.0":        {Request{Require: []string{"cuda>=13.0"}}, ReasonRequirement},
		"unsatisfied condition: arch>=9.0":         {Request{Devices: []string{"0"}, Require: []string{"arch>=9.0"}}, ReasonRequirement},
		`condition "memory>1" is about "memory"`:   {Request{Require: []string{"memory>1"}}, ReasonRequirement},
		"unsatisfied condition: brand=GeForce":     {Request{Devices: []string{"all"}, Require: []string{"brand=GeForce"}}, ReasonRequirement},
		"unsatisfied condition: brand=Tesla cuda<": {Request{Devices: []string{"0"}, Require: []string{"brand=Tesla cuda<12"}}, ReasonRequirement},
	} {
		brand := func(string) string { return "Unknown" }
		res, err := Plan(t.Context(), open(t, "dgx-a100"), tc.r, nil, brand, passthrough.Options{})
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), text) || res.Plan != nil {
			t.Errorf("%+v: %v, want %s, %s", tc.r, err, tc.want, text)
		}
	}
}

func TestFulfil(t *testing.T) {
	host := facts{"cuda": "12.2", "driver": "535.113.01", "arch": "8.0", "brand": "Tesla"}
	for text, want := range map[string]string{
		"": "", "cuda>=12.2": "", "cuda>12.2": "cuda>12.2", "cuda>=12": "", "cuda=12.2.0": "", "cuda!=12.2": "cuda!=12.2", "cuda<12.10": "", "driver<535.113.2": "",
		"brand=tesla": "", "brand!=Tesla": "brand!=Tesla", "arch<=8": "", "cuda>=13 driver>=535,driver<536": "", "driver>=550,driver<551": "driver>=550",
		"cuda>=13 driver>=550": "cuda>=13 driver>=550",
	} {
		if got, err := host.fulfil(text); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := (facts{}).fulfil("cuda>=99,brand=x"); got != "" || err != nil {
		t.Errorf("what is not known: %q, %v", got, err)
	}
	for _, text := range []string{"cuda", "cuda>=", "cuda==1", "cuda!1", "brand>x", "cuda>=x", "cuda>=1.", ",", "cuda>=1,", "cuda>=99999999999"} {
		if got, err := host.fulfil(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

// FuzzFulfil: a requirement is read or refused, and what is not known fulfils it.
func FuzzFulfil(f *testing.F) {
	for _, s := range []string{"cuda>=12.0 driver>=535,driver<536", "brand!=x", "=", "<>=", "arch=8.0.0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if why, err := (facts{}).fulfil(text); why != "" && err == nil {
			t.Errorf("%q is not fulfilled: %q", text, why)
		}
	})
}

func TestParseCapabilities(t *testing.T) {
	for text, want := range map[string][]Capability{"": nil, "compute,utility": {Compute, Utility}, "video video": {Video}, "all": Capabilities, "ngx,all": Capabilities} {
		if got, err := ParseCapabilities(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseCapabilities("compute,magic"); !errors.Is(err, ReasonCapability) {
		t.Errorf("magic: %v", err)
	}
}

func TestFromConfig(t *testing.T) {
	on := func(more ...string) map[string]string {
		m := map[string]string{"nvidia.runtime": "true"}
		for i := 0; i+1 < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		config map[string]string
		want   *Request
	}{
		{nil, nil},
		{map[string]string{"nvidia.runtime": "no", "nvidia.driver.capabilities": "magic"}, nil},
		{on(), &Request{Capabilities: []Capability{Compute, Utility}}},
		{on("nvidia.driver.capabilities", "video", "nvidia.require.cuda", "cuda>=1", "nvidia.require.driver", "driver>=2"),
			&Request{Capabilities: []Capability{Video}, Require: []string{"cuda>=1", "driver>=2"}}},
	} {
		got, err := FromConfig(tc.config)
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: %+v, %v", tc.config, got, err)
		}
	}
	for _, c := range []map[string]string{{"nvidia.runtime": "maybe"}, on("nvidia.driver.capabilities", "magic")} {
		if got, err := FromConfig(c); err == nil || got != nil {
			t.Errorf("%v: %+v, %v", c, got, err)
		}
	}
}
