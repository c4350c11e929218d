package smi_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/smi"
)

// A rig is nvidia-smi beside the NVML of a host.
type rig struct {
	t   testing.TB
	smi string
	env []string
	dir string
}

// newRig makes the rig of a host; it skips where there is no compiler.
func newRig(t testing.TB, m host.Model, opts nvmlfake.Options) *rig {
	t.Helper()
	lib, err := nvmllib.Build(t.Context(), "")
	if errors.Is(err, nvmllib.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	prog, err := smi.Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, smi: prog, dir: t.TempDir()}
	r.env = []string{"LD_LIBRARY_PATH=" + filepath.Dir(lib), "TZ=UTC", nvmllib.StateEnv + "=" + r.state()}
	r.become(m, opts)
	return r
}

func (r *rig) state() string { return filepath.Join(r.dir, "nvml.state") }

// become replaces the host.
func (r *rig) become(m host.Model, opts nvmlfake.Options) {
	r.t.Helper()
	if err := os.WriteFile(r.state()+".new", nvmllib.StateWith(m, opts), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.state()+".new", r.state()); err != nil {
		r.t.Fatal(err)
	}
}

// run runs nvidia-smi and returns what it wrote and its exit code.
func (r *rig) run(args ...string) (string, int) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), r.smi, args...)
	cmd.Env = r.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func profile(t testing.TB, name string) host.Model {
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

func TestListNamesGPUsAndMIGDevices(t *testing.T) {
	m := profile(t, "a100-mig-2g-3g")
	g := m.NVIDIAGPUs()[0]
	out, code := newRig(t, m, nvmlfake.Options{}).run("-L")
	want := "GPU 0: " + g.Name + " (UUID: " + g.UUID + ")\n"
	for _, gi := range g.MIG.Instances {
		want += "  MIG " + gi.Profile + "     Device  " + strconv.Itoa(gi.Compute[0].Index) + ": (UUID: " + gi.Compute[0].UUID + ")\n"
	}
	if code != 0 || out != want {
		t.Errorf("nvidia-smi -L = %d\n%swant\n%s", code, out, want)
	}
}

// Exit codes and messages where NVML does not start, and of what is asked wrongly.
func TestWhatIsWrongIsSaidAsTheRealProgramSaysIt(t *testing.T) {
	good := profile(t, "dgx-a100")
	mismatch, unloaded, none := good, good, good
	driver := *good.Driver
	driver.Version = "535.54.03"
	mismatch.Driver = &driver
	unloaded.Driver = nil
	none.GPUs = nil
	fail := func(call string, r nvml.Return) nvmlfake.Options {
		return nvmlfake.Options{Fail: map[string]nvml.Return{call: r}}
	}
	library := strings.Join(strings.Split(good.Userspace.Version, ".")[:2], ".")
	for _, tc := range []struct {
		name string
		m    host.Model
		opts nvmlfake.Options
		args string
		want string // the output begins with it
		code int
		rest bool // more follows
	}{
		{name: "no driver", m: unloaded, want: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n", code: 9},
		{name: "another library", m: mismatch, want: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: " + library + "\n", code: 18},
		{name: "nodes that cannot be opened", m: good, opts: fail("Init", nvml.ERROR_NO_PERMISSION), want: "Failed to initialize NVML: Insufficient Permissions\n", code: 4},
		{name: "no GPU", m: none, args: "-L", want: "No devices were found\n", code: 6},
		{name: "no such GPU", m: good, args: "-L -i 9", want: "No devices were found\n", code: 6},
		{name: "no such UUID", m: good, args: "-q -i GPU-00000000-0000-0000-0000-000000000000", want: "No devices were found\n", code: 6},
		{name: "a GPU off the bus", m: good, opts: fail("DeviceGetHandleByIndex:1", nvml.ERROR_GPU_IS_LOST), args: "-L", rest: true,
			want: "Unable to determine the device handle for GPU1: GPU is lost.  Reboot the system to recover this GPU\nGPU 0: ", code: 15},
		{name: "a GPU that answers nothing", m: good, opts: fail("DeviceGetPciInfo:0", nvml.ERROR_GPU_IS_LOST), args: "", rest: true,
			want: "Unable to determine the device handle for GPU0: GPU is lost.  Reboot the system to recover this GPU\n", code: 15},
		{name: "a field that fails", m: good, opts: fail("DeviceGetTemperature:0", nvml.ERROR_UNKNOWN), args: "-i 0 --query-gpu=index,temperature.gpu --format=csv,noheader", want: "0, [Unknown Error]\n"},
		{name: "an unknown field", m: good, args: "--query-gpu=index,cuda_version --format=csv", want: "Field \"cuda_version\" is not a valid field to query.\n\n", code: 2},
		{name: "a private field", m: good, args: "--query-gpu=q.brand --format=csv", want: "Field \"q.brand\" is not a valid field to query.\n\n", code: 2},
		{name: "no format", m: good, args: "--query-gpu=index", want: "\"--format=\" switch is missing.", code: 2, rest: true},
		{name: "an unknown option", m: good, args: "--no-such", want: "Option \"--no-such\" is not recognized. Please run 'nvidia-smi -h' for help.\n\n", code: 2},
		{name: "two commands", m: good, args: "-L -q", want: "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n", code: 2},
		{name: "what is not modelled", m: good, args: "daemon", want: "nvidia-smi daemon is not modelled by this fake host\n", code: 3},
		{name: "no processes", m: good, args: "--query-compute-apps=pid,used_memory --format=csv", want: "pid, used_gpu_memory [MiB]\n"},
		{name: "without units", m: good, args: "-i 0 --query-gpu=memory.total,power.limit --format=csv,nounits", want: "memory.total, power.limit\n40960, 400.00\n"},
		{name: "by bus address", m: good, args: "-i " + good.NVIDIAGPUs()[3].PCI.BDF.String() + " --query-gpu=index --format=csv,noheader", want: "3\n"},
		{name: "by UUID, twice", m: good, args: "-i " + good.NVIDIAGPUs()[2].UUID + ",2,5 --query-gpu=index --format=csv,noheader", want: "2\n5\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, code := newRig(t, tc.m, tc.opts).run(strings.Fields(tc.args)...)
			if code != tc.code || !strings.HasPrefix(out, tc.want) || !tc.rest && out != tc.want {
				t.Errorf("nvidia-smi %s = %d, want %d\n%swant\n%s", tc.args, code, tc.code, out, tc.want)
			}
		})
	}
}

func TestWithoutALibrary(t *testing.T) {
	r := newRig(t, profile(t, "no-gpu"), nvmlfake.Options{})
	r.env = []string{"LD_LIBRARY_PATH=" + t.TempDir()}
	if out, code := r.run(); code != 12 || !strings.HasPrefix(out, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.") {
		t.Errorf("= %d %s", code, out)
	}
}

// Every field can be asked for, and has one value a GPU.
func TestEveryFieldOfTheHelpIsACSVColumn(t *testing.T) {
	r := newRig(t, profile(t, "igx-orin"), nvmlfake.Options{})
	help, _ := r.run("--help-query-gpu")
	var fields []string
	for _, m := range regexp.MustCompile(`(?m)^"([^"]+)"(?: or "([^"]+)")?$`).FindAllStringSubmatch(help, -1) {
		fields = append(fields, m[1])
		if m[2] != "" {
			fields = append(fields, m[2])
		}
	}
	if len(fields) < 100 {
		t.Fatalf("%d fields in\n%s", len(fields), help)
	}
	for part := range slices.Chunk(fields, 100) {
		out, code := r.run("--query-gpu="+strings.Join(part, ","), "--format=csv")
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if code != 0 || err != nil || len(rows) != 3 || len(rows[0]) != len(part) {
			t.Fatalf("%d rows, %v, exit code %d\n%s", len(rows), err, code, out)
		}
		for _, row := range rows {
			if i := slices.IndexFunc(row, func(s string) bool { return strings.TrimSpace(s) == "" }); i >= 0 {
				t.Errorf("%s is empty", part[i])
			}
		}
	}
}
