package scenarios_test

import (
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/profiles"
	"gpurig/scenarios"
)

func model(t *testing.T, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const head = "# A scenario that any host can have.\nhost: t4-server\n"

func TestBindFillsInWhatTheHostHas(t *testing.T) {
	for _, tc := range []struct {
		name, host, needs, text string // text is one expectation
		want                    string // of the text; empty: skipped
		why                     string
	}{
		{name: "GPU", host: "t4-server", needs: `{gpus: ">=2"}`, text: "<first>/<second.minor>/<first.pci>", want: "0/1/0000:3b:00.0"},
		{name: "minor is not the index", host: "a100-mig-mixed", needs: `{gpus: 4}`, text: "<first>:<first.minor>", want: "1:3"},
		{name: "MIG device", host: "a100-mig-2g-3g", needs: `{mig: true}`, text: "<mig> <mig2> <mig.gi>", want: "0:0 0:1 3"},
		{name: "driver", host: "t4-server", needs: `{vendor: nvidia}`, text: "<driver>", want: "535.113.01"},
		{name: "no second full GPU", host: "a100-mig-mixed", needs: `{gpus: ">=1"}`, text: "<second>", why: "nothing for <second>"},
		{name: "too few", host: "t4-server", needs: `{gpus: ">=3"}`, text: "x", why: "needs >=3 GPUs, and the host has 2"},
		{name: "too many", host: "dgx-a100", needs: `{gpus: "<=2", vendor: nvidia}`, text: "x", why: "needs <=2 GPUs of nvidia, and the host has 8"},
		{name: "another vendor", host: "amd-mi300x", needs: `{vendor: nvidia}`, text: "x", why: "a GPU of nvidia"},
		{name: "no MIG device", host: "a100-mig-empty", needs: `{mig: true}`, text: "x", why: "needs a MIG device"},
		{name: "no IOMMU", host: "t4-server", needs: `{vfio: true}`, text: "x", why: "needs a GPU in an IOMMU group"},
		{name: "no vfio-pci", host: "workstation-intel", needs: `{vfio: true}`, text: "x", why: "needs vfio-pci"},
		{name: "no driver", host: "no-driver", needs: `{vendor: nvidia}`, text: "x", why: "driver, and it is not loaded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := scenarios.Parse("s", "s.yaml", []byte(head+"needs: "+tc.needs+
				"\ncontainers: {c1: {devices: {gpu0: {id: a/b=<first>}}}}\nexpect: {c1: {env: {X: "+tc.text+"}}}\n"), scenarios.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Containers = nil // the text alone is judged
			bound, why := scenarios.Bind(s, model(t, tc.host))
			if got := bound.Expect["c1"].Env["X"]; why == "" && got != tc.want {
				t.Errorf("%q; want %q", got, tc.want)
			}
			if (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("why %q; want %q", why, tc.why)
			}
			if got := s.Expect["c1"].Env["X"]; got != tc.text {
				t.Errorf("the scenario itself was changed: %q", got)
			}
		})
	}
}

// Keys of maps and texts of plugs are bound as well, and nothing is where no needs are.
func TestBindReachesKeysAndSteps(t *testing.T) {
	text := head + `needs: {gpus: ">=2"}
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=<first>}}}}
steps:
  - start: c1
  - plug: {container: c1, name: gpu1, device: {pci: <second.pci>}}
expect: {c1: {nodes: {/dev/nvidia<second.minor>: {number: "195:<second.minor>"}}, library: {libcuda.so.1: <driver>}}}
`
	s, err := scenarios.Parse("s", "s.yaml", []byte(text), scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, why := scenarios.Bind(s, model(t, "t4-server"))
	if why != "" {
		t.Fatal(why)
	}
	if got := b.Expect["c1"].Nodes["/dev/nvidia1"].Number; got != "195:1" {
		t.Errorf("node %q in %v; want 195:1", got, b.Expect["c1"].Nodes)
	}
	if got := b.Containers["c1"].Devices["gpu0"].ID; got != "nvidia.com/gpu=0" {
		t.Errorf("id %q", got)
	}
	if got := b.Steps[1].Plug.Device.PCI; got != "0000:af:00.0" {
		t.Errorf("pci %q", got)
	}
	if got := s.Steps[1].Plug.Device.PCI; got != "<second.pci>" {
		t.Errorf("the scenario itself was changed: %q", got)
	}
	s.Steps = nil
	s.Expect = map[string]scenarios.Expect{"c1": {Library: s.Expect["c1"].Library}}
	for name, want := range map[string]string{"t4-server": "535.113.01", "jetson-orin-nano": "host"} {
		s.Needs = &scenarios.Needs{}
		if b, why := scenarios.Bind(s, model(t, name)); b.Expect["c1"].Library["libcuda.so.1"] != want {
			t.Errorf("%s: %q, %v; want %s", name, why, b.Expect["c1"].Library, want)
		}
	}
	s.Needs = nil
	if b, _ := scenarios.Bind(s, model(t, "t4-server")); b.Containers["c1"].Devices["gpu0"].ID != "nvidia.com/gpu=<first>" {
		t.Error("a scenario without needs was bound")
	}
}

func TestPlaceholdersAndNeedsAreChecked(t *testing.T) {
	for _, tc := range []struct{ name, needs, id, why string }{
		{"unknown word", `needs: {gpus: 1}`, "a/b=<frist>", `unknown placeholder "<frist>"`},
		{"unknown fact", `needs: {gpus: 1}`, "a/b=<first.colour>", `unknown placeholder "<first.colour>"`},
		{"without needs", ``, "a/b=<first>", "placeholder <first> in a scenario without needs"},
		{"number", `needs: {gpus: ">2"}`, "a/b=0", `">2": want a number of GPUs`},
		{"vendor", `needs: {vendor: matrox}`, "a/b=0", `unknown vendor "matrox"`},
		{"nothing", `needs: {mig: false}`, "a/b=0", "needs nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := scenarios.Parse("s", "s.yaml", []byte(head+tc.needs+"\ncontainers: {c1: {devices: {gpu0: {id: "+tc.id+"}}}}\nexpect: {c1: {running: true}}\n"), scenarios.Options{})
			if err == nil || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%v; want %q", err, tc.why)
			}
		})
	}
}
