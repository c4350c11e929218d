package inroot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

// A world is a container root R and, beside it, a host tree H that nothing may
// touch. Trees are stated one inode a line.
type world struct {
	t     *testing.T
	R, H  string
	canon string
}

func newWorld(t *testing.T, lines ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, R: filepath.Join(dir, "root"), H: filepath.Join(dir, "host")}
	w.make(w.H, "dir d", "file canary precious", "file d/inner deep", "dir etc", "file etc/ld.so.conf host")
	w.make(w.R, lines...)
	w.canon = listing(t, w.H)
	return w
}

func (w *world) make(base string, lines ...string) {
	w.t.Helper()
	if err := os.MkdirAll(base, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, line := range lines {
		f := strings.SplitN(strings.ReplaceAll(line, "$H", w.H), " ", 3)
		p := filepath.Join(base, f[1])
		var err error
		switch f[0] {
		case "dir":
			err = os.MkdirAll(p, 0o755)
		case "file":
			err = os.WriteFile(p, []byte(f[2]), 0o644)
		case "link":
			err = os.Symlink(f[2], p)
		case "fifo":
			err = unix.Mkfifo(p, 0o644)
		case "socket":
			var fd int
			if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
				err = unix.Bind(fd, &unix.SockaddrUnix{Name: p})
				unix.Close(fd)
			}
		default:
			w.t.Fatalf("line %q", line)
		}
		if err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
	}
}

// canary fails the test if anything of the host tree changed.
func (w *world) canary() {
	w.t.Helper()
	if now := listing(w.t, w.H); now != w.canon {
		w.t.Fatalf("CANARY: the host tree changed\nwas:\n%s\nis:\n%s", w.canon, now)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%s %v", rel, info.Mode())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			text, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %q", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// both runs f with openat2 and with the walker.
func both(t *testing.T, f func(t *testing.T, open func(dir string) *inroot.Root)) {
	for _, walk := range []bool{false, true} {
		name := "openat2"
		if walk {
			name = "walker"
		}
		t.Run(name, func(t *testing.T) {
			f(t, func(dir string) *inroot.Root {
				t.Helper()
				o := inroot.Options{Owner: inroot.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, Walk: walk}
				r, err := inroot.Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				return r
			})
		})
	}
}

// Every write of the table either lands inside the root or is refused.
func TestNothingIsWrittenOutside(t *testing.T) {
	const up = "../../../../../../../../../../../../../../../../../.."
	for _, tc := range []struct {
		name  string
		tree  []string
		do    func(r *inroot.Root) error
		lands string // a path below the root that must be there afterwards; "$H" is the host tree's path
	}{
		{"A1 the last directory is an absolute link", []string{"dir usr/lib", "link usr/lib/gpu $H"},
			link("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), ""},
		{"A1 and its target is there inside the root", []string{"dir usr/lib", "dir in$H", "link usr/lib/gpu /in$H"},
			link("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), "in$H/libcuda.so"},
		{"A1 the first directory is an absolute link", []string{"link usr $H"},
			link("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), ""},
		{"A1 the middle directory is an absolute link", []string{"dir usr", "link usr/lib $H/d"},
			link("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), ""},
		{"A2 more .. than the root is deep", []string{"dir lib/firmware", "link lib/firmware/v " + up + "$H"},
			link("/lib/firmware/v/b", "a"), ""},
		{"A2 a mount point there", []string{"dir lib/firmware", "link lib/firmware/v " + up + "$H"},
			func(r *inroot.Root) error { _, err := r.MountPoint("/lib/firmware/v/gsp.bin", false); return err }, ""},
		{"A6 the file is a link to a host file", []string{"dir etc/ld.so.conf.d", "link etc/ld.so.conf.d/00-cdi-hook.conf $H/canary"},
			write("/etc/ld.so.conf.d/00-cdi-hook.conf"), "etc/ld.so.conf.d/00-cdi-hook.conf"},
		{"A6 /etc is a link to the host's", []string{"link etc $H/etc"}, write("/etc/ld.so.cache"), ""},
		{"A6 a looping link", []string{"link etc etc"}, write("/etc/ld.so.cache"), ""},
		{"A7 objects with glibc's temporary name", []string{"dir etc", "link etc/ld.so.cache~ $H/canary", "dir etc/x"},
			write("/etc/ld.so.cache"), "etc/ld.so.cache"},
		{"A19 /dev is a link to the host", []string{"link dev $H"}, link("/dev/dri/by-path/x", "../card0"), ""},
		{"A13 a mount point under a link to the host", []string{"dir usr/lib", "link usr/lib/gpu $H"},
			func(r *inroot.Root) error { _, err := r.MountPoint("/usr/lib/gpu/x", true); return err }, ""},
		{"A22 chmod through a link", []string{"dir dev", "link dev/dri $H"},
			func(r *inroot.Root) error { return r.Chmod("/dev/dri/d", 0o700) }, ""},
		{"A22 chmod of the link itself", []string{"dir dev", "link dev/dri $H/d"},
			func(r *inroot.Root) error { return r.Chmod("/dev/dri", 0o700) }, ""},
		{"A36 removing through a link", []string{"dir usr", "link usr/lib $H"},
			func(r *inroot.Root) error { _, err := r.RemoveEmpty("/usr/lib/d/inner", false); return err }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both(t, func(t *testing.T, open func(string) *inroot.Root) {
				w := newWorld(t)
				for _, line := range tc.tree {
					w.make(w.R, line)
				}
				err := tc.do(open(w.R))
				w.canary()
				if tc.lands == "" {
					return // refused, or somewhere inside: the canary has spoken
				}
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if _, err := os.Lstat(filepath.Join(w.R, strings.ReplaceAll(tc.lands, "$H", w.H))); err != nil {
					t.Errorf("it did not land where the container would look: %v", err)
				}
			})
		})
	}
}

func link(p, text string) func(*inroot.Root) error {
	return func(r *inroot.Root) error { _, err := r.Symlink(p, text); return err }
}

func write(p string) func(*inroot.Root) error {
	return func(r *inroot.Root) error { _, err := r.WriteFile(p, []byte("ours"), 0o644); return err }
}

func TestOrdinaryRootsWork(t *testing.T) {
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir usr/lib", "link lib usr/lib", "dir srv/libs", "link usr/lib/abs /srv/libs")
		r := open(w.R)
		for _, p := range []string{"/lib/a.so", "/usr/lib/abs/b.so", "/opt/new/deep/c.so"} {
			res, err := r.Symlink(p, "x")
			if err != nil || res.Change != inroot.Made {
				t.Fatalf("Symlink(%s) = %+v, %v", p, res, err)
			}
			if res, err := r.Symlink(p, "x"); err != nil || res.Change != inroot.Kept || len(res.Dirs) != 0 {
				t.Errorf("the second time: %+v, %v; want kept", res, err)
			}
			if res, err := r.Symlink(p, "y"); err != nil || res.Change != inroot.Replaced {
				t.Errorf("with another text: %+v, %v; want replaced", res, err)
			}
		}
		for _, p := range []string{"usr/lib/a.so", "srv/libs/b.so", "opt/new/deep/c.so"} {
			if text, err := os.Readlink(filepath.Join(w.R, p)); err != nil || text != "y" {
				t.Errorf("%s -> %q, %v", p, text, err)
			}
		}
		w.canary()
	})
}

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

// A7: nobody knows a temporary's name before it is there.
func TestA7TemporaryNamesAreNotKnownBefore(t *testing.T) {
	r, err := inroot.Open(t.TempDir(), inroot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen, letters := map[string]bool{}, map[int]map[byte]bool{}
	for range 1000 {
		name := r.TempName()
		if seen[name] {
			t.Fatalf("%s comes twice", name)
		}
		seen[name] = true
		for i := range 16 { // the last 16 are random: each place takes each of the 16 digits
			if letters[i] == nil {
				letters[i] = map[byte]bool{}
			}
			letters[i][name[len(name)-16+i]] = true
		}
	}
	for i, l := range letters {
		if len(l) != 16 {
			t.Errorf("digit %d takes %d values", i, len(l))
		}
	}
}
