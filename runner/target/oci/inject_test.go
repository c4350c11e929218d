package oci_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/fakehw/profiles"
	"gpurig/runner/observe"
	"gpurig/runner/peers"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/oci"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A request is devices of one fake host, and what the product makes of them.
type request struct {
	host  target.Host
	spec  *specs.Spec
	names []string
	plan  plan.Plan
	look  observe.Request
}

func ask(t *testing.T, profile string, names ...string) request {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	g := specgen.New(specgen.Options{})
	defer g.Close()
	r := specgen.Request{Model: m}
	res, err := g.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree()
	if err != nil {
		t.Fatal(err)
	}
	q := request{host: target.Host{Root: tree, Sum: tree.Sum}, spec: res.Spec, names: names}
	var asked []cdi.Name
	for _, n := range names {
		name, err := cdi.ParseName(n)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, name)
	}
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(res.Spec)}, asked)
	if err != nil {
		t.Fatal(err)
	}
	opts := translate.Options{}
	if u := m.Userspace; u != nil {
		opts.DriverRoot = u.DriverRoot
	}
	if q.plan, err = translate.Edits(tree, edits, opts); err != nil {
		t.Fatal(err)
	}
	q.look = verdict.Request(scenarios.Expect{Library: map[string]string{"libcuda.so.1": "", "libnvidia-ml.so.1": "", "libnvidia-nothing.so.1": ""}}, &q.plan)
	return q
}

// ways are the ways to start one container with the same devices.
var ways = []string{"vendor", "annotations", "cdi-hook", "translated"}

// start starts a container one way and looks into it.
func (q request) start(t *testing.T, o *oci.OCI, image, vendor, way string) observe.Observation {
	t.Helper()
	tc, err := o.Create(t.Context(), target.Config{Name: "c1", Image: image, Cgroup: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	c := tc.(*oci.Container)
	in := oci.Injection{Specs: []*specs.Spec{q.spec}, Devices: q.names, VendorHook: vendor}
	switch way {
	case "translated":
		err = c.Start(t.Context(), q.host, q.plan)
	case "cdi-hook":
		in.VendorHook, in.Plan = "", q.plan
		err = c.Inject(t.Context(), q.host, in)
	case "annotations":
		in.Devices, in.Annotations = nil, map[string]string{"cdi.k8s.io/gpurig_c1": strings.Join(q.names, ",")}
		err = c.Inject(t.Context(), q.host, in)
	default:
		err = c.Inject(t.Context(), q.host, in)
	}
	if err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	o1, err := c.Observe(t.Context(), q.look)
	if err != nil || len(o1.Problems) > 0 || len(o1.Nodes) == 0 {
		t.Fatalf("%s: %v, %q, %d nodes", way, err, o1.Problems, len(o1.Nodes))
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	return o1
}

// alike takes out of an observation what differs on purpose: the name by which
// ld.so.cache knows a folder that has two (ldconfig writes that of ld.so.conf,
// cdi-hook the real one; the file is the same).
func alike(o observe.Observation) observe.Observation {
	o.Libraries = slices.Clone(o.Libraries)
	for i := range o.Libraries {
		o.Libraries[i].Path = o.Libraries[i].Final
	}
	return o
}

// merged moves mounts below /lib to where a host with a merged usr has them. A
// plan names them so (package translate), also for an image without the merge.
func merged(o observe.Observation) observe.Observation {
	o.Mounts = slices.Clone(o.Mounts)
	for i, m := range o.Mounts {
		if strings.HasPrefix(m.Target, "/lib/firmware/") {
			o.Mounts[i].Target = "/usr" + m.Target
		}
	}
	return o
}

// The vendor's hooks as the reference implementation injects them, cdi-hook in
// their place, and our own translation: the container sees the same.
func TestVendorsHooksAndOursShowTheSame(t *testing.T) {
	for _, tc := range []struct {
		name, profile, image, runtime string
		devices                       []string
	}{
		{"one GPU", "t4-server", "glibc", "runc", []string{"nvidia.com/gpu=0"}},
		{"one GPU, by crun", "t4-server", "glibc", "crun", []string{"nvidia.com/gpu=0"}},
		{"two GPUs of eight", "dgx-a100", "glibc", "runc", []string{"nvidia.com/gpu=3", "nvidia.com/gpu=5"}},
		{"all", "hgx-h200", "glibc", "runc", []string{"nvidia.com/gpu=all"}},
		{"a MIG device", "a100-mig-2g-3g", "glibc", "runc", []string{"nvidia.com/gpu=0:1"}},
		{"folders of Red Hat", "rhel-t4", "glibc", "runc", []string{"nvidia.com/gpu=0"}},
		{"unmerged usr", "workstation", "glibc-unmerged", "runc", []string{"nvidia.com/gpu=0"}},
		{"another driver's libraries in the image", "t4-server", "stale-libs", "runc", []string{"nvidia.com/gpu=all"}},
		{"an image without a loader", "t4-server", "none", "runc", []string{"nvidia.com/gpu=0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vendor := peers.Path(t, "nvidia-cdi-hook")
			r := requireOCI(t, tc.runtime)
			q := ask(t, tc.profile, tc.devices...)
			want := alike(q.start(t, r.t, tc.image, vendor, "vendor"))
			for _, way := range ways[1:] {
				got, want := alike(q.start(t, r.t, tc.image, vendor, way)), want
				if way == "translated" {
					want = merged(want)
					got = merged(got)
				}
				for _, d := range observe.Diff(want, got) {
					t.Errorf("vendor | %s: %s", way, d)
				}
			}
		})
	}
}

// A Jetson's Spec names links twice, to a link and to the file that it ends at: the last
// is the one that stays. (What else the hooks do there depends on the processor.)
func TestLinksNamedTwiceAreTheVendors(t *testing.T) {
	vendor := peers.Path(t, "nvidia-cdi-hook")
	r := requireOCI(t, "runc")
	q := ask(t, "jetson-agx-orin", "nvidia.com/gpu=0")
	const dir = "/usr/lib/aarch64-linux-gnu/nvidia/"
	twice := []string{dir + "libcuda.so", dir + "libvulkansc.so", dir + "libnvidia-vksc-core.so"}
	links := func(way string) []observe.Link {
		return slices.DeleteFunc(q.start(t, r.t, "glibc", vendor, way).Links, func(l observe.Link) bool { return !slices.Contains(twice, l.Path) })
	}
	want := links("vendor")
	if len(want) != len(twice) {
		t.Fatalf("the vendor's hooks make %v; want those of %q", want, twice)
	}
	for _, way := range ways[1:] {
		if got := links(way); !slices.Equal(got, want) {
			t.Errorf("%s: %v, the vendor's: %v", way, got, want)
		}
	}
}

// The negative control: what cdi-hook leaves undone is a difference.
func TestVendorsHooksAndOursDifferWhereALinkIsMissing(t *testing.T) {
	vendor := peers.Path(t, "nvidia-cdi-hook")
	r := requireOCI(t, "runc")
	q := ask(t, "t4-server", "nvidia.com/gpu=0")
	want := alike(q.start(t, r.t, "glibc", vendor, "vendor"))
	at := slices.IndexFunc(q.plan.Links, func(l plan.Link) bool { return strings.HasSuffix(l.Path, "/libcuda.so") })
	lost := q.plan.Links[at].Path
	q.plan.Links = slices.Delete(slices.Clone(q.plan.Links), at, at+1)
	diffs := observe.Diff(want, alike(q.start(t, r.t, "glibc", vendor, "cdi-hook")))
	if len(diffs) != 1 || diffs[0].What != lost || diffs[0].B != "" {
		t.Errorf("without the link %s the differences are %v; want that alone", lost, diffs)
	}
}

// What is asked for and not there is refused by name, as an engine does it.
func TestInjectRefusesByName(t *testing.T) {
	r := requireOCI(t, "runc")
	q := ask(t, "t4-server", "nvidia.com/gpu=0")
	for _, tc := range []struct {
		name string
		in   oci.Injection
		want string
	}{
		{"a device that is not there", oci.Injection{Devices: []string{"nvidia.com/gpu=9"}}, "nvidia.com/gpu=9"},
		{"an annotation that is no device", oci.Injection{Annotations: map[string]string{"cdi.k8s.io/x": "gpu0"}}, "gpu0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := r.t.Create(t.Context(), target.Config{Name: "c1", Cgroup: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			tc.in.Specs = []*specs.Spec{q.spec}
			err = c.(*oci.Container).Inject(t.Context(), q.host, tc.in)
			if err == nil || errors.Is(err, target.ErrBroken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Inject() = %v; want a refusal that names %s", err, tc.want)
			}
		})
	}
}
