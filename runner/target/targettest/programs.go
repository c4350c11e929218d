package targettest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// ProgramsEnv names a folder in which the helper programs are already.
const ProgramsEnv = "GPURIG_TEST_PROGRAMS"

// builtDir is where Programs built; empty: it did not.
var builtDir string

// Programs builds gpurig-probe and cdi-hook, once, and returns their folder.
// Main removes it.
var Programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(ProgramsEnv); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "gpurig-target-test-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	for _, name := range []string{"gpurig-probe", "cdi-hook"} {
		cmd := exec.Command("go", "build", "-tags", "osusergo,netgo", "-o", filepath.Join(dir, name), "gpurig/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, errors.New(name + ": " + string(out))
		}
	}
	return dir, nil
})

// Main is TestMain of a package whose tests use Programs. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}
