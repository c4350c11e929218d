package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurig/fakehw/mntns"
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
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			recordings, err := filepath.Abs("../../fixtures/hosts")
			e.Setenv("RECORDINGS", recordings)
			return err
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "fakeroot": // this machine allows a fake root directory
				return mntns.Able() == nil, nil
			case "root": // who may make device nodes
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		UpdateScripts: os.Getenv("GPURIG_UPDATE_GOLDEN") != "",
	})
}
