package hook_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ownMountsEnv says that the tests run in a mount namespace of their own.
const ownMountsEnv = "GPURIG_TEST_OWN_MOUNTS"

// ownMounts begins the tests once more in a mount namespace of their own, so that
// every line of its table is theirs to answer for. Its mounts are shared, as systemd
// has them: what leaks from a namespace that is begun here shows in it. Without root
// nobody here can mount, and only what is below a stand's folder is compared.
func ownMounts() error {
	if os.Geteuid() != 0 || ownTable() {
		return nil
	}
	runtime.LockOSThread() // the namespace is the thread's until exec
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("no mount namespace can be made here: %w", err)
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")); err != nil {
		return fmt.Errorf("propagation of mounts: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownMountsEnv+"=1"))
}

func ownTable() bool { return os.Getenv(ownMountsEnv) != "" || os.Getenv(insideEnv) != "" }

// others are mounts that were there when the tests began, where other programs put
// theirs: one goes from here, too, when its folder is removed elsewhere. Their numbers differ
// in a namespace that is begun later.
var others = func() map[string]bool {
	out := map[string]bool{}
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		for _, dir := range []string{os.TempDir(), "/tmp", "/dev/shm", "/run", "/var/lib"} {
			if strings.HasPrefix(strings.Fields(line)[4], dir+"/") {
				out[unshared(line)] = true
			}
		}
	}
	return out
}()

// unshared is a line of mountinfo without its propagation.
func unshared(line string) string {
	head, tail, _ := strings.Cut(line, " - ")
	return strings.Join(strings.Fields(head)[2:6], " ") + " - " + tail
}

// mountTable is all of this process's mountinfo but others' lines, sorted and
// without the numbers that the kernel gives: a disk that a test takes away and
// mounts again is the same.
func mountTable(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if ownTable() && !others[unshared(line)] || strings.Contains(line, dir) {
			out = append(out, strings.Join(strings.SplitN(line, " ", 3)[2:], ""))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// CANARY's own control: it sees a mount anywhere, one that is taken away, and one
// that leaks from a namespace begun here.
func TestCanarySeesMounts(t *testing.T) {
	if !ownTable() {
		skip(t, "needs root and a mount namespace of its own")
	}
	elsewhere := t.TempDir()
	run := func(name string, args ...string) func() error {
		return func() error {
			if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w, %s", name, err, out)
			}
			return nil
		}
	}
	up := func() error { return unix.Mount("tmpfs", elsewhere, "tmpfs", 0, "size=4k") }
	down := func() error { return unix.Unmount(elsewhere, unix.MNT_DETACH) }
	for _, tc := range []struct {
		name         string
		before, then func() error
		after        func() error
	}{
		{"a mount elsewhere", nil, up, down},
		{"one taken away", up, down, nil},
		{"other options", up, func() error { return unix.Mount("", elsewhere, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "") }, down},
		{"a leak", nil, run("unshare", "--mount", "--propagation", "unchanged", "mount", "-t", "tmpfs", "none", elsewhere), down},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.before != nil {
				if err := tc.before(); err != nil {
					t.Fatal(err)
				}
			}
			s := newStand(t)
			if err := tc.then(); err != nil {
				t.Fatal(err)
			}
			if _, mounts := s.outside(); mounts == s.canonMounts {
				t.Errorf("CANARY does not see it")
			}
			if tc.after != nil {
				if err := tc.after(); err != nil {
					t.Fatal(err)
				}
			}
			s.began = mountTable(t, filepath.Dir(s.root)) // asked above
		})
	}
}
