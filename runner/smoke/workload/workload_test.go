package workload_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/runner/smoke"
	"gpurig/runner/smoke/workload"
)

// asProgram in the environment makes the test program gpurig-smoke.
const asProgram = "GPURIG_TEST_AS_SMOKE"

// spoilt is an instruction of the kernels that another one takes the place of.
const spoilt = "GPURIG_TEST_SPOILT"

func TestMain(m *testing.M) {
	machine.Init()
	if os.Getenv(asProgram) != "" {
		if ins := os.Getenv(spoilt); ins != "" {
			workload.Spoil(ins, "sub.f32")
		}
		os.Exit(workload.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// run runs the workload on a fake machine after a script. As in a container, there is
// nobody who would make nodes that are missing.
func run(t *testing.T, profile, before string) (smoke.Result, int) {
	t.Helper()
	machinetest.RequireNodes(t)
	return runIn(t, machine.Options{}, profile, before)
}

func runIn(t *testing.T, o machine.Options, profile, before string) (smoke.Result, int) {
	t.Helper()
	machinetest.Require(t)
	h := machinetest.Host(t, profile)
	o = machinetest.Working(t, h, o)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, exit := machinetest.Run(t, h, o, "sh", "-euc", "TMPDIR="+t.TempDir()+"\nexport "+driverctl.Env+"=/nobody\n"+before+"\n"+asProgram+"=1 exec "+self+" 2>/dev/null")
	var r smoke.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r, exit
}

// In a machine that was entered without privilege, nodes are seen and not opened;
// owner and mode say who may.
func TestWithoutPrivilege(t *testing.T) {
	for _, profile := range []string{"t4-server", "a100-mig-2g-3g", "igx-orin"} {
		if r, exit := runIn(t, machine.Options{UserNamespace: true}, profile, ""); exit != 0 || r.Failure != nil {
			t.Errorf("%s: exit code %d, %+v", profile, exit, r.Failure)
		}
	}
}

func TestEveryDeviceComputes(t *testing.T) {
	for _, tc := range []struct {
		profile, before string
		devices         int
		first           string
	}{
		{"rhel-t4", "", 1, "Tesla T4"},
		{"dgx-a100", "", 8, "NVIDIA A100-SXM4-40GB"},
		{"dgx-a100", "export CUDA_VISIBLE_DEVICES=3,1", 2, "NVIDIA A100-SXM4-40GB"},
		{"dgx-a100", "rm /dev/nvidia2 /dev/nvidia5", 6, "NVIDIA A100-SXM4-40GB"},
		{"a100-mig-mixed", "", 1, "NVIDIA A100-SXM4-80GB MIG 3g.40gb"},
		{"a100-mig-mixed", "export CUDA_VISIBLE_DEVICES=MIG-08793888-85ca-5a45-a538-802c3ac009ed", 1, "NVIDIA A100-SXM4-80GB MIG 1g.10gb"},
		{"jetson-agx-orin", "", 1, "Orin"},
		{"jetson-thor", "", 1, "NVIDIA Thor"},
		{"igx-orin", "", 2, "NVIDIA RTX A6000"},
	} {
		t.Run(tc.profile+" "+tc.before, func(t *testing.T) {
			r, exit := run(t, tc.profile, tc.before)
			if exit != 0 || r.Failure != nil {
				t.Fatalf("exit code %d, %+v", exit, r.Failure)
			}
			if len(r.Devices) != tc.devices || r.Devices[0].Name != tc.first || len(r.Kernels) != 3*tc.devices {
				t.Errorf("devices %+v, %d kernels; want %d with 3 kernels each, the first %q", r.Devices, len(r.Kernels), tc.devices, tc.first)
			}
			for _, k := range r.Kernels {
				if k.Result != smoke.Pass || k.Elements < 1000 {
					t.Errorf("kernel %+v", k)
				}
			}
			if r.NVML.Problem != "" || r.Driver == "" || r.CUDA == "" || !strings.Contains(r.Library, "/libcuda.so.") {
				t.Errorf("nvml %+v, driver %q, CUDA %q, library %q", r.NVML, r.Driver, r.CUDA, r.Library)
			}
		})
	}
}

// Each thing withheld fails at its step, with the code of the real library. What a
// device cgroup forbids is tested where containers are real.
func TestWhatIsWithheldIsNamed(t *testing.T) {
	const caps = "rm -r /dev/nvidia-caps/nvidia-cap"
	for _, tc := range []struct {
		name, profile, before string
		step                  smoke.Step
		cause                 smoke.Cause
		code                  int
		says                  string
	}{
		{"uvm node", "rhel-t4", "rm /dev/nvidia-uvm", smoke.Init, smoke.NodeMissing, 999, "/dev/nvidia-uvm: no such file"},
		{"control node", "rhel-t4", "rm /dev/nvidiactl", smoke.Init, smoke.NodeMissing, 100, "/dev/nvidiactl: no such file"},
		{"the only GPU's node", "rhel-t4", "rm /dev/nvidia0", smoke.Init, smoke.NoDevice, 100, "no CUDA-capable device"},
		{"library link", "rhel-t4", "rm /usr/lib64/libcuda.so.1", smoke.Library, smoke.NotFound, 0, "libcuda.so.1"},
		{"no library at all", "no-gpu", "", smoke.Library, smoke.NotFound, 0, "libcuda.so.1"},
		{"MIG capability nodes", "a100-mig-2g-3g", caps + "[3-9]* " + strings.TrimPrefix(caps, "rm -r ") + "[1-2]?* || true", smoke.Init, smoke.NodeMissing, 100, "/dev/nvidia-caps"},
		{"another version of the library", "rhel-t4", "mkdir -p $TMPDIR/other; cp /usr/lib64/libcuda.so.1 $TMPDIR/other/libcuda.so.575.57.08; ln -sf libcuda.so.575.57.08 $TMPDIR/other/libcuda.so.1; export LD_LIBRARY_PATH=$TMPDIR/other",
			smoke.Init, smoke.WrongVersion, 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
		{"a file that is no library", "rhel-t4", "mkdir -p $TMPDIR/none; echo hello >$TMPDIR/none/libcuda.so.1; export LD_LIBRARY_PATH=$TMPDIR/none", smoke.Library, smoke.NotLoadable, 0, "/none/libcuda.so.1: "},
		{"a kernel that computes something else", "rhel-t4", "export " + spoilt + "=add.f32", smoke.Kernels, smoke.WrongResult, 0, "vadd on device 0: element 0 of 2051 is "},
		{"a kernel that the compiler refuses", "rhel-t4", "export " + spoilt + "=fma.rn.f32", smoke.Kernels, smoke.CUDAError, 218, "cuModuleLoadData"},
		{"MIG mode without an instance", "a100-mig-empty", "", smoke.Init, smoke.NodeMissing, 100, "MIG mode"},
		{"an Orin's memory node", "jetson-agx-orin", "rm /dev/nvmap", smoke.Init, smoke.CUDAError, 801, "CUDA_ERROR_NOT_SUPPORTED"},
		{"an Orin's render nodes", "jetson-agx-orin", "rm -r /dev/dri", smoke.Init, smoke.NodeMissing, 801, "renderD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, exit := run(t, tc.profile, tc.before)
			f := r.Failure
			if f == nil {
				t.Fatalf("nothing failed: %+v", r)
			}
			if f.Step != tc.step || f.Cause != tc.cause || f.Code != tc.code || !strings.Contains(f.Reason, tc.says) {
				t.Errorf("%+v; want step %s, cause %s, code %d, %q\nnodes %+v, nvml %+v", *f, tc.step, tc.cause, tc.code, tc.says, r.Nodes, r.NVML)
			}
			if exit != smoke.ExitCodes[tc.cause] || exit == 0 {
				t.Errorf("exit code %d; want %d", exit, smoke.ExitCodes[tc.cause])
			}
		})
	}
}

func TestArgumentsAreRefused(t *testing.T) {
	var out, errs strings.Builder
	if code := workload.Main([]string{"x"}, &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "want no arguments") {
		t.Errorf("exit code %d, output %q, error %q", code, out.String(), errs.String())
	}
}

// BenchmarkSmoke is the workload's own part on a machine of one GPU and of eight, with
// the start of its process.
func BenchmarkSmoke(b *testing.B) {
	for _, profile := range []string{"rhel-t4", "dgx-a100"} {
		b.Run(profile, func(b *testing.B) { benchSmoke(b, profile) })
	}
}

func benchSmoke(b *testing.B, profile string) {
	machinetest.RequireNodes(b)
	h := machinetest.Host(b, profile)
	o := machinetest.Working(b, h, machine.Options{})
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	// Entered once: the shell says how long each run took.
	const rounds = 20
	script := asProgram + "=1 " + self + " >/dev/null; a=$(date +%s%N); for i in $(seq 20); do " + asProgram + "=1 " + self + " >/dev/null; done; echo $(($(date +%s%N) - a))"
	for b.Loop() {
		out := strings.TrimSpace(machinetest.Shell(b, h, o, script))
		var ns float64
		if err := json.Unmarshal([]byte(out), &ns); err != nil {
			b.Fatalf("%v: %q", err, out)
		}
		b.ReportMetric(ns/rounds/1e6, "ms/smoke")
	}
}
