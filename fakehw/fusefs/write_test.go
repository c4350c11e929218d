package fusefs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// A mount that can be written to passes on what is written below /sys, as one
// request per write, and is read-only everywhere else.
func TestWritesGoToTheTree(t *testing.T) {
	ways(t, func(t *testing.T, opts fusefs.Options) {
		fake := tree.New()
		fill(t, fake,
			fake.WriteFile("/sys/unbind", nil, 0o200),
			fake.WriteFile("/sys/vendor", []byte("0x10de\n"), 0o444),
			fake.WriteFile("/sys/gone", nil, 0o644),
			fake.WriteFile("/etc/conf", []byte("x"), 0o644))
		var mu sync.Mutex
		var got []string
		opts.Lock = &mu
		opts.Write = func(p string, data []byte) syscall.Errno {
			if string(data) == "no" {
				return syscall.ENODEV
			}
			got = append(got, p+" "+string(data))
			return 0
		}
		dir := mount(t, fake, opts)
		write := func(name, text string, flags int) error {
			f, err := os.OpenFile(filepath.Join(dir, name), flags, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString(text)
			return errors.Join(err, f.Close())
		}
		open, err := os.OpenFile(filepath.Join(dir, "sys/gone"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		mu.Lock()
		if err := fake.Remove("/sys/gone"); err != nil {
			t.Fatal(err)
		}
		mu.Unlock()
		for _, tc := range []struct {
			name string
			err  error
			want error
		}{
			{"echo", write("sys/unbind", "a", os.O_WRONLY|os.O_TRUNC|os.O_CREATE), nil},
			{"append", write("sys/unbind", "b", os.O_WRONLY|os.O_APPEND), nil},
			{"refused", write("sys/unbind", "no", os.O_WRONLY), unix.ENODEV},
			{"gone", func() error { _, err := open.WriteString("x"); return err }(), unix.ENODEV},
			{"write what can only be read", write("sys/vendor", "x", os.O_WRONLY), unix.EACCES},
			{"read what can only be written", func() error { _, err := os.ReadFile(filepath.Join(dir, "sys/unbind")); return err }(), unix.EACCES},
			{"a new attribute", write("sys/new", "x", os.O_WRONLY|os.O_CREATE), unix.EACCES},
			{"remove", os.Remove(filepath.Join(dir, "sys/vendor")), unix.EPERM},
			{"rename", os.Rename(filepath.Join(dir, "sys/vendor"), filepath.Join(dir, "sys/v")), unix.EPERM},
			{"mkdir", os.Mkdir(filepath.Join(dir, "sys/d"), 0o755), unix.EPERM},
			{"symlink", os.Symlink("a", filepath.Join(dir, "sys/l")), unix.EPERM},
			{"link", os.Link(filepath.Join(dir, "sys/vendor"), filepath.Join(dir, "sys/l")), unix.EPERM},
			{"chmod", os.Chmod(filepath.Join(dir, "sys/vendor"), 0o777), unix.EPERM},
			{"a file that is no attribute", write("etc/conf", "x", os.O_WRONLY), unix.EROFS},
			{"truncate it", os.Truncate(filepath.Join(dir, "etc/conf"), 0), unix.EROFS},
			{"remove it", os.Remove(filepath.Join(dir, "etc/conf")), unix.EROFS},
			{"a new file", write("etc/new", "x", os.O_WRONLY|os.O_CREATE), unix.EROFS},
			{"access to what nobody can execute", unix.Access(filepath.Join(dir, "sys/unbind"), unix.X_OK), unix.EACCES},
			{"access to an attribute", unix.Access(filepath.Join(dir, "sys/unbind"), unix.W_OK), nil},
		} {
			if !errors.Is(tc.err, tc.want) {
				t.Errorf("%s: %v; want %v", tc.name, tc.err, tc.want)
			}
		}
		if len(got) != 2 || got[0] != "/sys/unbind a" || got[1] != "/sys/unbind b" {
			t.Errorf("the tree got %q", got)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "etc/conf")); string(text) != "x" || err != nil {
			t.Errorf("etc/conf: %q, %v", text, err)
		}
	})
}

// A mount whose server was killed is known for what it is, and for ours.
func TestLookAndClear(t *testing.T) {
	fake := tree.New()
	fill(t, fake, fake.WriteFile("/f", nil, 0o644))
	dir := mount(t, fake, fusefs.Options{})
	state := func(dir string, want fusefs.State) string {
		t.Helper()
		real, got, err := fusefs.Look(dir)
		if err != nil || got != want {
			t.Fatalf("Look(%s) = %v, %v; want %v", dir, got, err, want)
		}
		return real
	}
	state(dir, fusefs.InUse)
	state(filepath.Dir(dir), fusefs.Free)
	odd := filepath.Join(t.TempDir(), `odd #name\040`)
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	state(odd, fusefs.Free)
	if _, _, err := fusefs.Look(odd + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Look at nothing: %v", err)
	}
	conn, mnt, err := fusefs.Connect(fusefs.Options{}, true)
	if err != nil {
		t.Skipf("no FUSE by mount calls: %v", err)
	}
	defer unix.Close(mnt)
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, odd, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	unix.Close(conn) // as when the server is killed
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(odd, link); err != nil {
		t.Fatal(err)
	}
	if real := state(link, fusefs.Orphan); real != odd {
		t.Errorf("Look(%s) = %s; want %s", link, real, odd)
	}
	if err := fusefs.Clear(odd); err != nil {
		t.Fatal(err)
	}
	state(odd, fusefs.Free)
}
