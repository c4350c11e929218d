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

	"gpurig/core/host"
	"gpurig/fakehw/profiles"
	"gpurig/runner/peers"
)

// The Spec that core generates for a host is the one that the unmodified
// nvidia-ctk generates in it, byte for byte once both are sorted, with the
// libraries that answer there. What core adds on purpose is taken away first. So it
// is without a flag, but for the driver root, which nvidia-ctk then leaves empty in
// the one hook that has it.
func TestNvidiaCTKMakesTheSameSpec(t *testing.T) {
	program := peers.Path(t, "nvidia-ctk")
	compared := map[string]int{}
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := model(t, name)
			if len(m.NVIDIAGPUs()) == 0 && m.Tegra == nil {
				t.Skip("no GPU of NVIDIA's driver")
			}
			same := func(form string, theirs []string, more ...string) {
				made := gpurig(t, append([]string{"cdi", "generate", "--host", name, "--format", "json", "--quiet"}, more...)...)
				r := enter(t, name, append([]string{program}, theirs...)...)
				if made.exit != 0 || r.exit != 0 { // nvidia-ctk fails too, or makes a Spec without any device
					if r.exit == 0 && len(decode(t, r.out).Devices) > 0 {
						t.Errorf("%s: core refuses: %s; nvidia-ctk makes %d devices", form, made.err, len(decode(t, r.out).Devices))
					}
					if made.exit == 0 && (form != "no flag" || usualPlaces(m)) {
						t.Errorf("%s: nvidia-ctk cdi generate: exit %d: %s", form, r.exit, r.err)
					}
					return
				}
				said := strings.ReplaceAll(sorted(t, decode(t, r.out)), emptyRoot, rootIsHost)
				if d := diff.Diff(said, sorted(t, without(decode(t, made.out)))); d != "" && (form != "no flag" || usualPlaces(m)) {
					t.Errorf("%s: nvidia-ctk (-) and core (+) differ:\n%s", form, d)
				}
				compared[form]++
			}
			same("--driver-root", peers.CTKArgs(t, m, "json"))
			same("no flag", []string{"--quiet", "cdi", "generate", "--format", "json"}, "--names", "index,uuid")
		})
	}
	if (compared["--driver-root"] < 10 || compared["no flag"] < 10) && !t.Failed() && able() == "" {
		t.Errorf("compared only %v hosts", compared)
	}
}

// The two ways of the hook apply-cuda-memory-limits to name the host's own root.
const (
	emptyRoot  = "\"--driver-root\",\n       \"\""
	rootIsHost = "\"--driver-root\",\n       \"/\""
)

// usualPlaces reports whether nvidia-ctk finds the driver of a host without a flag.
func usualPlaces(m host.Model) bool {
	return m.Userspace == nil || m.Userspace.DriverRoot == "" && m.Userspace.StorePath == ""
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
