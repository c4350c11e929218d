package hook_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A16: the container's first process is killed at any moment while its hook works.
// Its id is nobody else's meanwhile: LXC, its parent, waits for the hook first. A
// run is done or refused, and what it made is where that process was.
func TestA16TheProcessIsKilledMeanwhile(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: a process with a root directory of its own")
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		skip(t, "busybox is not installed (apt-get install busybox-static)")
	}
	t.Parallel()
	s := newStand(t, "copy bin/busybox /bin/busybox")
	s.spec.Links = []hookspec.Link{{Path: "/opt/gpu/l", Target: "x"}}
	s.write()
	times := 50
	if thorough() {
		times = 1000
	}
	done, refused := 0, 0
	for i := range times {
		cmd := exec.CommandContext(t.Context(), "/bin/busybox", "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.root, Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
		cmd.Dir = "/"
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		switch i % 4 { // killed, but not waited for: before, after, or at any moment
		case 0:
			cmd.Process.Kill()
			if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			go func() {
				time.Sleep(time.Duration(i%50) * 20 * time.Microsecond)
				cmd.Process.Kill()
			}()
		}
		_, err := hook.Run(t.Context(), hook.Job{File: s.file, Stage: hook.Apply, PID: cmd.Process.Pid}, nil)
		cmd.Process.Kill()
		cmd.Wait()
		switch _, there := os.Lstat(s.path("opt/gpu/l")); {
		case err == nil && there == nil:
			done++
		case err != nil && there != nil:
			refused++
		default:
			t.Fatalf("run %d: %v, and the link: %v", i, err, there)
		}
		if _, err := s.try(hook.Clean); err != nil {
			t.Fatal(err)
		}
	}
	s.canary()
	if done == 0 || refused == 0 {
		t.Errorf("%d runs were done and %d refused", done, refused)
	}
}

// F8: what nobody can change (chattr +i) is an error that names it, unless it is
// as it shall be.
func TestF8WhatNobodyCanChange(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root to set the attribute")
	}
	for name, tc := range map[string]struct {
		p    string
		done bool // by an earlier run
	}{
		"the cache": {"etc/ld.so.cache", false}, "its folder": {"etc", false}, "the libraries' folder": {"usr/lib/gpu", false},
		"the cache, as it shall be": {"etc/ld.so.cache", true}, "all folders, all in place": {"etc", true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, walk bool) {
				s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.cache old")
				s.walk = walk
				full(s)
				s.spec.MountPoints = nil
				s.write()
				if tc.done {
					s.run(hook.Prepare, hook.Apply)
				}
				s.immutable(tc.p, true)
				before := s.tree()
				_, err := s.try(hook.Apply)
				s.canary()
				if (err == nil) != tc.done || err != nil && (!errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "/"+tc.p)) {
					t.Errorf("%v; done before: %v", err, tc.done)
				}
				if now := s.tree(); strings.Contains(now, ".cdi-hook-") || tc.done && now != before {
					t.Errorf("it changed:\n%s", differing(before, now))
				}
				s.immutable(tc.p, false)
				s.run(hook.Prepare, hook.Apply)
				fresh := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.cache old")
				fresh.spec = s.spec
				fresh.run(hook.Prepare, hook.Apply)
				if got := s.tree(); got != fresh.tree() {
					t.Errorf("afterwards:\n%s", differing(fresh.tree(), got))
				}
			})
		})
	}
}

// immutable sets or clears the attribute of chattr +i: ioctl_iflags(2).
func (s *stand) immutable(p string, on bool) {
	s.t.Helper()
	f, err := os.Open(s.path(p))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		flags &^= immutable
		if on {
			flags |= immutable
			s.t.Cleanup(func() { s.immutable(p, false) })
		}
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
	}
	if err != nil {
		skip(s.t, "the file system of %s has no such attribute (TMPDIR may name another): %v", s.root, err)
	}
}

// F11: a cgroup that is too small has the kernel kill the hook, at any place; a
// clean run afterwards makes what it would have made.
func TestF11KilledForMemory(t *testing.T) {
	limit, dir := memoryCgroup(t)
	wanted := want(t)
	killed := 0
	for size := 512 << 10; size <= 16<<20; size += 512 << 10 {
		if err := os.WriteFile(filepath.Join(dir, limit), fmt.Append(nil, size), 0); err != nil {
			t.Fatal(err)
		}
		s := newStand(t)
		full(s)
		s.write()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir, hookProgram(t)}, s.args(stage)...)...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				continue
			}
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == unix.SIGKILL {
				killed++
			} else if len(out) == 0 {
				t.Errorf("with %d bytes: %v, and nothing is said", size, err)
			}
		}
		s.canary()
		s.run(hook.Prepare, hook.Apply)
		if got := s.tree(); got != wanted {
			t.Errorf("after %d bytes:\n%s", size, differing(wanted, got))
		}
	}
	if killed == 0 {
		t.Error("no run was killed: the limits are too large")
	}
}

// memoryCgroup makes a cgroup, version 1 or 2, and names the file of its limit.
func memoryCgroup(t *testing.T) (limit, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root to make a cgroup")
	}
	name := fmt.Sprintf("cdi-hook-test-memory-%d", os.Getpid())
	for base, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		dir := filepath.Join(base, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, limit)); err != nil {
			os.Remove(dir)
			continue
		}
		t.Cleanup(func() { removeCgroups(name) })
		return limit, dir
	}
	v1, _ := os.ReadFile("/proc/cgroups")
	v2, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if !slices.Contains(strings.Fields(string(v1)+" "+string(v2)), "memory") {
		t.Skip("this kernel limits no memory by cgroup")
	}
	skip(t, "no cgroup here that limits memory, though the kernel can")
	return "", ""
}

// A16: the process ends when it has been found, and another one, with another
// root, has its id when that root is opened. strace holds the hook in between.
func TestA16TheIdIsAnothers(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "strace is not installed: it holds the hook back")
	}
	if os.Geteuid() != 0 {
		skip(t, "needs root: process ids are chosen in a namespace of our own")
	}
	s := newStand(t, "copy bin/busybox /bin/busybox", "dir opt")
	other := newStand(t, "copy bin/busybox /bin/busybox", "dir opt")
	s.spec.Links = []hookspec.Link{{Path: "/opt/gpu/l", Target: "x"}}
	s.write()
	before := other.tree()
	log := filepath.Join(t.TempDir(), "log")
	// strace tells of the call before it is made: the descriptor shows that it was.
	script := fmt.Sprintf(`
mount --make-rprivate / && mount -t proc proc /proc || exit 9
unshare --mount chroot %[1]s /bin/busybox sleep 60 & p=$!
%[3]s -f -o %[4]s -e trace=pidfd_open -e inject=pidfd_open:delay_exit=3000000 %[5]s --stage apply --pid $p %[6]s 2>&1 & h=$!
until grep -q "pidfd_open($p," %[4]s 2>/dev/null && ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q 'anon_inode:\[pidfd\]'; do sleep 0.05; done
kill -9 $p; wait $p 2>/dev/null
echo $((p-1)) > /proc/sys/kernel/ns_last_pid || exit 9
unshare --mount chroot %[2]s /bin/busybox sleep 60 & q=$!
[ $p = $q ] || { echo "ids $p and $q"; exit 9; }
wait $h; code=$?
kill -9 $q
echo "exit $code"
`, s.root, other.root, strace, log, hookProgram(t), s.file)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "exit 1") || !strings.Contains(string(out), "ended: ") {
		t.Errorf("it said %q", out)
	}
	if got := other.tree(); got != before {
		t.Errorf("the other one's root changed:\n%s", differing(before, got))
	}
	other.canary()
	s.canary()
}
