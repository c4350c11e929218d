package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/runner/target/sandbox"
	"gpurig/runner/target/targettest"
)

// A Ctrl-C, which a terminal sends to every process that we started too, leaves the
// containers to us: who ends a run can still take back what it made.
func TestTheHelperOutlivesCtrlC(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a mount namespace needs root")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip(err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	w, err := sandbox.Open("v2", "", sandbox.Programs{Nsenter: nsenter, Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")})
	if err != nil {
		t.Skipf("no mount namespace can be made here: %v", err)
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if err := unix.Kill(w.PID(), sig); err != nil {
			t.Error(err)
		}
	}
	if err := w.Output(t.Context(), nil, "/bin/sh", "-c", "exit"); err != nil {
		t.Errorf("a program in the namespace: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
