package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/profiles"
	"gpurig/runner/peers"
	"gpurig/runner/specgen"
)

// ctkArgs asks nvidia-ctk for what gpurig makes: names of every kind, and the
// host's own layout.
func ctkArgs(m host.Model, format string) []string {
	args := []string{"--quiet", "cdi", "generate", "--format", format, "--nvidia-cdi-hook-path", nvidia.DefaultHookPath,
		"--feature-flag", "disable-nvsandboxutils"}
	for _, s := range nvidia.NameStrategies() {
		args = append(args, "--device-name-strategy", s)
	}
	o := specgen.HostOptions(m, nvidia.Options{})
	args = append(args, "--driver-root", cmp.Or(o.DriverRoot, "/"), "--dev-root", cmp.Or(o.DevRoot, "/")) // core's defaults
	for _, p := range o.LibrarySearchPaths {
		args = append(args, "--library-search-path", p)
	}
	return args
}

// BenchmarkGenerateProcess is "gpurig cdi generate --host" against "nvidia-ctk
// cdi generate" on the same host, whole processes. nvidia-ctk finds its host
// ready. gpurig has to make it, "first", unless it has the Spec from a run
// before, "again". In "same" it finds the same files ready, as on a machine of
// its own.
func BenchmarkGenerateProcess(b *testing.B) {
	for _, name := range []string{"dgx-a100", "dgx-h100", "a100-mig-uniform", "t4-server", "jetson-agx-orin"} {
		m := profile(b, name)
		c := newChroot(b, m, peers.Path(b, "nvidia-ctk"))
		theirs := func(b *testing.B) func() { return func() { output(b, c.command(b, ctkArgs(m, "yaml")...)) } }
		program, cache := ours(b, "gpurig"), b.TempDir()
		runs := 0
		gpurig := func(b *testing.B, kept bool) func() {
			return func() {
				dir := filepath.Join(cache, "kept")
				if !kept { // a folder that is not there yet
					runs++
					dir = filepath.Join(cache, strconv.Itoa(runs))
				}
				cmd := exec.Command(program, "cdi", "generate", "--quiet", "--host", name)
				cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
				output(b, cmd)
			}
		}
		own := newChroot(b, m, program)
		same := func(b *testing.B) func() {
			return func() { output(b, own.command(b, "cdi", "generate", "--quiet")) }
		}
		b.Run(name+"/same", func(b *testing.B) { turns(b, same(b), theirs(b)) })
		b.Run(name+"/first", func(b *testing.B) { turns(b, gpurig(b, false), theirs(b)) })
		b.Run(name+"/again", func(b *testing.B) { turns(b, gpurig(b, true), theirs(b)) })
	}
}

// The Spec that core generates in a fake host is the one that the unmodified
// nvidia-ctk generates there, once both are sorted. What core adds on purpose is
// taken away first.
func TestNvidiaCTKMakesTheSameSpec(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	needRoot(t)
	g := specgen.New(specgen.Options{})
	defer g.Close()
	compared := 0
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := profile(t, name)
			if len(m.NVIDIAGPUs()) == 0 && m.Tegra == nil {
				t.Skip("no GPU of NVIDIA's driver")
			}
			made, err := g.Generate(t.Context(), specgen.Request{Model: m})
			if err != nil {
				refusesToo(t, m, program, err)
				return
			}
			out := output(t, newChroot(t, m, program).command(t, ctkArgs(m, "json")...))
			var theirs specs.Spec
			if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&theirs); err != nil {
				t.Fatalf("%v: %.200s", err, out)
			}
			if d := diff.Diff(sorted(t, &theirs), sorted(t, without(t, made.Spec))); d != "" {
				t.Errorf("nvidia-ctk (-) and core (+) differ:\n%s", d)
			}
			compared++
		})
	}
	if compared < 10 && !t.Failed() {
		t.Errorf("compared only %d hosts", compared)
	}
}

// refusesToo accepts a host for which core refuses a Spec: nvidia-ctk fails, or
// makes one without any device.
func refusesToo(t *testing.T, m host.Model, program string, refusal error) {
	t.Helper()
	out, err := newChroot(t, m, program).command(t, ctkArgs(m, "json")...).Output()
	if err != nil {
		return
	}
	var s specs.Spec
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&s); err != nil || len(s.Devices) > 0 {
		t.Errorf("core refuses: %v; nvidia-ctk makes %d devices, %v", refusal, len(s.Devices), err)
	}
}

// without returns a copy of a Spec of ours without what core adds: on Tegra the
// CSV files themselves, for containers in containers.
func without(t *testing.T, s *specs.Spec) *specs.Spec {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out specs.Spec
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out.ContainerEdits.Mounts = slices.DeleteFunc(out.ContainerEdits.Mounts, func(m *specs.Mount) bool {
		return strings.HasSuffix(m.HostPath, ".csv") && strings.Contains(m.HostPath, "/host-files-for-container.d/")
	})
	return &out
}

// sorted is a Spec as text in which only the order of devices and of edits that
// do not depend on each other is made the same.
func sorted(t *testing.T, s *specs.Spec) string {
	t.Helper()
	edits := func(e *specs.ContainerEdits) {
		slices.Sort(e.Env)
		slices.SortFunc(e.DeviceNodes, func(a, b *specs.DeviceNode) int { return strings.Compare(a.Path, b.Path) })
		slices.SortFunc(e.Mounts, func(a, b *specs.Mount) int { return strings.Compare(a.ContainerPath, b.ContainerPath) })
	}
	edits(&s.ContainerEdits)
	for i := range s.Devices {
		edits(&s.Devices[i].ContainerEdits)
	}
	slices.SortFunc(s.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln(string(data))
}
