package lxc_test

import (
	"context"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpurig/core/plan"
	images "gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/targettest"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A kind of container, by what matters to permissions.
type kind struct {
	name, cgroup string
	idmap        []plan.IDMap
}

func kinds() []kind {
	return []kind{
		{"v1 privileged", "v1", nil}, {"v1 idmapped", "v1", targettest.DefaultIDMap()},
		{"v2 privileged", "v2", nil}, {"v2 idmapped", "v2", targettest.DefaultIDMap()},
	}
}

// The negative control: a container that lacks one thing of its plan is not let
// pass, and the finding names that thing. What is whole has no finding.
func TestWhatIsLeftOutIsFound(t *testing.T) {
	const library = targettest.LibDir + "/libnvidia-ml.so." + targettest.Version
	whole := targettest.Plan(targettest.Version, false)
	for _, tc := range []struct {
		what    string
		without func(*plan.Plan)
		path    string // that the finding names
		got     string // part of what was seen there
	}{
		{"nothing", func(*plan.Plan) {}, "", ""},
		{"a cgroup rule", func(p *plan.Plan) {
			p.Nodes = slices.Clone(p.Nodes)
			p.Nodes[at(p.Nodes, "/dev/nvidia-uvm", func(n plan.Node) string { return n.Path })].Permissions = ""
		}, "/dev/nvidia-uvm", "denied"},
		{"a node", func(p *plan.Plan) {
			p.Nodes = without(p.Nodes, "/dev/nvidiactl", func(n plan.Node) string { return n.Path })
		}, "/dev/nvidiactl", "nothing"},
		{"a mount", func(p *plan.Plan) {
			p.Mounts = without(p.Mounts, library, func(m plan.Mount) string { return m.Target })
		}, library, "nothing"},
		{"a link", func(p *plan.Plan) {
			p.Links = without(p.Links, targettest.LibDir+"/libcuda.so", func(l plan.Link) string { return l.Path })
		}, targettest.LibDir + "/libcuda.so", "nothing"},
	} {
		for _, k := range kinds() {
			t.Run(tc.what+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				less := whole
				tc.without(&less)
				c := begin(t, requireLXC(t, k.cgroup).l, target.Config{Name: "c1", Image: "glibc", Cgroup: k.cgroup, IDMap: k.idmap}, less)
				obs, err := c.Observe(context.Background(), targettest.Request())
				if err != nil {
					t.Fatal(err)
				}
				found := verdict.Judge(scenarios.Expect{}, verdict.Evidence{Container: "c1", Plan: &whole, Running: true, Seen: &obs})
				if tc.path == "" {
					if len(found) > 0 {
						t.Errorf("findings of a whole container: %+v", found)
					}
					return
				}
				if len(found) == 0 {
					t.Fatal("nothing was found")
				}
				for _, f := range found {
					if !strings.Contains(f.What, tc.path) || !strings.Contains(f.Got, tc.got) {
						t.Errorf("%s %s: want %s, got %s; want findings of %s alone", f.Station, f.What, f.Want, f.Got, tc.path)
					}
				}
			})
		}
	}
}

func at[T any](list []T, path string, key func(T) string) int {
	return slices.IndexFunc(list, func(x T) bool { return key(x) == path })
}

func without[T any](list []T, path string, key func(T) string) []T {
	out := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return key(x) == path })
	if len(out) != len(list)-1 {
		panic("the plan has no " + path)
	}
	return out
}

// begin starts a container with p, and leaves it to the target's Close.
func begin(t *testing.T, l *lxc.LXC, c target.Config, p plan.Plan) target.Container {
	t.Helper()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	made, err := l.Create(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(context.Background(), h, p); err != nil {
		t.Fatal(err)
	}
	return made
}

// The container's own loader, glibc's or musl's, run inside the running
// container, opens each library of the driver at the file that the probe says
// that it would.
func TestTheContainersLoaderAgreesWithTheProbe(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the driver of the test's host is for x86-64")
	}
	for image, loader := range map[string]string{
		"glibc": "/lib64/ld-linux-x86-64.so.2", "glibc-unmerged": "/lib64/ld-linux-x86-64.so.2", "stale-libs": "/lib64/ld-linux-x86-64.so.2",
		"mesa-links": "/lib64/ld-linux-x86-64.so.2", "hostile-etc": "/lib64/ld-linux-x86-64.so.2", "hostile-lib": "/lib64/ld-linux-x86-64.so.2",
		"glibc-old": "/lib64/ld-linux-x86-64.so.2", "musl": "/lib/ld-musl-x86_64.so.1", "none": "",
	} {
		for _, idmap := range [][]plan.IDMap{nil, targettest.DefaultIDMap()} {
			name := image + " privileged"
			if idmap != nil {
				name = image + " idmapped"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := requireLXC(t, "v2")
				from := loader
				if image == "glibc-old" {
					from = images.OldGlibcDir
				}
				if _, err := os.Stat(from); loader != "" && err != nil {
					cannot(t, "images take the loader from this machine: %v", err)
				}
				c := begin(t, r.l, target.Config{Name: "c1", Image: image, Cgroup: "v2", IDMap: idmap}, targettest.Plan(targettest.Version, false))
				obs, err := c.Observe(context.Background(), targettest.Request())
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range obs.Libraries {
					if loader == "" {
						if l.Path != "" || l.Problem == "" {
							t.Errorf("%s: %+v in a root without any loader", l.SONAME, l)
						}
						continue
					}
					if said := loads(t, c, loader, l.SONAME); said != l.Path {
						t.Errorf("%s: the loader opens %q, the probe says %q", l.SONAME, said, l.Path)
					}
				}
				if i := at(obs.Libraries, "libcuda.so.1", soname); loader != "" && path.Base(obs.Libraries[i].Final) != "libcuda.so."+targettest.Version {
					t.Errorf("libcuda.so.1 is %+v", obs.Libraries[i])
				}
			})
		}
	}
}

func soname(l observe.Library) string { return l.SONAME }

// loads asks a loader which file it takes for a SONAME, empty for none, by having
// it load that before another library: the C library, since glibc's lists nothing
// for one that needs none, or with musl, which is its own, one of the driver's.
func loads(t *testing.T, c target.Container, loader, soname string) string {
	t.Helper()
	beside := "/lib/x86_64-linux-gnu/libc.so.6"
	if strings.Contains(loader, "musl") {
		beside = targettest.LibDir + "/libnvidia-ptxjitcompiler.so." + targettest.Version
	}
	out, err := lxc.Enter(context.Background(), c, loader, "--preload", soname, "--list", beside)
	for line := range strings.Lines(out) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), " => "); ok && name == soname {
			file, _, _ := strings.Cut(rest, " (")
			return file
		}
	}
	if err != nil && !strings.Contains(out, soname) {
		t.Errorf("%s: %v\n%s", loader, err, out)
	}
	return ""
}
