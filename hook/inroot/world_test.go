package inroot_test

import (
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
	w.make(w.H, "dir d", "file canary precious", "file d/inner deep", "file d/empty ", "link d/l x", "dir d/void", "file d/.cdi-hook-000000000123456789abcdef half", "dir etc", "file etc/ld.so.conf host")
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
