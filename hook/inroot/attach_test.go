package inroot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

// tree clones the mount of a path, attached nowhere.
func tree(t *testing.T, p string) int {
	t.Helper()
	fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Skipf("this machine does not let root clone mounts: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// A mount is attached in the root, on its /dev and in what was attached before,
// and nowhere else: a link leads nowhere out, and no mount of the container's is
// mounted on.
func TestAttach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		w := newWorld(t, "dir usr/lib", "file usr/lib/a empty", "dir usr/d", "dir vol", "file vol/b empty", "dir dev", "link out $H", "link usr/lib/l $H/canary", "link lib usr/lib")
		mount := func(source, target, typ string, flags uintptr) {
			t.Helper()
			if err := unix.Mount(source, target, typ, flags, ""); err != nil {
				t.Skipf("this machine does not let root mount: %v", err)
			}
			t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
		}
		mount(w.R, w.R, "", unix.MS_BIND)
		mount("", w.R, "", unix.MS_PRIVATE)
		mount(filepath.Join(w.R, "vol"), filepath.Join(w.R, "vol"), "", unix.MS_BIND)
		mount("tmpfs", filepath.Join(w.R, "dev"), "tmpfs", 0)
		r := open(w.R)
		if _, err := r.MountPoint("/dev/n", false); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is there already
			for p, source := range map[string]string{"/lib/a": "canary", "/dev/n": "canary", "/usr/d": "d"} {
				if err := r.Attach(p, tree(t, filepath.Join(w.H, source))); err != nil {
					t.Errorf("%s: %v", p, err)
				}
			}
			if err := r.Attach("/usr/d/inner", tree(t, filepath.Join(w.H, "canary"))); err != nil {
				t.Errorf("in what was attached: %v", err)
			}
		}
		for _, p := range []string{"usr/lib/a", "dev/n", "usr/d/inner"} {
			if data, err := os.ReadFile(filepath.Join(w.R, p)); err != nil || string(data) != "precious" {
				t.Errorf("%s: %q, %v", p, data, err)
			}
		}
		for p, want := range map[string]error{
			"/vol/b": inroot.ErrMount, "/usr/lib/l": inroot.ErrInTheWay, "/usr/lib": inroot.ErrInTheWay, "/out/canary": unix.ENOENT, "/none": unix.ENOENT, "/dev/none": unix.ENOENT,
		} {
			if err := r.Attach(p, tree(t, filepath.Join(w.H, "canary"))); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", p, err, want)
			}
		}
		for p, want := range map[string]bool{"/vol/x/y": true, "/vol": true, "/usr/x/y": false, "/dev/x": false, "/out/x": false, "/": false} {
			if got := r.Covered(p); got != want {
				t.Errorf("Covered(%s) = %t", p, got)
			}
		}
		for _, p := range []string{"usr/d/inner", "usr/d", "dev/n", "usr/lib/a"} {
			unix.Unmount(filepath.Join(w.R, p), unix.MNT_DETACH)
		}
		w.canary()
	})
}
