package programs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurig/core/host"
	"gpurig/fakehw/profiles"
	"gpurig/runner/cli"
)

// asCLI makes this test binary the gpurig program: it is started under that name.
const asCLI = "gpurig"

func TestMain(m *testing.M) {
	cli.Init()
	if filepath.Base(os.Args[0]) == asCLI {
		os.Exit(cli.Main(context.Background(), cli.Stdio(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// A run is what became of a command.
type run struct {
	out, err string
	exit     int
}

// gpurig runs one command line of ours.
func gpurig(tb testing.TB, args ...string) run {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = asCLI
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) || ctx.Err() != nil {
		tb.Fatalf("gpurig %q: %v", args, err)
	}
	return run{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// enter runs a program on a fake host.
func enter(tb testing.TB, name string, command ...string) run {
	tb.Helper()
	requireMachine(tb)
	return gpurig(tb, append([]string{"host", "enter", name, "--"}, command...)...)
}

// says is enter for a program that must succeed: what it prints.
func says(tb testing.TB, name string, command ...string) string {
	tb.Helper()
	r := enter(tb, name, command...)
	if r.exit != 0 {
		tb.Fatalf("%q on %s: exit %d: %s%s", command, name, r.exit, r.out, r.err)
	}
	return r.out
}

// able tells once why no machine can be entered here; empty: one can.
var able = sync.OnceValue(func() string {
	cmd := exec.Command("/proc/self/exe", "host", "enter", "no-gpu", "--", "true")
	cmd.Args[0] = asCLI
	out, err := cmd.CombinedOutput()
	if err != nil {
		return strings.TrimSpace(err.Error() + ": " + string(out))
	}
	return ""
})

func requireMachine(tb testing.TB) {
	tb.Helper()
	if why := able(); why != "" {
		missing(tb, "no fake machine can be entered here: "+why)
	}
}

// requireNodes is requireMachine for what takes the machine's nodes, owners or
// mounts as root has them: a user namespace shows nodes that cannot be opened.
func requireNodes(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: in a user namespace nodes cannot be opened, and owners are not mapped")
	}
	requireMachine(tb)
}

// requireProgram returns the path of a program of this machine.
func requireProgram(tb testing.TB, name, pkg string) string {
	tb.Helper()
	for _, dir := range []string{"/usr/sbin", "/sbin"} { // not in everybody's PATH
		if p := filepath.Join(dir, name); isProgram(p) {
			return p
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		missing(tb, "there is no "+name+"; apt-get install "+pkg)
	}
	return p
}

func isProgram(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// missing skips, or fails where nothing may be missing.
func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("GPURIG_REQUIRE_MACHINE") != "" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

func model(tb testing.TB, name string) host.Model {
	tb.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
