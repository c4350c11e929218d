package smi_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/driverctl/driverctltest"
	"gpurig/fakehw/nvmlfake"
)

// A liveHost changes as nvidia-smi asks, and keeps the state of its rig up to
// date.
type liveHost struct {
	*rig
	mu    sync.Mutex
	state driverctl.State
	on    driverctl.Conditions
}

func (l *liveHost) Control(_ context.Context, c driverctl.Command, _ driverctl.Caller) driverctl.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, r := driverctl.Apply(l.state, c, l.on)
	l.state = next
	l.become(next.Model, next.NVML(nvmlfake.Options{}))
	return r
}

func alive(t testing.TB, m host.Model) *liveHost {
	t.Helper()
	h := &liveHost{rig: newRig(t, m, nvmlfake.Options{}), state: driverctl.State{Model: m}}
	h.env = append(h.env, driverctl.Env+"="+driverctltest.Serve(t, h))
	return h
}

// step runs nvidia-smi and compares output, but for the width of gaps, which the
// guides lose in print, and exit code.
func (l *liveHost) step(args, want string, code int) {
	l.t.Helper()
	out, got := l.run(strings.Fields(args)...)
	if got != code || squeeze(out) != squeeze(want) {
		l.t.Errorf("nvidia-smi %s = %d, want %d\n%swant\n%s", args, got, code, out, want)
	}
}

// squeeze leaves one space of each gap, and no lines without words.
func squeeze(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if strings.Trim(line, "+-=| \n") != "" {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, "\n")
}

// The walk of the MIG user guide on an A100 40GB, with what the guide prints.
// https://docs.nvidia.com/datacenter/tesla/mig-user-guide/getting-started-with-mig.html
func TestTheWalkOfTheMIGGuide(t *testing.T) {
	h := alive(t, profile(t, "dgx-a100"))
	bus := h.state.Model.NVIDIAGPUs()[0].PCI.BDF.NVML()
	h.step("mig -lgip -i 0", "No MIG-enabled devices found.\n", 6)
	h.step("-i 0 -mig 1", "Enabled MIG Mode for GPU "+bus+"\nAll done.\n", 0)
	h.step("-i 0 --query-gpu=pci.bus_id,mig.mode.current --format=csv", "pci.bus_id, mig.mode.current\n"+bus+", Enabled\n", 0)
	h.step("mig -lgipp", `GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 15 Placements: {0,2,4,6}:2
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
`, 0)
	h.step("mig -lgi", "No GPU instances found: Not Found\n", 6)
	h.step("mig -cgi 9,3g.20gb -C", `Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)
Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.20gb (ID  2)
Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.20gb (ID  9)
Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG 3g.20gb (ID  2)
`, 0)
	h.step("mig -lgi", `
+----------------------------------------------------+
| GPU instances:                                     |
| GPU   Name          Profile  Instance   Placement  |
|                       ID       ID       Start:Size |
|====================================================|
|   0  MIG 3g.20gb       9        1          0:4     |
+----------------------------------------------------+
|   0  MIG 3g.20gb       9        2          4:4     |
+----------------------------------------------------+
`, 0)
	h.step("mig -lci", `
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|   0      1       MIG 3g.20gb          2         0          0:3     |
|   0      2       MIG 3g.20gb          2         0          0:3     |
`, 0)
	h.step("mig -cgi 19", "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient Resources\nFailed to create GPU instances: Insufficient Resources\n", 23)
	h.step("mig -cgi 7g.80gb", "Unable to create a GPU instance on GPU  0 using profile 7g.80gb: Invalid Argument\nFailed to create GPU instances: Invalid Argument\n", 2)
	h.step("mig -dgi", "Unable to destroy GPU instance ID  1 from GPU  0: In use by another client\nFailed to destroy GPU instances: In use by another client\n", 19)
	h.step("mig -dci -ci 0 -gi 1", "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1\n", 0)
	h.step("mig -lcip -gi 1", `
| Compute instance profiles:                                                           |
| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |
|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |
|         ID                                                          CE    JPEG       |
|   0      1       MIG 1c.3g.20gb       0      3/3           14        2     0     0   |
|                                                                      3     0         |
|   0      1       MIG 2c.3g.20gb       1      1/1           28        2     0     0   |
|                                                                      3     0         |
|   0      1       MIG 3g.20gb          2*     1/1           42        2     0     0   |
|                                                                      3     0         |
`, 0)
	h.step("mig -cci 0,0,0 -gi 1", `Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG 1c.3g.20gb (ID  0)
Successfully created compute instance ID  1 on GPU  0 GPU instance ID  1 using profile MIG 1c.3g.20gb (ID  0)
Successfully created compute instance ID  2 on GPU  0 GPU instance ID  1 using profile MIG 1c.3g.20gb (ID  0)
`, 0)
	out, _ := h.run()
	sameWidths(t, out)
	if want := "| 0 1 0 0 | 0MiB / 19968MiB | 14 0 | 3 0 2 0 0 |\n| | 0MiB / 32767MiB | | |\n| 0 1 1 1 | | 14 0 | 3 0 2 0 0 |"; !strings.Contains(squeeze(out), want) {
		t.Errorf("no rows that share memory in\n%s", out)
	}
	h.step("mig -dci -ci 0,1,2 -gi 1", `Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1
Successfully destroyed compute instance ID  1 from GPU  0 GPU instance ID  1
Successfully destroyed compute instance ID  2 from GPU  0 GPU instance ID  1
`, 0)
	h.step("mig -dci", "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  2\n", 0)
	h.step("mig -dci", "No compute instances found: Not Found\n", 6)
	h.step("mig -dgi", "Successfully destroyed GPU instance ID  1 from GPU  0\nSuccessfully destroyed GPU instance ID  2 from GPU  0\n", 0)
	h.step("mig -cgi 3g.20gb:4,19:0", "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)\nSuccessfully created GPU instance ID  7 on GPU  0 using profile MIG 1g.5gb (ID 19)\n", 0)
	h.step("mig -dgi -gi 7", "Successfully destroyed GPU instance ID  7 from GPU  0\n", 0)
	h.step("mig -dgi -i 0", "Successfully destroyed GPU instance ID  2 from GPU  0\n", 0)
	h.step("-i 0 -mig 0", "Disabled MIG Mode for GPU "+bus+"\nAll done.\n", 0)
}

// What Kata's NVIDIA guide prints of an A100 80GB, byte for byte but for the gaps.
// https://github.com/kata-containers/kata-containers/blob/main/docs/use-cases/NVIDIA-GPU-passthrough-and-Kata.md
func TestTheWalkOfKatasGuide(t *testing.T) {
	m := profile(t, "a100-mig-mixed")
	h := alive(t, m)
	h.step("-i 1 -mig 1", "Enabled MIG Mode for GPU "+m.NVIDIAGPUs()[1].PCI.BDF.NVML()+"\nAll done.\n", 0)
	h.step("-i 1 --gpu-reset", "GPU "+m.NVIDIAGPUs()[1].PCI.BDF.NVML()+" was successfully reset.\nAll done.\n", 0)
	out, _ := h.run("mig", "-lgip", "-i", "1")
	for _, want := range []string{
		"| GPU instance profiles: |", "| GPU Name ID Instances Memory P2P SM DEC ENC |", "| Free/Total GiB CE JPEG OFA |",
		"| 1 MIG 1g.10gb 19 7/7 9.50 No 14 0 0 |\n| 1 0 0 |", "| 1 MIG 1g.10gb+me 20 1/1 9.50 No 14 1 0 |\n| 1 1 1 |",
		"| 1 MIG 2g.20gb 14 3/3 19.50 No 28 1 0 |\n| 2 0 0 |",
	} {
		if !strings.Contains(squeeze(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, code := h.run("mig", "-cgi", "19", "-i", "1")
	if code != 0 || !strings.HasPrefix(out, "Successfully created GPU instance ID ") || !strings.HasSuffix(out, " on GPU  1 using profile MIG 1g.10gb (ID 19)\n") {
		t.Errorf("-cgi 19 = %d %s", code, out)
	}
	gi := strings.Fields(out)[5]
	out, code = h.run("mig", "-i", "1", "-cci", "-gi", gi)
	if code != 0 || !strings.HasPrefix(out, "Successfully created compute instance ID  0 on GPU  1 GPU instance ID ") {
		t.Errorf("-cci -gi %s = %d %s", gi, code, out)
	}
	out, _ = h.run("-i", "1")
	if want := "| 1 " + gi + " 0 0 | 0MiB / 9728MiB | 14 0 | 1 0 0 0 0 |"; !strings.Contains(squeeze(out), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func TestAModeThatHasToWaitSaysWhy(t *testing.T) {
	h := alive(t, profile(t, "dgx-a100"))
	bus := h.state.Model.NVIDIAGPUs()[0].PCI.BDF.NVML()
	h.on.InUse = func(node string) bool { return node == "/dev/nvidia0" }
	out, code := h.run("-i", "0", "-mig", "1")
	if code != 0 || !strings.HasPrefix(out, "Warning: MIG mode is in pending enable state for GPU "+bus+":In use by another client\n"+bus+" is currently being used by") || !strings.HasSuffix(out, "All done.\n") {
		t.Errorf("-mig 1 in use = %d %s", code, out)
	}
	h.step("-i 0 --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader", "Disabled, Enabled\n", 0)
	if out, code := h.run("-r", "-i", "0"); code == 0 || !strings.HasPrefix(out, "GPU "+bus+" is currently in use by another process.\n") {
		t.Errorf("-r in use = %d %s", code, out)
	}
	h.on.InUse = nil
	h.step("-r -i 0", "GPU "+bus+" was successfully reset.\nAll done.\n", 0)
	h.step("-i 0 --query-gpu=mig.mode.current --format=csv,noheader", "Enabled\n", 0)
}

func TestAUserChangesNothing(t *testing.T) {
	h := alive(t, profile(t, "a100-mig-empty"))
	bus := h.state.Model.NVIDIAGPUs()[0].PCI.BDF.NVML()
	h.on.Caller = driverctl.Caller{UID: 1000, GID: 1000}
	h.step("-mig 0", "Unable to disable MIG Mode for GPU "+bus+": Insufficient Permissions\nTerminating early due to previous errors.\n", 4)
	h.step("-pm 1", "Unable to set persistence mode for GPU "+bus+": Insufficient Permissions\nTerminating early due to previous errors.\n", 4)
	h.step("mig -cgi 19", "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient Permissions\nFailed to create GPU instances: Insufficient Permissions\n", 4)
	h.on.Caller = driverctl.Caller{}
	h.step("-pm 1", "Enabled Legacy persistence mode for GPU "+bus+".\nAll done.\n", 0)
	h.step("-pm 1", "Persistence mode is already Enabled for GPU "+bus+".\nAll done.\n", 0)
	h.step("-pm 0", "Disabled persistence mode for GPU "+bus+".\nAll done.\n", 0)
	if out, code := h.run("-mig", "0"); code != 0 || !strings.Contains(out, "\n\nWarning: persistence mode is disabled on device "+bus+".") {
		t.Errorf("-mig 0 without persistence = %d %s", code, out)
	}
}

func TestAGPUWithoutMIGIsAWarning(t *testing.T) {
	h := alive(t, profile(t, "workstation"))
	bus := h.state.Model.NVIDIAGPUs()[0].PCI.BDF.NVML()
	h.step("-mig 1", "Unable to enable MIG Mode for GPU "+bus+": Not Supported\nTreating as warning and moving on.\nAll done.\n", 0)
	h.step("-pl 300", "Changing power management limit is not supported for GPU: "+bus+".\nTreating as warning and moving on.\nAll done.\n", 0)
}
