package docker_test

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	corehost "gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/peers"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
)

// igpu is the integrated GPU of Tegra by its name in a Spec.
var igpu = cdi.Name{Vendor: "nvidia.com", Class: "gpu", Device: "0"}

// shut is the negative twin among the nodes: the outer container may not open it.
const shut = "/dev/nvsciipc"

// aJetson returns a board with the Spec that NVIDIA's generator makes of it.
func aJetson(t *testing.T) (corehost.Model, target.Host, *specs.Spec) {
	t.Helper()
	m, err := runner.Profiles{}.Host("jetson-orin-nano", "")
	if err != nil {
		t.Fatal(err)
	}
	r := specgen.Request{Model: m}
	made, err := specgen.New(specgen.Options{NoChild: true}).Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return m, target.Host{Root: tree, Sum: tree.Sum}, made.Spec
}

// planOf translates the iGPU of a Spec.
func planOf(t *testing.T, root corehost.Root, spec *specs.Spec, ids []plan.IDMap) plan.Plan {
	t.Helper()
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(spec)}, []cdi.Name{igpu})
	if err != nil {
		t.Fatal(err)
	}
	p, err := translate.Edits(root, edits, translate.Options{IDMap: ids})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A board is the root of a container on the board: the files are the container's,
// the kernel is the board's, and no container has another list of its drivers.
// What lies below the root is real, so /proc there is this machine's.
type board struct {
	corehost.Root
	kernel corehost.Root
}

func (b board) ReadFile(p string) ([]byte, error) {
	if p == "/proc/devices" || p == "/proc/misc" {
		return b.kernel.ReadFile(p)
	}
	return b.Root.ReadFile(p)
}

func isCSV(file string) bool {
	return strings.HasPrefix(file, corehost.CSVDir+"/") && path.Ext(file) == ".csv"
}

// ctk runs the unmodified nvidia-ctk in csv mode inside the container. It returns
// the Spec, nil where there is none, and what the program said.
func ctk(t *testing.T, o *lxd.Container, m corehost.Model) (*specs.Spec, string) {
	t.Helper()
	data, err := os.ReadFile(peers.Path(t, "nvidia-ctk"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Root(), "inner/nvidia-ctk"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"/bin/sh", "-c", `exec /inner/nvidia-ctk "$@" >/inner/said 2>&1`, "sh"}, peers.CTKArgs(t, m, "json")[1:]...) // not --quiet
	failed := o.Exec(t.Context(), append(args, "--mode", "csv", "--output", "/inner/spec.json")...)
	said, err := os.ReadFile(filepath.Join(o.Root(), "inner/said"))
	if err != nil {
		t.Fatalf("%v, %v", failed, err)
	}
	if failed != nil {
		return nil, string(said)
	}
	data, err = os.ReadFile(filepath.Join(o.Root(), "inner/spec.json"))
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	s, err := cdi.Parse(data, "spec.json")
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return s, string(said)
}

// named is what a Spec gives the iGPU: its nodes and the paths of its mounts,
// without the CSV files themselves, which only core adds, for this very case.
func named(t *testing.T, s *specs.Spec) (nodes []specs.DeviceNode, mounts []string) {
	t.Helper()
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(s)}, []cdi.Name{igpu})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		for _, n := range e.Edits.DeviceNodes {
			nodes = append(nodes, specs.DeviceNode{Path: n.Path, HostPath: n.HostPath, Major: n.Major, Minor: n.Minor})
		}
		for _, m := range e.Edits.Mounts {
			if !isCSV(m.HostPath) {
				mounts = append(mounts, m.HostPath+" "+m.ContainerPath)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b specs.DeviceNode) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(mounts)
	return nodes, mounts
}

// An iGPU that LXD gives to a container (security.nesting) is there as on the
// board: NVIDIA's toolkit in csv mode, unmodified, finds by the CSV files every
// node and file that it finds on the board, and a container of Docker has them and
// opens the nodes that the outer one may.
func TestDockerInsideLXDWithAnIGPU(t *testing.T) {
	for _, tc := range []struct {
		name string
		ids  []plan.IDMap
	}{
		{"privileged", nil},
		{"idmapped", targettest.DefaultIDMap()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peers.Path(t, "nvidia-ctk") // before anything is built
			m, h, onBoard := aJetson(t)
			p := planOf(t, h.Root, onBoard, tc.ids)
			if !slices.ContainsFunc(p.Mounts, func(m plan.Mount) bool { return isCSV(m.Target) }) {
				t.Fatal("the plan has no CSV file")
			}
			at := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.Path == shut })
			p.Nodes[at].Permissions = ""
			o, socket := outer(t, target.Config{Name: "o", Image: "glibc", Cgroup: "v2", IDMap: tc.ids}, h, p)
			inside, said := ctk(t, o, m)
			if inside == nil {
				t.Fatalf("nvidia-ctk: %s", said)
			}
			wantNodes, wantMounts := named(t, onBoard)
			gotNodes, gotMounts := named(t, inside)
			if d := diff.Diff(wantNodes, gotNodes); d != "" {
				t.Errorf("nodes on the board (-) and in the container (+):\n%s", d)
			}
			if d := diff.Diff(wantMounts, gotMounts); d != "" {
				t.Errorf("mounts on the board (-) and in the container (+):\n%s", d)
			}
			innerSees(t, o, socket, h.Root, inside)
		})
	}
}

// innerSees starts a container of the inner engine with what the Spec inside
// the outer one gives, and compares what it sees.
func innerSees(t *testing.T, o *lxd.Container, socket string, kernel corehost.Root, s *specs.Spec) {
	t.Helper()
	root, err := osroot.New(o.Root())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p := planOf(t, board{Root: root, kernel: kernel}, s, nil)
	var nodes, files, want, got []string
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Path)
		open := observe.Allowed
		if n.Path == shut {
			open = observe.Denied
		}
		want = append(want, fmt.Sprintf("%s %s %s", n.Path, n.Num, open))
	}
	for _, m := range p.Mounts {
		files = append(files, m.Target)
		want = append(want, m.Target)
	}
	for _, known := range []string{"/dev/nvmap", "/dev/nvhost-ctrl-gpu", shut} {
		if !slices.Contains(nodes, known) {
			t.Errorf("the Spec has no %s", known)
		}
	}
	if !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(path.Base(f), "libcuda.so.1") }) {
		t.Errorf("the Spec has no libcuda: %q", files)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	line, err := docker.Inner(t.Context(), socket, o.Root(), nodes, files, filepath.Join(dir, "gpurig-probe"))
	if err != nil {
		log, _ := os.ReadFile(o.Root() + "/inner/log")
		t.Fatalf("%v\n%s", err, log)
	}
	defer line.Close()
	seen, err := line.Look(observe.Request{Manager: observe.Docker})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range seen.Nodes {
		got = append(got, fmt.Sprintf("%s %s %s", n.Path, n.Num, n.Open))
	}
	for _, m := range seen.Mounts {
		if !slices.Contains(nodes, m.Target) { // in a user namespace nodes are bound
			got = append(got, m.Target)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := diff.Diff(want, got); d != "" {
		t.Errorf("want (-) and seen in the inner container (+):\n%s", d)
	}
}

// The negative twin: where the plan does not bring the CSV files, the toolkit in
// csv mode finds no node and no library, though all are there.
func TestIGPUInsideLXDWithoutCSVFiles(t *testing.T) {
	peers.Path(t, "nvidia-ctk")
	m, h, onBoard := aJetson(t)
	p := planOf(t, h.Root, onBoard, nil)
	p.Mounts = slices.DeleteFunc(p.Mounts, func(m plan.Mount) bool { return isCSV(m.Target) })
	o, _ := outer(t, target.Config{Name: "o", Image: "glibc", Cgroup: "v2"}, h, p)
	inside, said := ctk(t, o, m)
	if inside == nil {
		t.Fatalf("nvidia-ctk: %s", said)
	}
	const release = "/etc/nv_tegra_release" // by its name, not by a CSV file
	if nodes, mounts := named(t, inside); len(nodes) > 0 || !slices.Equal(slices.Compact(mounts), []string{release + " " + release}) {
		t.Errorf("without CSV files: nodes %v, mounts %v\n%s", nodes, mounts, said)
	}
	if !strings.Contains(said, "No mount specs specified") {
		t.Errorf("nvidia-ctk does not say that it has no CSV file: %s", said)
	}
}
