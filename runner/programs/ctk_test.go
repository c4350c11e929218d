package programs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/fakehw/profiles"
	"gpurig/runner/peers"
)

// The Spec that core generates for a host is the one that the unmodified
// nvidia-ctk generates in it, byte for byte once both are sorted, with the
// libraries that answer there. What core adds on purpose is taken away first.
func TestNvidiaCTKMakesTheSameSpec(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	compared := 0
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := model(t, name)
			if len(m.NVIDIAGPUs()) == 0 && m.Tegra == nil {
				t.Skip("no GPU of NVIDIA's driver")
			}
			made := gpurig(t, "cdi", "generate", "--host", name, "--format", "json", "--quiet")
			theirs := enter(t, name, append([]string{program}, peers.CTKArgs(t, m, "json")...)...)
			if made.exit != 0 { // nvidia-ctk fails too, or makes a Spec without any device
				if theirs.exit == 0 && len(decode(t, theirs.out).Devices) > 0 {
					t.Errorf("core refuses: %s; nvidia-ctk makes %d devices", made.err, len(decode(t, theirs.out).Devices))
				}
				return
			}
			if theirs.exit != 0 {
				t.Fatalf("nvidia-ctk cdi generate: exit %d: %s", theirs.exit, theirs.err)
			}
			if d := diff.Diff(sorted(t, decode(t, theirs.out)), sorted(t, without(decode(t, made.out)))); d != "" {
				t.Errorf("nvidia-ctk (-) and core (+) differ:\n%s", d)
			}
			compared++
		})
	}
	if compared < 10 && !t.Failed() && able() == "" {
		t.Errorf("compared only %d hosts", compared)
	}
}

// NVIDIA's own service runs nvidia-ctk cdi generate without a flag, and the Spec that
// is on a host then has an empty driver root in a hook of each device. Each device of
// it is permitted, on every host of NVIDIA's driver.
func TestSpecsOfNvidiaCTKWithoutAFlagArePermitted(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	requireMachine(t)
	tried := 0
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			theirs := enter(t, name, program, "--quiet", "cdi", "generate")
			if theirs.exit != 0 {
				t.Skipf("nvidia-ctk makes no Spec: %s", theirs.err)
			}
			file := filepath.Join(t.TempDir(), "nvidia.yaml")
			if err := os.WriteFile(file, []byte(theirs.out), 0o644); err != nil {
				t.Fatal(err)
			}
			if ours := gpurig(t, "cdi", "validate", "--host", name, file); ours.exit != 0 && strings.Contains(theirs.out, "containerEdits") {
				t.Errorf("exit %d: %s", ours.exit, ours.err)
			}
			tried++
		})
	}
	if tried < 10 && !t.Failed() {
		t.Errorf("tried only %d hosts", tried)
	}
}

// Where one GPU of eight fell off the bus, nvidia-ctk makes no Spec at all, unless
// it is told the GPUs that are left, one by one; then it makes the devices that
// core makes by itself, and says nothing of the one that is missing. Core withholds
// that one by name, and refuses where all are lost, as nvidia-ctk does (B45).
func TestNvidiaCTKBesideALostGPU(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	requireMachine(t)
	const name = "dgx-a100"
	args := append([]string{program}, peers.CTKArgs(t, model(t, name), "json")...)
	ctk := func(fault string, more ...string) run {
		return gpurig(t, append(append([]string{"host", "enter", name, "--fault", fault, "--"}, args...), more...)...)
	}
	if r := ctk("off-bus:3"); r.exit == 0 || !strings.Contains(r.err, "GPU is lost") && !strings.Contains(r.err, "ERROR_GPU_IS_LOST") {
		t.Errorf("nvidia-ctk with a lost GPU: exit %d: %s", r.exit, r.err)
	}
	var left []string
	for _, i := range []string{"0", "1", "2", "4", "5", "6", "7"} {
		left = append(left, "--device-id", i)
	}
	theirs := ctk("off-bus:3", left...)
	made := gpurig(t, "cdi", "generate", "--host", name, "--format", "json", "--quiet", "--fault", "off-bus:3")
	if theirs.exit != 0 || made.exit != 0 {
		t.Fatalf("the seven that are left: nvidia-ctk exit %d: %s; gpurig exit %d: %s", theirs.exit, theirs.err, made.exit, made.err)
	}
	seven := decode(t, theirs.out)
	seven.Devices = slices.DeleteFunc(seven.Devices, func(d specs.Device) bool { return d.Name == "all" }) // seven are not all
	if d := diff.Diff(sorted(t, seven), sorted(t, decode(t, made.out))); d != "" {
		t.Errorf("nvidia-ctk (-) and core (+) differ on the seven:\n%s", d)
	}
	if !strings.Contains(made.err, "nvidia.com/gpu=3") || strings.Contains(theirs.err, "GPU-") {
		t.Errorf("the lost GPU: core says %q, nvidia-ctk %q", made.err, theirs.err)
	}
	all := []string{"cdi", "generate", "--host", name}
	for i := range 8 {
		all = append(all, "--fault", "off-bus:"+strconv.Itoa(i))
	}
	if r := gpurig(t, all...); r.exit == 0 || r.out != "" || !strings.Contains(r.err, "GPU 0") {
		t.Errorf("all GPUs lost: exit %d, %q, %s", r.exit, r.out, r.err)
	}
}

// A Spec that nvidia-ctk writes where runtimes look for it, it lists again: every
// device by its qualified name.
func TestNvidiaCTKListsItsDevices(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	for name, want := range map[string][]string{
		"dgx-a100":        {"nvidia.com/gpu=0", "nvidia.com/gpu=7", "nvidia.com/gpu=all"},
		"a100-mig-2g-3g":  {"nvidia.com/gpu=0:0", "nvidia.com/gpu=0:1", "nvidia.com/gpu=all"},
		"jetson-agx-orin": {"nvidia.com/gpu=0", "nvidia.com/gpu=all"},
		"igx-orin":        {"nvidia.com/gpu=0", "nvidia.com/gpu=all"},
		"vgpu-a40":        {"nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all"},
		"workstation":     {"nvidia.com/gpu=0", "nvidia.com/gpu=all"},
	} {
		t.Run(name, func(t *testing.T) {
			said := says(t, name, "sh", "-c", "mkdir -p /etc/cdi && "+program+" --quiet cdi generate --output /etc/cdi/nvidia.yaml 2>/dev/null && "+program+" --quiet cdi list")
			for _, w := range want {
				if !slices.Contains(strings.Fields(said), w) {
					t.Errorf("nvidia-ctk cdi list has no %s:\n%s", w, said)
				}
			}
		})
	}
}

func decode(t *testing.T, text string) *specs.Spec {
	t.Helper()
	var s specs.Spec
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&s); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return &s
}

// without takes from a Spec of ours what core adds: on Tegra the CSV files
// themselves, for containers in containers.
func without(s *specs.Spec) *specs.Spec {
	s.ContainerEdits.Mounts = slices.DeleteFunc(s.ContainerEdits.Mounts, func(m *specs.Mount) bool {
		return strings.HasSuffix(m.HostPath, ".csv") && strings.Contains(m.HostPath, "/host-files-for-container.d/")
	})
	return s
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
	return string(data) + "\n"
}
