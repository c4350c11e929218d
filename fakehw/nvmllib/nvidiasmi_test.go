package nvmllib_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurig/fakehw/nvmllib"
)

// NVIDIA's own nvidia-smi, as a package of the driver has it, takes the library for
// that of its driver. GPURIG_NVIDIA_SMI names it, or several with colons between them.
func TestNVIDIAsOwnProgram(t *testing.T) {
	programs := filepath.SplitList(os.Getenv("GPURIG_NVIDIA_SMI"))
	if len(programs) == 0 {
		t.Skip("GPURIG_NVIDIA_SMI names no nvidia-smi of NVIDIA's")
	}
	onHost(t, nvmllib.State(profile(t, "dgx-h100")))
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(library(t)))
	for _, program := range programs {
		for args, want := range map[string]string{
			"-L":                    "GPU 7: NVIDIA H100 80GB HBM3 (UUID: GPU-",
			"":                      "0MiB /  81559MiB",
			"-q":                    "Product Architecture                  : Hopper",
			"-q -x":                 "<product_architecture>Hopper</product_architecture>",
			"topo -m":               "56-111,168-223",
			"topo -p2p r":           "OK",
			"nvlink -s -i 0":        "Link 17: 26.562 GB/s",
			"dmon -c 1":             "70     30",
			"--query-gpu=uuid,name": "GPU-",
		} {
			argv := strings.Fields(args)
			if strings.HasPrefix(args, "--query") {
				argv = append(argv, "--format=csv")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it loops where it is told nonsense
			out, err := exec.CommandContext(ctx, program, argv...).CombinedOutput()
			cancel()
			if text := strings.Join(strings.Fields(string(out)), " "); err != nil || !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s %s: %v, no %q in\n%.2000s", program, args, err, want, out)
			}
		}
	}
}
