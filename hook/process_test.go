package hook_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
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

// want is the tree that an ordinary run makes.
func want(t *testing.T) string {
	t.Helper()
	s := newStand(t)
	full(s)
	s.run(hook.Prepare, hook.Apply)
	return s.tree()
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

// F15, F14: fifty pairs of hooks at once, one of two hook files each, some killed.
func TestF15TwoHooksAtOnce(t *testing.T) {
	s := newStand(t)
	full(s)
	other := s.spec
	other.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libother.so.1", Target: "libcuda.so.550.1"}}
	pairs := 8
	if thorough() {
		pairs = 50
	}
	s.write()
	s.run(hook.Prepare)
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range pairs {
		var both sync.WaitGroup
		for j := range 2 {
			spec := s.spec
			if j == 1 && i%2 == 1 {
				spec = other
			}
			data, err := spec.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			cmd := hookCommand(t, s.args(hook.Apply)...)
			replace(t, s.file, data)
			kill := time.Duration(0)
			if dice.IntN(4) == 0 {
				kill = time.Duration(1+dice.IntN(12)) * time.Millisecond
			}
			both.Go(func() {
				var out bytes.Buffer
				cmd.Stderr = &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				if kill > 0 {
					time.AfterFunc(kill, func() { cmd.Process.Kill() })
				}
				if err := cmd.Wait(); err != nil && kill == 0 {
					t.Errorf("pair %d: %v, %s", i, err, out.String())
				}
			})
		}
		both.Wait()
	}
	s.run(hook.Prepare, hook.Apply)
	if got, wanted := s.tree(), want(t); got != wanted {
		t.Errorf("in the end:\n%s", differing(wanted, got))
	}
	s.run(hook.Finish, hook.Clean)
	if got := s.beside(); got != "c1.json host root" {
		t.Errorf("beside the hook file: %s", got)
	}
	s.canary()
}

// replace gives a file new contents as a container manager does.
func replace(t testing.TB, name string, data []byte) {
	t.Helper()
	temp := filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, name); err != nil {
		t.Fatal(err)
	}
}

// F15: two hook files of one root do not take each other's temporaries away.
func TestF15TwoHookFilesOfOneRoot(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	second := &stand{t: t, root: s.root, host: s.host, file: filepath.Join(filepath.Dir(s.file), "c2.json"), spec: s.spec}
	second.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libother.so.1", Target: "libcuda.so.550.1"}}
	second.write()
	var both sync.WaitGroup
	for _, one := range []*stand{s, second} {
		both.Go(func() {
			for range 20 {
				if _, err := one.try(hook.Apply); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	tree := s.tree()
	if strings.Contains(tree, ".cdi-hook-") || !strings.Contains(tree, "libcuda.so.1 ") || !strings.Contains(tree, "libother.so.1 ") {
		t.Errorf("in the end:\n%s", tree)
	}
}

// F17: a hundred starts leave what one leaves, to the last time stamp.
func TestF17AHundredStarts(t *testing.T) {
	s := newStand(t, "dir usr/lib/gpu")
	if err := os.WriteFile(s.path("usr/lib/gpu/libgood.so.1.2"), library(t, "libgood.so.1"), 0o644); err != nil {
		t.Fatal(err)
	}
	full(s)
	s.run(hook.Prepare, hook.Apply)
	stamps := func() string {
		var out strings.Builder
		for _, p := range []string{"etc", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "usr/lib/gpu", "usr/lib/gpu/libcuda.so.1", "usr/lib/gpu/libgood.so.1"} {
			st, err := os.Lstat(s.path(p))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, p, st.ModTime().UnixNano(), st.Sys().(*syscall.Stat_t).Ino)
		}
		return out.String()
	}
	once, written := s.tree()+s.beside(), stamps()
	for range 99 {
		s.run(hook.Prepare, hook.Apply)
	}
	if got := s.tree() + s.beside(); got != once {
		t.Errorf("after a hundred runs:\n%s", differing(once, got))
	}
	if got := stamps(); got != written {
		t.Errorf("something was written again:\n%s", differing(written, got))
	}
	for range 10 { // whole starts and stops
		s.run(hook.Prepare, hook.Apply, hook.Finish)
	}
	s.run(hook.Prepare, hook.Apply)
	if got := s.tree() + s.beside(); got != once {
		t.Errorf("after starts and stops:\n%s", differing(once, got))
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
