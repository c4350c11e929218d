package hook_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

// childOf waits for the worker of a hook.
func childOf(t testing.TB, pid int) (child int) {
	t.Helper()
	for range 1000 {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, name := range tasks {
			data, _ := os.ReadFile(name)
			if _, err := fmt.Sscan(string(data), &child); err != nil {
				continue
			}
			// Between fork and exec it is still a copy of its parent.
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if strings.HasPrefix(string(line), "cdi-hook: worker\x00") {
				return child
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the hook has no worker")
	return 0
}

// F24: a worker that is stopped, and one that waits for its input for ever.
func TestF24TheSupervisorReturns(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	for name, act := range map[string]func(worker int){
		"stopped":       func(worker int) { unix.Kill(worker, unix.SIGSTOP) },
		"without input": func(int) {},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := hookCommand(t, "--oci", s.file)
			cmd.Args[0] = asHookQuick
			var out bytes.Buffer
			cmd.Stderr = &out
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			worker := childOf(t, cmd.Process.Pid)
			act(worker)
			err = cmd.Wait()
			if err == nil || cmd.ProcessState.ExitCode() != hook.ExitFailed || !strings.Contains(out.String(), "not done after") {
				t.Errorf("%v, %q", err, out.String())
			}
			if unix.Kill(worker, 0) == nil {
				t.Error("the worker is still there")
			}
		})
	}
	s.canary()
}

// F34: a signal to the supervisor alone ends both.
func TestF34ASignalToTheSupervisor(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		cmd := hookCommand(t, "--oci", s.file)
		cmd.Args[0] = asHookQuick
		var out bytes.Buffer
		cmd.Stderr = &out
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		worker := childOf(t, cmd.Process.Pid)
		cmd.Process.Signal(sig)
		cmd.Wait()
		in.Close()
		if code := cmd.ProcessState.ExitCode(); code != hook.ExitFailed || !strings.Contains(out.String(), unix.SignalName(sig)) {
			t.Errorf("%v: exit %d, %q", sig, code, out.String())
		}
		if unix.Kill(worker, 0) == nil {
			t.Errorf("%v: the worker is still there", sig)
		}
	}
}

// F1: a supervisor that is killed takes its worker along.
func TestF1AKilledSupervisor(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	cmd := hookCommand(t, "--oci", s.file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	worker := childOf(t, cmd.Process.Pid)
	cmd.Process.Kill()
	cmd.Wait()
	for range 1000 {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker))
		if err != nil || strings.Contains(string(line), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the worker is still there")
}

// P5: an image that is too much is a failure within the limits, not a machine
// without memory.
func TestP5AnImageThatIsTooMuch(t *testing.T) {
	if !thorough() {
		t.Skip("making 21000 links takes seconds; " + requireEnv + "=1 has it")
	}
	s := newStand(t)
	dir := s.path("usr/lib/gpu")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 21_000 { // B42: more names than are read
		if err := unix.Symlink("none", fmt.Sprintf("%s/lib%d.so.%s", dir, i, strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
	}
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
	s.write()
	cmd := hookCommand(t, s.args(hook.Apply)...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "over the limit of 20000 names") {
		t.Errorf("%v: %s", err, out)
	}
	if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; used > 256<<10 {
		t.Errorf("%d KiB of memory", used)
	}
}
