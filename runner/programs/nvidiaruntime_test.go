package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fixtures/golden"
	"gpurig/reports"
)

// LXD and Incus do with their instance options nvidia.* what is written in the golden
// file of their version, of which docs/lxd.md has a table: their own code, LXC's hook
// and our nvidia-container-cli give the container its files on a fake machine.
// GPURIG_LXD_DAEMON names the daemon of another version of LXD.
func TestNVIDIAOptionsAreCarriedOutAsWritten(t *testing.T) {
	requireMachine(t)
	if os.Geteuid() != 0 {
		missing(t, "a daemon needs root")
	}
	gpurig, err := filepath.Abs("../../bin/gpurig")
	if err == nil {
		_, err = os.Stat(filepath.Join(filepath.Dir(gpurig), "nvidia-container-cli"))
	}
	if err != nil {
		missing(t, fmt.Sprintf("%v: make build makes it", err))
	}
	for flavour, program := range map[string]string{"lxd": "lxd", "incus": "/usr/libexec/incus/incusd"} {
		t.Run(flavour, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "report.json")
			out, err := exec.CommandContext(t.Context(), gpurig, "run", "--target", flavour+"-native", "--lxd-socket", "private", "--report", file, "legacy").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			report, err := reports.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			version := strings.Join(strings.SplitN(report.Machine.Versions[flavour], ".", 3)[:2], ".")
			var b strings.Builder
			for _, r := range report.Results {
				fmt.Fprintf(&b, "%s: %s\n", r.ID(), r.Verdict)
				if r.Reason != "" {
					fmt.Fprintf(&b, "  %s\n", r.Reason)
				}
				for _, x := range r.Findings {
					fmt.Fprintf(&b, "  %s\n", instanceName.ReplaceAllString(x.Text(), "NAME"))
				}
			}
			golden.Equal(t, "testdata/nvidiaruntime/"+flavour+"-"+version+".txt", []byte(b.String()))
		})
	}
}
