package hook_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpurig/hook"
)

// asHook is the name by which this test program is cdi-hook; with asHookQuick it
// is one that has less patience.
const (
	asHook      = "cdi-hook"
	asHookQuick = "cdi-hook-quick"
)

var quick = hook.Limits{Run: 200 * time.Millisecond, Grace: 200 * time.Millisecond}

func TestMain(m *testing.M) {
	switch name := os.Args[0]; {
	case name == asHook, strings.HasPrefix(name, "cdi-hook: "):
		os.Exit(hook.Main(os.Args, hook.DefaultLimits))
	case name == asHookQuick:
		os.Exit(hook.Main(os.Args, quick))
	case name == asFiltered, name == asFilteredStarter:
		os.Exit(filteredMain())
	case name == asConfined:
		os.Exit(confinedMain())
	case name == asRooted:
		os.Exit(rootedMain())
	case name == asGreedy:
		os.Exit(greedyMain())
	case name == asIntruder:
		os.Exit(intruderMain())
	}
	if err := ownMounts(); err != nil {
		fmt.Fprintf(os.Stderr, "mounts are compared below each test's own folder only: %v\n", err)
		if thorough() {
			os.Exit(1)
		}
	}
	code := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// hookCommand is this program as cdi-hook, with nothing of our environment.
func hookCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Args[0] = asHook
	cmd.Env = []string{}
	return cmd
}

func runHook(t testing.TB, out, errOut *bytes.Buffer, args ...string) int {
	t.Helper()
	cmd := hookCommand(t, args...)
	cmd.Stdout, cmd.Stderr = out, errOut
	return exitCode(t, cmd)
}

func exitCode(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}
