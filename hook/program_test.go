package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

var builtDir string // of buildProgram; empty: it did not run

// buildProgram builds cdi-hook as it is shipped.
var buildProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cdi-hook-test-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "cdi-hook")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "osusergo,netgo", "-ldflags", "-s -w -E gpurig/hook.entry", "-o", name, "gpurig/cmd/cdi-hook")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return name, nil
})

// hookProgram is cdi-hook as it is shipped, where every user can run it.
func hookProgram(t testing.TB) string {
	t.Helper()
	name, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// open lets other users come to a directory.
func open(t testing.TB, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// mountHere makes a mount point of a directory.
func mountHere(t testing.TB, dir string) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		skip(t, "cannot mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}
