package hook_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/fakehw/powercut"
	"gpurig/hook"
)

// onDisk is a run of the hook whose root, hook file and journal are on a disk
// whose power can be cut.
func onDisk(t *testing.T) (*faulty, *powercut.Disk) {
	t.Helper()
	hookProgram(t)
	at, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(at) })
	disk, err := powercut.New(t, at)
	if err != nil {
		skipUnlessKernel(t, "ext4", "no disk whose power can be cut (ext4 on a loop device): %v", err)
	}
	t.Setenv("TMPDIR", at)
	return newFaulty(t), disk
}

// skipUnlessKernel leaves a test out because a file system could not be had on a
// loop device: one that this kernel does not have at all is missing nowhere where
// nothing may be.
func skipUnlessKernel(t *testing.T, kind, format string, args ...any) {
	t.Helper()
	if lack := kernelLacks(kind); lack != "" {
		t.Skipf(format+"; "+lack, args...)
	}
	skip(t, format, args...)
}

// kernelLacks is asked after a mount was tried, which loads modules.
func kernelLacks(kind string) string {
	kinds, err := os.ReadFile("/proc/filesystems")
	if err == nil && !slices.Contains(strings.Fields(string(kinds)), kind) {
		return "this kernel has no " + kind
	}
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "this kernel has no loop devices: /dev/loop-control: " + err.Error()
	}
	defer unix.Close(control)
	if _, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE); err != nil {
		return "this kernel gives no loop device: " + err.Error()
	}
	return ""
}

// F12: the power is cut after each change, once with what the disk had at that
// moment and once after somebody else had the file system's journal written out,
// which gives names to what was not synced. Each file is old or new, a clean run
// makes what it would have made, and after a run that said it was done all is
// there.
func TestF12APowerCut(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	f, disk := onDisk(t)
	calls := []string{"renameat", "symlinkat"}
	if thorough() {
		calls = changing
	}
	cuts := 0
	for i, stage := range stages {
		for _, call := range calls {
			for n := 1; ; n++ {
				ended := false
				for _, commit := range []bool{false, true} {
					f.rewind()
					f.run(stages[:i]...)
					disk.Sync()
					what := fmt.Sprintf("%s, cut after %s %d, journal written: %v", stage, call, n, commit)
					code, said := f.inject(stage, fmt.Sprintf("%s:signal=KILL:when=%d", call, n))
					if commit {
						disk.Commit()
					}
					disk.Cut()
					cuts++
					if code == 0 {
						ended = true
						f.done(what, stage)
					} else if !f.affected {
						t.Fatalf("%s: exit %d: %s", what, code, said)
					}
					f.oracle(stage, what)
				}
				if ended {
					break
				}
			}
		}
	}
	t.Logf("%d power cuts", cuts)
	if cuts < 16 {
		t.Errorf("only %d power cuts", cuts)
	}
}

// done judges what is on the disk after a run that said it was done.
func (f *faulty) done(what string, stage hook.Stage) {
	f.t.Helper()
	if stage == hook.Apply {
		if got := f.state(); got != f.want[stage] {
			f.t.Fatalf("%s: it said it was done, and (-want +got):\n%s", what, differing(f.want[stage], got))
		}
	}
}

// The control: what forgets to sync is lost in such a cut.
func TestF12AFileThatIsNotSyncedIsLost(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	f, disk := onDisk(t)
	naive := func(sync bool) string {
		f.rewind()
		disk.Sync()
		tmp, to := f.path("etc/tmp"), f.path("etc/ld.so.cache")
		file, err := os.Create(tmp)
		if err == nil {
			_, err = file.WriteString("new contents")
		}
		if err == nil && sync {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close(), os.Rename(tmp, to)); err != nil {
			t.Fatal(err)
		}
		disk.Commit()
		disk.Cut()
		return f.read("etc/ld.so.cache")
	}
	if got := naive(false); got == "old" || got == "new contents" {
		t.Errorf("without a sync: %q; the cut takes nothing", got)
	}
	if got := naive(true); got != "new contents" {
		t.Errorf("with a sync: %q", got)
	}
}

// F7: the disk fails every write from some place on, at a sync or before; a run
// says so or is done, and no file is mixed once the disk is back.
func TestF7ADiskThatFails(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	tried, failed := 0, 0
	for _, after := range []int64{0, 1, 2, 3, 5, 8} {
		if !thorough() && after != 0 && after != 2 {
			continue
		}
		t.Run(fmt.Sprint(after, " pages"), func(t *testing.T) {
			f, disk := onDisk(t)
			tried++
			f.rewind()
			f.run(hook.Prepare)
			disk.Sync()
			disk.Fail(after * 4096)
			cmd := exec.CommandContext(t.Context(), f.program, f.args(hook.Apply)...)
			cmd.Env = []string{}
			out, err := cmd.CombinedOutput()
			what := fmt.Sprintf("a disk that takes %d pages more", after)
			if err != nil {
				failed++
				// The kernel passes on why the device failed: EIO, or ENOSPC of an image that
				// cannot grow (mapping_set_error). EROFS is what ext4 says from when its own
				// journal could not be written.
				if s := string(out); !strings.Contains(s, unix.EIO.Error()) && !strings.Contains(s, unix.ENOSPC.Error()) && !strings.Contains(s, unix.EROFS.Error()) {
					t.Errorf("%s: %v without a reason: %q", what, err, out)
				}
			}
			disk.Heal()
			if err == nil {
				f.done(what, hook.Apply)
			}
			f.oracle(hook.Apply, what)
		})
	}
	if tried == 0 {
		t.Skip("no disk that fails; the reason is above")
	}
	if failed == 0 {
		t.Error("no run met the disk's failure")
	}
}

// F5: a quota of the file system itself, a limit on a subvolume of btrfs, at each
// size: old files stay whole, nothing of ours is left, and with more room the run
// makes what it makes.
func TestF5ARealQuota(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	for _, program := range []string{"mkfs.btrfs", "btrfs"} {
		if _, err := exec.LookPath(program); err != nil {
			skip(t, "%s is not installed (apt-get install btrfs-progs), and ext4, xfs and tmpfs have no quota in every kernel", program)
		}
	}
	s := newStand(t)
	store, at := t.TempDir(), filepath.Join(filepath.Dir(s.root), "btrfs")
	mount(t, "tmpfs", store, "tmpfs", 0, "size=64m")
	image := filepath.Join(store, "image")
	do := func(name string, args ...string) error {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w, %s", name, strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20), os.Mkdir(at, 0o755),
		do("mkfs.btrfs", "-q", "--mixed", image)); err != nil {
		t.Fatal(err)
	}
	if err := do("mount", "-o", "loop", image, at); err != nil {
		skipUnlessKernel(t, "btrfs", "no btrfs on a loop device here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	s.root = filepath.Join(at, "root")
	if err := errors.Join(do("btrfs", "quota", "enable", at), do("btrfs", "subvolume", "create", s.root) /* the first, 256 */); err != nil {
		t.Fatal(err)
	}
	s.plant(s.root, "dir usr/lib/gpu", "dir etc", "file etc/ld.so.cache old", "file etc/ld.so.conf /opt/lib")
	for i := range 200 {
		s.plant(s.root, fmt.Sprintf("link usr/lib/gpu/%s%03d none", strings.Repeat("l", 60), i))
	}
	s.photo()
	full(s)
	s.spec.Links = append(s.spec.Links, hookspec.Link{Path: "/opt/new/folder/l", Target: "x"})
	s.write()
	refused := 0
	for kib := 96; kib > 0; kib -= 4 {
		if err := errors.Join(do("btrfs", "filesystem", "sync", at), do("btrfs", "qgroup", "limit", fmt.Sprint(kib, "K"), "0/256", at)); err != nil {
			t.Fatal(err)
		}
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
			cmd := exec.CommandContext(t.Context(), hookProgram(t), s.args(stage)...)
			cmd.Env = []string{}
			out, err := cmd.CombinedOutput()
			if err != nil {
				if !strings.Contains(string(out), unix.EDQUOT.Error()) {
					t.Fatalf("%d KiB, %s: %v, %s; want the quota", kib, stage, err, out)
				}
				refused++
			}
			if cache := s.read("etc/ld.so.cache"); cache != "old" && !strings.HasPrefix(cache, "glibc-ld.so.cache1.1") {
				t.Fatalf("%d KiB, %s: the cache is %q", kib, stage, cache)
			}
			if strings.Contains(s.tree(), ".cdi-hook-") {
				t.Fatalf("%d KiB, %s: a temporary is left:\n%s", kib, stage, s.tree())
			}
			s.canary()
		}
		if err := do("btrfs", "qgroup", "limit", "none", "0/256", at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.try(hook.Clean); err != nil {
			t.Fatal(err)
		}
		s.plant(s.root, "file etc/ld.so.cache old")
	}
	if refused == 0 {
		t.Error("no run met the quota")
	}
	t.Logf("%d runs met the quota", refused)
	s.run(hook.Prepare, hook.Apply)
	if cache := s.read("etc/ld.so.cache"); !strings.HasPrefix(cache, "glibc-ld.so.cache1.1") {
		t.Errorf("with room: the cache is %q", cache)
	}
}
