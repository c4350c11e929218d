package hook_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

// asIntruder is the name by which this program is a container's root that attacks
// every process which it sees.
const asIntruder = "cdi-hook-intruder"

// intruderMain loops over the processes of its namespace: traces, stops and kills
// them, writes into their programs and looks at their descriptors. For each new
// one it prints a line; "sees itself" is the first.
func intruderMain() int {
	dir := os.Args[1]
	for _, err := range []error{unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Chroot(dir), unix.Chdir("/"), unix.Mount("proc", "/proc", "proc", 0, "")} {
		if err != nil {
			fmt.Println("cannot:", err)
			return 1
		}
	}
	seen := map[int]bool{}
	for {
		names, err := os.ReadDir("/proc")
		if err != nil {
			return 1
		}
		for _, n := range names {
			pid, err := strconv.Atoi(n.Name())
			if err != nil {
				continue
			}
			if pid != os.Getpid() {
				unix.PtraceAttach(pid)
				if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/exe", pid), os.O_WRONLY|os.O_TRUNC, 0); err == nil {
					f.WriteString("owned")
					f.Close()
				}
				os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				unix.Kill(pid, unix.SIGSTOP)
				unix.Kill(pid, unix.SIGKILL)
			}
			if !seen[pid] {
				seen[pid] = true
				fmt.Println("sees", pid, pid == os.Getpid())
			}
		}
	}
}

// TestA11A40ARunningContainerCannotReachTheHook: while the hook works on a running
// container, whose root attacks whatever it sees, it sees nobody: the hook joins
// no namespace. The program and the machine's ldconfig stay as they are. A process
// that does join is found and killed.
func TestA11A40ARunningContainerCannotReachTheHook(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: a container with a process namespace")
	}
	s := newStand(t, "dir usr/lib/gpu", "dir proc")
	full(s)
	s.spec.MountPoints = nil
	s.write()
	program := hookProgram(t)
	hashes := func() string {
		var out string
		for _, p := range []string{program, "/sbin/ldconfig", "/proc/self/exe"} {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintf("%s %x\n", p, sha256.Sum256(data))
		}
		return out
	}
	before := hashes()

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", s.root)
	cmd.Args[0] = asIntruder
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		skip(t, "no namespaces can be made here: %v", err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if first := <-lines; first != "sees 1 true" {
		t.Fatalf("the intruder says %q", first)
	}
	times := 10
	if thorough() {
		times = 200
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	for i := range times {
		if i%2 == 1 { // take all back, so that there is something to do
			if out, err := exec.Command(program, "--stage", "clean", "--pid", pid, s.file).CombinedOutput(); err != nil {
				t.Fatalf("clean: %v, %s", err, out)
			}
			continue
		}
		if out, err := exec.Command(program, "--stage", "apply", "--pid", pid, s.file).CombinedOutput(); err != nil {
			t.Fatalf("hot plug %d: %v, %s", i, err, out)
		}
	}
	if n := len(lines); n > 0 {
		t.Errorf("the container saw %d processes of the host's: %q", n, <-lines)
	}
	if now := hashes(); now != before {
		t.Errorf("programs of the host changed:\n%s", differing(before, now))
	}
	s.canary()

	// The negative control: this one joins.
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		skip(t, "nsenter is not installed: nothing shows that the attack attacks")
	}
	victim := exec.CommandContext(t.Context(), nsenter, "-t", pid, "-p", "sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	select {
	case line := <-lines:
		if !strings.HasSuffix(line, " false") {
			t.Errorf("the intruder says %q", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("a process in the container's namespace was not found: the attack does not attack")
	}
}

// TestA17AFakeProcfsIsNotAsked: the container's /proc is a tmpfs that answers what
// the container likes. It is neither read nor written to. And where our own /proc
// is not the kernel's, nothing is done.
func TestA17AFakeProcfsIsNotAsked(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir usr/lib/gpu", "dir dev/dri")
		s.walk = walk
		want := newStand(t, "dir usr/lib/gpu", "dir dev/dri", "dir proc")
		for _, x := range []*stand{s, want} {
			full(x)
			oneMode("/dev/dri", 0o700)(&x.spec)
		}
		mount(t, "tmpfs", s.path("proc"), "tmpfs", 0, "mode=755")
		for fd := range 32 {
			s.plant(s.root, fmt.Sprintf("link proc/self/fd/%d $H/canary", fd), fmt.Sprintf("file proc/self/fdinfo/%d mnt_id:\t1", fd))
		}
		s.plant(s.root, "file proc/self/attr/exec x", "file proc/self/mountinfo x", "link proc/thread-self self")
		fake := listing(t, s.path("proc"))
		s.photo()
		s.run(hook.Prepare, hook.Apply)
		want.run(hook.Prepare, hook.Apply)
		if now := listing(t, s.path("proc")); now != fake {
			t.Errorf("the fake procfs changed:\n%s", differing(fake, now))
		}
		s.canary()
		var rest strings.Builder
		for line := range strings.Lines(s.tree()) {
			if !strings.HasPrefix(line, "proc/") {
				rest.WriteString(line)
			}
		}
		if rest.String() != want.tree() {
			t.Errorf("the root is not what it is without:\n%s", differing(want.tree(), rest.String()))
		}
	})
	t.Run("ours", func(t *testing.T) {
		var top unix.Stat_t
		if err := unix.Stat("/", &top); err != nil || top.Uid != 0 {
			skip(t, "the hook trusts no directory here before it comes to /proc: / belongs to user %d (%v)", top.Uid, err)
		}
		s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.conf /x")
		full(s)
		s.write()
		before := s.tree()
		program := hookProgram(t)
		if err := unix.Mount("tmpfs", "/proc", "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		// It has all that is looked for, and leads to the host's files.
		s.plant("/proc", "dir self/fdinfo", "file self/mountinfo 1 1 0:1 / / rw - tmpfs x rw\n", "file self/uid_map 0 0 4294967295\n")
		for fd := range 64 {
			s.plant("/proc", fmt.Sprintf("link self/fd/%d $H/etc/ld.so.conf", fd), fmt.Sprintf("file self/fdinfo/%d mnt_id:\t1\n", fd))
		}
		cmd := exec.CommandContext(t.Context(), program, s.args(hook.Apply)...)
		out, err := cmd.CombinedOutput()
		unix.Unmount("/proc", unix.MNT_DETACH)
		if err == nil {
			t.Error("it took a tmpfs for procfs")
		}
		if !strings.Contains(string(out), "/proc is not the kernel's procfs") || s.tree() != before {
			t.Errorf("it said %q and made\n%s", out, differing(before, s.tree()))
		}
	})
}

// TestA21NoMountLeaks: on a machine whose mounts are all shared, a hundred runs,
// killed ones among them, leave the mount table as it is.
func TestA21NoMountLeaks(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	s := newStand(t, "dir usr/lib/gpu")
	full(s)
	s.write()
	program := hookProgram(t)
	killed := 0
	for i := range 100 {
		stage := []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean}[i%4]
		cmd := exec.CommandContext(t.Context(), program, s.args(stage)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			time.Sleep(time.Duration(i) * 50 * time.Microsecond)
			cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil {
			killed++
		}
	}
	s.canary()
	if killed == 0 {
		t.Error("no run was killed")
	}
	s.run(hook.Prepare, hook.Apply, hook.Finish, hook.Clean)
	s.canary()
}

// TestF13LeftOversOfAHostCrash: no stop hook ran, the lock's directory is empty
// again, the driver is another one by now.
func TestF13LeftOversOfAHostCrash(t *testing.T) {
	each(t, func(t *testing.T, walk bool) {
		fresh := newStand(t, "file usr/lib/own.so x")
		crashed := newStand(t, "file usr/lib/own.so x")
		crashed.walk = walk
		full(crashed)
		crashed.run(hook.Prepare, hook.Apply)
		crashed.plant(crashed.root, "link usr/lib/gpu/.cdi-hook-"+"00000000"+"0123456789abcdef x") // another file's temporary: not ours
		if err := os.Remove(crashed.file + ".lock"); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, s := range []*stand{fresh, crashed} {
			full(s)
			s.spec.MountPoints[1].Path, s.spec.Links[0].Target = "/usr/lib/gpu/libcuda.so.560.2", "libcuda.so.560.2"
			s.run(hook.Prepare, hook.Apply)
			s.canary()
		}
		if err := os.Remove(crashed.path("usr/lib/gpu/.cdi-hook-000000000123456789abcdef")); err != nil {
			t.Errorf("what belongs to somebody else went: %v", err)
		}
		if got := crashed.tree(); got != fresh.tree() {
			t.Errorf("after the crash:\n%s", differing(fresh.tree(), got))
		}
	})
}

// TestF14ALockThatIsHeld: by somebody who does not move; the run gives up in time
// and says why. A lock file that nobody holds is no lock, whatever it says.
func TestF14ALockThatIsHeld(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	if err := os.WriteFile(s.file+".lock", []byte("pid 1 boot 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(hook.Prepare, hook.Apply)
	f, err := os.OpenFile(s.file+".lock", os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	before := s.tree()
	cmd := hookCommand(t, s.args(hook.Clean)...)
	cmd.Args[0] = asHookQuick
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another cdi-hook holds it") || !strings.Contains(string(out), ".lock") {
		t.Errorf("%v, %s", err, out)
	}
	if s.tree() != before {
		t.Error("it worked without the lock")
	}
	s.canary()
}

// TestF32TheClockDecidesNothing: times of the past and of the future, and equal
// ones, change neither what is made nor whether something is.
func TestF32TheClockDecidesNothing(t *testing.T) {
	s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.cache old")
	full(s)
	s.run(hook.Prepare, hook.Apply)
	want := s.tree()
	for _, at := range []time.Time{time.Unix(0, 0), time.Now().AddDate(10, 0, 0), time.Now().AddDate(0, 0, -1)} {
		for _, p := range []string{"usr", "etc", "usr/lib/gpu", "etc/ld.so.cache"} {
			if err := os.Chtimes(s.path(p), at, at); err != nil {
				t.Fatal(err)
			}
		}
		s.run(hook.Prepare, hook.Apply)
		if got := s.tree(); got != want {
			t.Errorf("with the time %s:\n%s", at, differing(want, got))
		}
		if st, err := os.Stat(s.path("etc/ld.so.cache")); err != nil || !st.ModTime().Equal(at.Truncate(0)) {
			t.Errorf("with the time %s the cache was written again: %v", at, err)
		}
		if err := os.WriteFile(s.path("etc/ld.so.cache"), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(s.path("etc/ld.so.cache"), at, at); err != nil {
			t.Fatal(err)
		}
		s.run(hook.Apply)
		if got := s.tree(); got != want {
			t.Errorf("an old cache with the time %s stays:\n%s", at, differing(want, got))
		}
	}
	s.canary()
}

// TestF12SyncedBeforeItHasItsName: after a power cut a file is old or new, since
// its contents are on the disk before it takes its name, and each directory that
// got an entry is there after.
func TestF12SyncedBeforeItHasItsName(t *testing.T) {
	f := newFaulty(t)
	for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
		log := filepath.Join(t.TempDir(), "trace")
		f.rewind()
		if stage == hook.Apply {
			f.run(hook.Prepare)
		}
		cmd := exec.CommandContext(t.Context(), f.strace, append([]string{"-f", "-y", "-s", "300", "-e", "trace=write,fsync,renameat,symlinkat,mkdirat", "-o", log, f.program}, f.args(stage)...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", stage, err, out)
		}
		trace, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		f.judgeSyncs(stage, string(trace))
		f.canary()
	}
}

// judgeSyncs follows the calls of one run: written but not synced is what must not
// be renamed, and a directory with a new entry must be synced at the end.
func (f *faulty) judgeSyncs(stage hook.Stage, trace string) {
	f.t.Helper()
	dirty, entries, renames := map[string]bool{}, map[string]bool{}, 0
	for line := range strings.Lines(trace) {
		_, call, _ := strings.Cut(line, " ")
		call = strings.TrimSpace(call)
		paths := betweenAngles(call)
		quoted := strings.Split(call, `"`)
		switch {
		case strings.Contains(call, "= -1"), len(paths) == 0 || !strings.HasPrefix(paths[0], filepath.Dir(f.file)):
		case strings.HasPrefix(call, "write("):
			dirty[paths[0]] = true
		case strings.HasPrefix(call, "fsync("):
			delete(dirty, paths[0])
			delete(entries, paths[0])
		case strings.HasPrefix(call, "renameat("):
			renames++
			if from := paths[0] + "/" + quoted[1]; dirty[from] {
				f.t.Errorf("%s: %s has its name before it is on the disk", stage, from)
			}
			entries[paths[0]] = true
		case strings.HasPrefix(call, "symlinkat("), strings.HasPrefix(call, "mkdirat("):
			entries[paths[0]] = true
		}
	}
	for dir := range entries {
		f.t.Errorf("%s: the directory %s has a new entry and is not synced", stage, dir)
	}
	if renames == 0 {
		f.t.Errorf("%s: the trace shows no rename: it does not show what it should\n%s", stage, trace)
	}
}

// betweenAngles are the paths that strace -y shows for descriptors.
func betweenAngles(s string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(s, "<")
		if !ok {
			return out
		}
		in, after, ok := strings.Cut(rest, ">")
		if !ok {
			return out
		}
		out, s = append(out, in), after
	}
}
