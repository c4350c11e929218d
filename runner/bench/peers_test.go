package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
)

func TestMain(m *testing.M) {
	mntns.Init()
	if os.Geteuid() == 0 && os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// inside says that this process has a mount namespace of its own.
const inside = "GPURIG_BENCH_INSIDE"

// enter runs this program once more in a mount namespace of its own: a hook
// wants its root to be a mount, and the machine's mounts are not ours to change.
func enter() int {
	runtime.LockOSThread() // the death of the thread that forks would end the child
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil { // not allowed here: what needs it says so
		fmt.Fprintln(os.Stderr, "bench: no mount namespace:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// built is where our own programs are, once made.
var built string

// ours builds one of our programs as the Makefile does and returns its path.
func ours(tb testing.TB, name string) string {
	tb.Helper()
	if built == "" {
		dir, err := os.MkdirTemp("", "gpurig-bench-*")
		if err != nil {
			tb.Fatal(err)
		}
		built = dir
	}
	out := filepath.Join(built, name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	args, cgo := []string{"build", "-trimpath", "-o", out}, "CGO_ENABLED=1"
	if name == "cdi-hook" {
		args, cgo = append(args, "-tags", "osusergo,netgo", "-ldflags", "-s -w -E gpurig/hook.entry"), "CGO_ENABLED=0"
	}
	cmd := exec.CommandContext(tb.Context(), "go", append(args, "gpurig/cmd/"+name)...)
	cmd.Env = append(os.Environ(), cgo, "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v: %s", name, err, out)
	}
	return out
}

func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: device nodes and chroot")
	}
}

func profile(tb testing.TB, name string) host.Model {
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
