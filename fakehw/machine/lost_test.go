package machine_test

import (
	"strings"
	"testing"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// nvidia-smi names a GPU that fell off the bus by its address, and how it does so
// has changed with the branch of the driver.
func TestNvidiaSMINamesALostGPU(t *testing.T) {
	machinetest.Require(t)
	for _, tc := range []struct{ profile, args, want string }{
		{"t4-server", "-L", "GPU0000:3B:00.0"},
		{"t4-server", "-q -i 0000:3b:00.0", "GPU0000:3B:00.0"},
		{"l40s-server", "--query-gpu=name --format=csv", "GPU0: 0000:"},
	} {
		h := machinetest.Host(t, tc.profile)
		lost, err := fault.Parse("off-bus:0")
		if err == nil {
			err = h.ChangeFaults(func(now fault.List) (fault.List, error) { return now.With(lost) })
		}
		if err != nil {
			t.Fatal(err)
		}
		got, exit := machinetest.Run(t, h, machinetest.Working(t, h, machine.Options{}), "sh", "-c", "nvidia-smi "+tc.args+" 2>&1 >/dev/null")
		want := "Unable to determine the device handle for " + tc.want
		if exit != 15 || !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ": GPU is lost.  Reboot the system to recover this GPU\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s, nvidia-smi %s: exit code %d\n%swant\n%s...", tc.profile, tc.args, exit, got, want)
		}
	}
}
