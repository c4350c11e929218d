package cdi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

func names(t *testing.T, list string) []cdi.Name {
	t.Helper()
	var out []cdi.Name
	for _, s := range strings.Fields(list) {
		n, err := cdi.ParseName(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func source(t *testing.T, where string, prio int, text string) cdi.Source {
	t.Helper()
	spec, err := cdi.Parse([]byte(text), where)
	if err != nil {
		t.Fatal(err)
	}
	return cdi.Source{Spec: spec, Where: where, Priority: prio}
}

// migSpec is a generated Spec with GPU 0 divided in two and an undivided GPU 1.
func migSpec() string {
	s := "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
	dev := func(nodes string, names ...string) {
		for _, n := range names {
			s += fmt.Sprintf("- name: %q\n  containerEdits: {deviceNodes: [%s]}\n", n, nodes)
		}
	}
	dev("{path: /dev/nvidia0}, {path: /dev/nvidia-caps/nvidia-cap21}", "0:0", "mig0:0", "MIG-"+migUUID)
	dev("{path: /dev/nvidia0}, {path: /dev/nvidia-caps/nvidia-cap30}", "0:1")
	dev("{path: /dev/nvidia1}", "1", "gpu1", "GPU-"+gpuUUID)
	dev("{path: /dev/nvidia0}, {path: /dev/nvidia1}", "all")
	return s + "containerEdits: {env: [A=1]}\n"
}

func orinSpec() string {
	return "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits: {deviceNodes: [{path: /dev/nvmap}]}\n- name: all\n  containerEdits: {deviceNodes: [{path: /dev/nvmap}]}\n"
}

func TestResolve(t *testing.T) {
	generated := cdi.FromHost(source(t, "gen.yaml", 0, migSpec()).Spec)
	orin := cdi.FromHost(source(t, "gen.yaml", 0, orinSpec()).Spec)
	cap99 := refuse.New("a-reason", "nvidia.com/gpu=0:7", "/dev/nvidia-caps/nvidia-cap99 is not there")
	partly := cdi.FromHost(source(t, "gen.yaml", 0, strings.Replace(migSpec(), `"all"`, `"most"`, 1)).Spec)
	partly.Withheld = map[string]*refuse.Error{"0:7": cap99, "all": cap99}
	low := source(t, "/etc/cdi/n.yaml", 0, specOf("nvidia.com/gpu", "x"))
	low.Withheld = map[string]*refuse.Error{"1": cap99}
	etc := source(t, "/etc/cdi/v.yaml", 0, specOf("vendor.com/dev", "a", "b"))
	etc2 := source(t, "/etc/cdi/w.yaml", 0, specOf("vendor.com/dev", "b"))
	run := source(t, "/var/run/cdi/v.yaml", 1, specOf("vendor.com/dev", "a"))
	onDisk := source(t, "/etc/cdi/n.yaml", 0, specOf("nvidia.com/mig", "0:1"))
	empty := cdi.Source{Spec: &specs.Spec{Kind: "nvidia.com/gpu", Devices: []specs.Device{{Name: "all"}}}, Where: "generated"}
	for _, tc := range []struct {
		name    string
		sources []cdi.Source
		ask     string
		want    string        // devices of the edits in order, "*" for Spec-wide, with @file where not generated
		reason  refuse.Reason // or: refused, all with this reason
		says    string        // in message or hint
	}{
		{name: "by index", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=1", want: "* nvidia.com/gpu=1"},
		{name: "by type and index", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=gpu1", want: "* nvidia.com/gpu=gpu1"},
		{name: "by UUID in upper case", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=GPU-" + strings.ToUpper(gpuUUID), want: "* nvidia.com/gpu=GPU-" + gpuUUID},
		{name: "by bare UUID", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=" + gpuUUID, want: "* nvidia.com/gpu=GPU-" + gpuUUID},
		{name: "MIG by indexes", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=0:1", want: "* nvidia.com/gpu=0:1"},
		{name: "MIG by type and indexes", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=mig0:1", want: "* nvidia.com/gpu=0:1"},
		{name: "MIG by UUID", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=MIG-" + migUUID, want: "* nvidia.com/gpu=MIG-" + migUUID},
		{name: "all (all-and-duplicates)", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=all", want: "* nvidia.com/gpu=all"},
		{name: "integrated", sources: []cdi.Source{orin}, ask: "nvidia.com/igpu=0", want: "* nvidia.com/gpu=0"},
		{name: "integrated, all", sources: []cdi.Source{orin}, ask: "nvidia.com/igpu=all", want: "* nvidia.com/gpu=0"},
		{name: "two of one Spec: the Spec's edits once", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=0:0 nvidia.com/gpu=1", want: "* nvidia.com/gpu=0:0 nvidia.com/gpu=1"},
		{name: "two Specs", sources: []cdi.Source{etc, generated}, ask: "vendor.com/dev=b nvidia.com/gpu=1", want: "*@/etc/cdi/v.yaml vendor.com/dev=b@/etc/cdi/v.yaml * nvidia.com/gpu=1"},
		{name: "B20 higher priority wins", sources: []cdi.Source{etc, run}, ask: "vendor.com/dev=a", want: "*@/var/run/cdi/v.yaml vendor.com/dev=a@/var/run/cdi/v.yaml"},
		{name: "a kind written out is taken as it is written", sources: []cdi.Source{onDisk, generated}, ask: "nvidia.com/mig=0:1", want: "*@/etc/cdi/n.yaml nvidia.com/mig=0:1@/etc/cdi/n.yaml"},
		{name: "B48 twice the same", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=1 nvidia.com/gpu=1", want: "* nvidia.com/gpu=1"},
		{name: "B48 index and UUID of one device", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=1 nvidia.com/gpu=GPU-" + gpuUUID, want: "* nvidia.com/gpu=1"},
		{name: "B48 all twice", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=all nvidia.com/gpu=all", want: "* nvidia.com/gpu=all"},
		{name: "all of one kind beside one of another", sources: []cdi.Source{etc, generated}, ask: "nvidia.com/gpu=all vendor.com/dev=a", want: "* nvidia.com/gpu=all *@/etc/cdi/v.yaml vendor.com/dev=a@/etc/cdi/v.yaml"},

		{name: "unknown device (missing-id-silent)", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=15", reason: cdi.ReasonNotFound, says: `"nvidia.com/gpu=15" is in no CDI Spec`},
		{name: "a misspelt device has near names", sources: []cdi.Source{etc}, ask: "vendor.com/dev=A", reason: cdi.ReasonNotFound, says: "Similar names are a"},
		{name: "unknown kind lists the kinds (uuid-not-resolvable)", sources: []cdi.Source{etc, generated}, ask: "amd.com/gpu=0", reason: cdi.ReasonNotFound, says: "The kinds are nvidia.com/gpu, vendor.com/dev."},
		{name: "no Spec at all", ask: "nvidia.com/gpu=0", reason: cdi.ReasonNotFound, says: "no CDI Spec at all"},
		{name: "all of an unknown kind (missing-id-silent)", sources: []cdi.Source{etc}, ask: "amd.com/gpu=all", reason: cdi.ReasonAllMatchesNone},
		{name: "all where the Spec has no all", sources: []cdi.Source{etc}, ask: "vendor.com/dev=all", reason: cdi.ReasonAllMatchesNone, says: "The Specs define a, b."},
		{name: "all that has nothing in it", sources: []cdi.Source{empty}, ask: "nvidia.com/gpu=all", reason: cdi.ReasonAllMatchesNone},
		{name: "a MIG device that is gone", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=0:7", reason: cdi.ReasonNotFound, says: "0:0, 0:1"},
		{name: "B48 all and one", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=all nvidia.com/gpu=1", reason: cdi.ReasonAllAndOne},
		{name: "B48 all and a MIG device", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=0:1 nvidia.com/gpu=all", reason: cdi.ReasonAllAndOne},
		{name: "B48 all and the integrated GPU", sources: []cdi.Source{orin}, ask: "nvidia.com/igpu=0 nvidia.com/gpu=all", reason: cdi.ReasonAllAndOne},
		{name: "B20 equal priority", sources: []cdi.Source{etc, etc2}, ask: "vendor.com/dev=b", reason: cdi.ReasonDeviceConflict, says: "/etc/cdi/v.yaml and /etc/cdi/w.yaml"},
		{name: "an integrated GPU on a host with discrete ones", sources: []cdi.Source{cdi.FromHost(source(t, "g.yaml", 0, read(t, "gpu.yaml")).Spec)}, ask: "nvidia.com/igpu=0", reason: cdi.ReasonNoIntegratedGPU, says: "write nvidia.com/gpu=0"},
		{name: "every bad name is reported", sources: []cdi.Source{generated}, ask: "nvidia.com/gpu=15 nvidia.com/gpu=1 nvidia.com/gpu=16", reason: cdi.ReasonNotFound, says: "gpu=16"},
		{name: "mig=all", sources: []cdi.Source{generated}, ask: "nvidia.com/mig=all", reason: cdi.ReasonMIGAll},
		{name: "nothing asked (B48)", sources: []cdi.Source{generated}, ask: "", reason: cdi.ReasonNoDeviceAsked},
		{name: "B48 10,000 devices", sources: []cdi.Source{generated}, ask: strings.Repeat("nvidia.com/gpu=1 ", 10_000), reason: cdi.ReasonTooManyDevices},
		{name: "beside a withheld device", sources: []cdi.Source{partly}, ask: "nvidia.com/gpu=1", want: "* nvidia.com/gpu=1"},
		{name: "withheld (mig-parent-only)", sources: []cdi.Source{partly}, ask: "nvidia.com/mig=0:7", reason: "a-reason", says: "cap99 is not there"},
		{name: "all, one of which is withheld", sources: []cdi.Source{partly}, ask: "nvidia.com/gpu=all", reason: "a-reason", says: "cap99 is not there"},
		{name: "withheld, and defined below", sources: []cdi.Source{source(t, "/etc/cdi/n.yaml", 0, specOf("nvidia.com/gpu", "0:7")), partly}, ask: "nvidia.com/gpu=0:7", reason: "a-reason"},
		{name: "defined, and withheld below", sources: []cdi.Source{low, generated}, ask: "nvidia.com/gpu=1", want: "* nvidia.com/gpu=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			edits, err := cdi.Resolve(tc.sources, names(t, tc.ask))
			if tc.reason != "" {
				rs := refuse.As(err)
				if len(edits) != 0 || len(rs) == 0 {
					t.Fatalf("Resolve = %v, %v; want no edits and %q", edits, err, tc.reason)
				}
				all := err.Error()
				for _, e := range rs {
					all += " " + e.Hint
					if e.Reason != tc.reason {
						t.Errorf("reason %q (%v); want %q", e.Reason, e, tc.reason)
					}
				}
				if !strings.Contains(all, tc.says) {
					t.Errorf("Resolve says %q; want it to say %q", all, tc.says)
				}
				return
			}
			var got []string
			for _, e := range edits {
				s := e.Device
				if s == "" {
					s = "*"
				}
				if e.Spec != cdi.Generated {
					s += "@" + e.Spec
				}
				if e.Edits == nil || e.Kind == "" {
					t.Errorf("%s has no edits or no kind", s)
				}
				got = append(got, s)
			}
			if err != nil || strings.Join(got, " ") != tc.want {
				t.Errorf("Resolve = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestResolveAllNotesWhatIsMerged_B48(t *testing.T) {
	r, err := cdi.ResolveAll([]cdi.Source{cdi.FromHost(source(t, "g.yaml", 0, migSpec()).Spec)}, names(t, "nvidia.com/gpu=1 nvidia.com/mig=0:0 nvidia.com/gpu="+gpuUUID+" nvidia.com/mig=MIG-"+migUUID))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(r.Merged)
	want := "[{nvidia.com/gpu=" + gpuUUID + " nvidia.com/gpu=1} {nvidia.com/mig=MIG-" + migUUID + " nvidia.com/gpu=0:0}]"
	if got != want || len(r.Devices) != 2 || r.Devices[1].Asked.String() != "nvidia.com/mig=0:0" {
		t.Errorf("ResolveAll merges %s, devices %v;\nwant %s", got, r.Devices, want)
	}
}

func TestResolveDoesNotTouchTheSpec(t *testing.T) {
	s := source(t, "g.yaml", 0, migSpec())
	before, _ := cdi.Marshal(s.Spec, cdi.YAML)
	if _, err := cdi.Resolve([]cdi.Source{s}, names(t, "nvidia.com/gpu=all")); err != nil {
		t.Fatal(err)
	}
	if after, _ := cdi.Marshal(s.Spec, cdi.YAML); string(after) != string(before) {
		t.Error("Resolve changed the Spec")
	}
}

func BenchmarkResolve(b *testing.B) {
	var spec specs.Spec
	spec.Kind = "nvidia.com/gpu"
	var ask []cdi.Name
	for g := range 64 {
		for m := range 7 {
			n := cdi.Name{Vendor: "nvidia.com", Class: "gpu", Device: fmt.Sprintf("%d:%d", g, m)}
			ask = append(ask, n)
			spec.Devices = append(spec.Devices, specs.Device{Name: n.Device, ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: fmt.Sprintf("/dev/x%d-%d", g, m)}}}})
		}
	}
	for _, n := range []int{1, 64, 448} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cdi.Resolve([]cdi.Source{cdi.FromHost(&spec)}, ask[:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWithheldDevicesAreNamedOnceForEachCause(t *testing.T) {
	one, two := refuse.New("r", "", "/dev/nvidia1 is not there").WithHint("Make it."), refuse.New("r", "", "/dev/nvidia2 is not there")
	got := cdi.WithheldWarnings("nvidia.com/gpu", map[string]*refuse.Error{"all": one, "1": one, "gpu1": one, "10": two})
	want := []string{"nvidia.com/gpu=1, all, gpu1: withheld from the Spec: /dev/nvidia1 is not there", "nvidia.com/gpu=10: withheld from the Spec: /dev/nvidia2 is not there"}
	if len(got) != 2 || got[0].Error() != want[0] || got[1].Error() != want[1] || got[0].Hint != "Make it." {
		t.Errorf("WithheldWarnings = %q", got)
	}
	src := cdi.FromHost(source(t, "gen.yaml", 0, migSpec()).Spec)
	src.Withheld = map[string]*refuse.Error{"2": two}
	if _, err := cdi.Resolve([]cdi.Source{src}, names(t, "nvidia.com/gpu=2")); err != error(two) {
		t.Errorf("Resolve: %v; want the very refusal", err)
	}
}

// Of a GPU that does not answer nobody knows the MIG devices: by index they are
// refused as it is, unless a Spec on disk has them.
func TestMIGDevicesGoWithTheirGPU(t *testing.T) {
	lost := refuse.New("a-reason", "nvidia.com/gpu=3", "fell off the bus")
	src := cdi.FromHost(source(t, "gen.yaml", 0, migSpec()).Spec)
	src.Withheld = map[string]*refuse.Error{"3": lost, "gpu3": lost}
	for name, want := range map[string]error{
		"nvidia.com/gpu=3:1": lost, "nvidia.com/gpu=mig3:0": lost, "nvidia.com/mig=3:0": lost,
		"nvidia.com/gpu=0:0": nil, "nvidia.com/gpu=2:0": cdi.ReasonNotFound, "nvidia.com/gpu=33:0": cdi.ReasonNotFound,
	} {
		if _, err := cdi.Resolve([]cdi.Source{src}, names(t, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	disk := source(t, "/etc/cdi/x.yaml", 1, strings.ReplaceAll(migSpec(), `"0:0"`, `"3:1"`))
	if _, err := cdi.Resolve([]cdi.Source{src, disk}, names(t, "nvidia.com/gpu=3:1")); err != nil {
		t.Errorf("with a Spec on disk: %v", err)
	}
}
