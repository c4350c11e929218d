package inroot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

func TestWhatIsNotALinkStays(t *testing.T) {
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir lib", "file lib/libcuda.so.1 own", "dir lib/d", "dir etc/ld.so.cache")
		r := open(w.R)
		before := listing(t, w.R)
		for name, f := range map[string]func(*inroot.Root) error{
			"B35 a link over a regular file":     link("/lib/libcuda.so.1", "x"),
			"B35 a link over a directory":        link("/lib/d", "x"),
			"a file over a directory":            write("/etc/ld.so.cache"),
			"a mount point over a directory":     func(r *inroot.Root) error { _, err := r.MountPoint("/lib/d", false); return err },
			"a directory over a file (A14-like)": func(r *inroot.Root) error { _, err := r.MkdirAll("/lib/libcuda.so.1/x"); return err },
		} {
			if err := f(r); err == nil {
				t.Errorf("%s succeeded", name)
			}
		}
		if now := listing(t, w.R); now != before {
			t.Errorf("the root changed:\n%s\nto:\n%s", before, now)
		}
	})
}

func TestReadingIsBounded(t *testing.T) {
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir a", "file a/f 12345", "fifo a/pipe", "socket a/s", "link a/out $H/canary", "link a/magic /proc/self/root$H/canary")
		r := open(w.R)
		if data, err := r.ReadFile("/a/f", 5); err != nil || string(data) != "12345" {
			t.Errorf("ReadFile = %q, %v", data, err)
		}
		for _, p := range []string{"/a/pipe", "/a/s", "/a/out", "/a/magic", "/a", "/a/none"} {
			if data, err := r.ReadFile(p, 100); err == nil {
				t.Errorf("ReadFile(%s) = %q; want an error", p, data)
			}
		}
		if _, err := r.ReadFile("/a/f", 4); err == nil {
			t.Error("a file over the limit was read")
		}
		if _, err := r.ReadDir("/a", 3); err == nil {
			t.Error("a directory over the limit was read")
		}
		for _, p := range []string{"a/f", "/a/../a/f", "/a//f", "/a/f/", "/a/\x00"} { // A39, B28
			if _, err := r.ReadFile(p, 100); err == nil {
				t.Errorf("ReadFile(%q) succeeded", p)
			}
			if _, err := r.Lstat(p); err == nil {
				t.Errorf("Lstat(%q) succeeded", p)
			}
		}
	})
}

// A directory in which something was looked at is kept open, until we change something.
func TestALookSeesWhatChangedSince(t *testing.T) {
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir a", "dir b", "file b/f 1")
		r := open(w.R)
		if _, err := r.Lstat("/a/x"); !errors.Is(err, unix.ENOENT) {
			t.Fatalf("Lstat of nothing: %v", err)
		}
		if gone, err := r.RemoveEmpty("/a", true); !gone || err != nil {
			t.Fatalf("RemoveEmpty: %v, %v", gone, err)
		}
		if _, err := r.Symlink("/a", "b"); err != nil {
			t.Fatal(err)
		}
		if i, err := r.Lstat("/a/f"); err != nil || i.Size != 1 {
			t.Errorf("Lstat through a new link = %+v, %v", i, err)
		}
		for p, want := range map[string]error{"/a/f": unix.EINVAL, "/a/x": unix.ENOENT} {
			if text, err := r.Readlink(p); !errors.Is(err, want) {
				t.Errorf("Readlink(%s) = %q, %v; want %v", p, text, err, want)
			}
		}
	})
}

func TestTheRootItselfMustBeADirectory(t *testing.T) { // A14
	w := newWorld(t, "file f x", "fifo p", "link l $H", "dir d")
	for _, name := range []string{"f", "p", "l", "none"} {
		if r, err := inroot.Open(filepath.Join(w.R, name), inroot.Options{}); err == nil {
			r.Close()
			t.Errorf("%s was opened as a root", name)
		}
	}
	r, err := inroot.Open(filepath.Join(w.R, "d"), inroot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestSweepTakesOnlyWhatAKilledRunLeft(t *testing.T) { // F1
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir etc", "file etc/.cdi-hook-000000000123456789abcdef half", "link etc/.cdi-hook-00000000fedcba9876543210 x",
			"file etc/.cdi-hook-mine keep", "file etc/.cdi-hook-11111111fedcba9876543210 another's", "dir etc/.cdi-hook-0000000000000000000000aa")
		n, err := open(w.R).Sweep("/etc")
		if err != nil || n != 2 {
			t.Errorf("Sweep = %d, %v; want 2", n, err)
		}
		for _, keep := range []string{"etc/.cdi-hook-mine", "etc/.cdi-hook-11111111fedcba9876543210", "etc/.cdi-hook-0000000000000000000000aa"} {
			if _, err := os.Lstat(filepath.Join(w.R, keep)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestA5MountsAreNotWrittenThrough(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir usr/lib/gpu", "dir dev")
		mount := func(source, target, typ string, flags uintptr) {
			t.Helper()
			if err := unix.Mount(source, target, typ, flags, ""); err != nil {
				if os.Getenv("GPURIG_REQUIRE_LXC") != "" {
					t.Fatalf("required here: this machine does not let root mount: %v", err)
				}
				t.Skipf("this machine does not let root mount: %v", err)
			}
			t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
		}
		mount(w.H, filepath.Join(w.R, "usr/lib/gpu"), "", unix.MS_BIND)
		mount("tmpfs", filepath.Join(w.R, "dev"), "tmpfs", 0)
		r := open(w.R)
		for name, f := range map[string]func(*inroot.Root) error{
			"link": link("/usr/lib/gpu/b", "a"), "file": write("/usr/lib/gpu/f"), "deep": link("/usr/lib/gpu/new/b", "a"),
		} {
			if err := f(r); !errors.Is(err, inroot.ErrMount) {
				t.Errorf("%s under a bind mount: %v; want ErrMount", name, err)
			}
		}
		w.canary()
		// The one mount that changes may go through: the fresh tmpfs on /dev.
		if _, err := r.Symlink("/dev/dri/by-path/x", "../card0"); err != nil {
			t.Errorf("link on the container's own /dev: %v", err)
		}
		if err := os.Symlink(w.H, filepath.Join(w.R, "dev/out")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Symlink("/dev/out/x", "y"); err == nil {
			t.Error("a link out of /dev was followed")
		}
		w.canary()
	})
}

// TestElsewhereReadsMountTables is the rule by which a file system of the host's
// is told from the container's own.
func TestElsewhereReadsMountTables(t *testing.T) {
	const table = "24 1 0:22 / /dev rw - devtmpfs dev rw\n31 1 8:1 / / rw - ext4 /dev/vda rw\n" +
		"90 31 0:50 / /c/dev rw - tmpfs none rw\n91 90 0:50 /x /c/dev/x rw - tmpfs none rw\n92 31 0:51 / /a rw - tmpfs none rw\n93 31 0:51 / /ab rw - tmpfs none rw\n"
	for _, tc := range []struct {
		name, number, id string
		want             bool
	}{
		{"the container's own, which we see", "0:50", "90", false},
		{"the container's own, which we do not see", "0:77", "5", false},
		{"the host's /dev, seen from outside", "0:22", "5", true},
		{"mounted beside, with a name that starts alike", "0:51", "92", true},
	} {
		if got := inroot.Elsewhere(table, tc.number, tc.id); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// Kernels before 5.8 tell the mount id in procfs only.
func TestMountIDsOfBothSourcesAgree(t *testing.T) {
	for _, name := range []string{"/", "/proc", t.TempDir()} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		a, err := inroot.MountIDFromProc(fd)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := inroot.MountIDFromKernel(fd); err != nil || a != b {
			t.Errorf("%s: %d and %d, %v", name, a, b, err)
		}
	}
}
