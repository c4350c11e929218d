package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/hook"
)

// shell runs the hook after a line of shell, as /bin/sh of liblxc would.
func shell(t testing.TB, s *stand, before string, stage hook.Stage) *exec.Cmd {
	t.Helper()
	line := before + "; exec " + hookProgram(t)
	for _, a := range s.args(stage) {
		line += " '" + a + "'"
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// F33: whatever the starter's habits, the same bytes and modes. F26: and with its
// standard streams closed, broken or full.
func TestF33F26OddStartersMakeTheSame(t *testing.T) {
	wanted := want(t)
	for name, before := range map[string]string{
		"F33 umask 0777": "umask 0777", "F33 umask 0": "umask 0",
		"F33 a deleted working directory": `d=$(mktemp -d); cd "$d"; rmdir "$d"`,
		"F33 no environment":              "unset HOME PATH",
		"F33 odd locale and time zone":    "export LC_ALL=xx_YY.KOI8-R TZ=:/nowhere LANG=tr_TR",
		"F33 nice":                        "renice -n 19 $$ >/dev/null",
		"F33 signals ignored":             "trap '' CHLD HUP INT TERM PIPE",
		"F26 no standard streams":         "exec 0<&- 1>&- 2>&-",
		"F26 a full standard error":       "exec 1>/dev/full 2>/dev/full",
		"F26 only standard output closed": "exec 1>&-",
		"A8 loader and runtime variables": "export LD_PRELOAD=/none.so LD_LIBRARY_PATH=/x LD_AUDIT=/x.so BASH_ENV=/x ENV=/x GODEBUG=x=1 GOTRACEBACK=crash GOMEMLIMIT=1",
		"A12 descriptors and directory":   "exec 7</ 8</etc; cd /etc",
		"F11 few descriptors":             "ulimit -n 24",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			full(s)
			s.write()
			for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
				if out, err := shell(t, s, before, stage).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v, %s", stage, err, out)
				}
			}
			if got := s.tree(); got != wanted {
				t.Errorf("made something else:\n%s", differing(wanted, got))
			}
			s.canary()
		})
	}
}

// F26: the reader of our messages is gone.
func TestF26ABrokenPipe(t *testing.T) {
	wanted := want(t)
	s := newStand(t, "file usr/lib/gpu/libx.so x") // makes a note
	full(s)
	s.write()
	for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := hookCommand(t, s.args(stage)...)
		cmd.Stderr, cmd.Stdout = w, w
		r.Close()
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
		w.Close()
	}
	if err := os.Remove(s.path("usr/lib/gpu/libx.so")); err != nil {
		t.Fatal(err)
	}
	if got := s.tree(); got != wanted {
		t.Errorf("made something else:\n%s", differing(wanted, got))
	}
}

// F11: what cannot be done within the limits of the starter is a failure, and a
// later run without them converges.
func TestF11LimitsOfTheStarter(t *testing.T) {
	wanted := want(t)
	for name, before := range map[string]string{
		"no descriptors": "ulimit -n 7", "no file may grow": "ulimit -f 0", "little address space": "ulimit -v 100000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			full(s)
			s.write()
			out, err := shell(t, s, before, hook.Prepare).CombinedOutput()
			if err == nil || len(out) == 0 || len(out) > 8<<10 {
				t.Errorf("%v, %d bytes of output", err, len(out))
			}
			if strings.Contains(s.tree(), ".cdi-hook-") {
				t.Errorf("a temporary is left:\n%s", s.tree())
			}
			s.canary()
			s.run(hook.Prepare, hook.Apply)
			if got := s.tree(); got != wanted {
				t.Errorf("made something else:\n%s", differing(wanted, got))
			}
		})
	}
}

// F11: a long-lived caller loses no descriptor.
func TestDescriptorsStayFew(t *testing.T) {
	s := newStand(t)
	full(s)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	s.run(hook.Prepare, hook.Apply, hook.Finish, hook.Clean)
	before := count()
	for range 5 {
		s.run(hook.Prepare, hook.Apply, hook.Finish, hook.Clean)
		s.spec.Links[0].Path = "/etc/ld.so.conf/x" // fails
		s.write()
		_, _ = s.try(hook.Apply)
		full(s)
	}
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// A12: the worker has its three streams and nothing of the starter's.
func TestA12TheWorkerInheritsNothing(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	state, err := os.OpenFile(filepath.Join(t.TempDir(), "pipe"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	cmd := hookCommand(t, "--oci", s.file) // waits for its standard input
	cmd.ExtraFiles = []*os.File{state, state, state}
	cmd.Env = []string{"LD_PRELOAD=/x.so", "LXC_HOOK_TYPE=mount", "SECRET=1"}
	cmd.Dir = s.host
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	worker := childOf(t, cmd.Process.Pid)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", worker))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if text, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", worker, fd.Name())); text == state.Name() || strings.HasPrefix(text, s.host) {
			t.Errorf("descriptor %s is %s", fd.Name(), text)
		}
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", worker)); err != nil || cwd != "/" {
		t.Errorf("working directory %q, %v", cwd, err)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", worker))
	if err != nil || strings.Contains(string(environ), "SECRET") || strings.Contains(string(environ), "LD_") {
		t.Errorf("environment %q, %v", environ, err)
	}
}
