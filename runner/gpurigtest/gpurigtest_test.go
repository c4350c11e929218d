package gpurigtest_test

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/gpurigtest"
	"gpurig/scenarios"
)

func TestMain(m *testing.M) { gpurigtest.Main(m) }

func TestScenariosOfAFolderAreSubtests(t *testing.T) {
	gpurigtest.Run(t, "testdata/lab", gpurigtest.Options{Label: "lab && !slow"})
}

// On a host whose GPU fell off the bus the scenario fails, and the text names the
// device: the negative control of the test above.
func TestAFailureNamesWhatDiffers(t *testing.T) {
	r, err := gpurigtest.New(gpurigtest.Options{Faults: []string{"off-bus:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := scenarios.Load(runner.Words(), "testdata/lab")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range scenarios.ExpandAll(all) {
		if verdict, text := r.Judge(t, v); verdict != reports.Fail || !strings.Contains(text, "nvidia.com/gpu=0") {
			t.Errorf("%s = %s, %q; want a failure that names nvidia.com/gpu=0", v.ID(), verdict, text)
		}
	}
}

func TestAMistakeInAFaultIsAnError(t *testing.T) {
	if r, err := gpurigtest.New(gpurigtest.Options{Faults: []string{"off-the-bus"}}); err == nil {
		r.Close()
		t.Error("a fault that there is none of is taken")
	}
}

// gpus is code of a project: it counts NVIDIA's GPUs by the driver's files.
func gpus(machine afero.Fs) (int, error) {
	infos, err := afero.Glob(machine, "/proc/driver/nvidia/gpus/*/information")
	return len(infos), err
}

func Example() {
	machine := gpurigtest.Host(&testing.T{}, "dgx-a100")
	n, err := gpus(machine)
	fmt.Println(n, "GPUs", err)

	link, err := machine.(afero.LinkReader).ReadlinkIfPossible("/sys/bus/pci/devices/0000:07:00.0/driver")
	fmt.Println("driver", path.Base(link), err)

	// What is written stays in memory.
	err = machine.RemoveAll("/proc/driver/nvidia/gpus/0000:07:00.0")
	n, _ = gpus(machine)
	fmt.Println(n, "GPUs", err)
	// Output:
	// 8 GPUs <nil>
	// driver nvidia <nil>
	// 7 GPUs <nil>
}

func TestEachHostIsItsOwn(t *testing.T) {
	a, b := gpurigtest.Host(t, "t4-server"), gpurigtest.Host(t, "t4-server")
	if err := a.Remove("/dev/nvidia0"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Stat("/dev/nvidia0"); !os.IsNotExist(err) {
		t.Errorf("the node that was removed: %v", err)
	}
	info, err := b.Stat("/dev/nvidia0")
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("the node of the other host: %v, %v; want a character device", info, err)
	}
}
