package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

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
