package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/tree"
	"gpurig/runner/cli"
)

func TestMain(m *testing.M) {
	cli.Init()
	testscript.Main(m, map[string]func(){
		"gpurig": func() { os.Exit(cli.Main(context.Background(), cli.Stdio(), os.Args[1:])) },
	})
}

// Each script is one story of the command line.
func TestScripts(t *testing.T) {
	home := os.Getenv("HOME")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("REALHOME", home) // has the cache of what was compiled
			recordings, err := filepath.Abs("../../fixtures/hosts")
			e.Setenv("RECORDINGS", recordings)
			return err
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "fakeroot": // this machine allows a fake root directory
				return mntns.Able() == nil, nil
			case "machine": // this machine allows a fake one; GPURIG_REQUIRE_MACHINE says that it must
				return os.Getenv(machinetest.RequireEnv) != "" || machinetest.Able() == nil, nil
			case "mount": // FUSE can be mounted for all to see
				return os.Getenv(machinetest.RequireEnv) != "" || mounts() == nil, nil
			case "cc":
				_, err := exec.LookPath("cc")
				return os.Getenv(machinetest.RequireEnv) != "" || err == nil, nil
			case "root": // who may make device nodes
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		UpdateScripts: os.Getenv("GPURIG_UPDATE_GOLDEN") != "",
	})
}

// mounts says why no FUSE can be mounted here.
func mounts() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	m, err := fusefs.Mount(context.Background(), tree.New(), dir, fusefs.Options{})
	if err != nil {
		return err
	}
	return m.Unmount()
}
