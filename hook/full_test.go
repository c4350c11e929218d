package hook_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

// F6: with all in place a read-only root needs no write, nor does the directory
// of the hook file.
func TestF6ReadOnlyRoots(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "file usr/lib/gpu/libgood.so.1.2 x")
		if err := os.WriteFile(s.path("usr/lib/gpu/libgood.so.1.2"), library(t, "libgood.so.1"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.walk = walk
		full(s)
		s.run(hook.Prepare, hook.Apply)
		before := s.tree()
		base := filepath.Dir(s.file)
		remountReadOnly(t, base)
		s.photo()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
			if _, err := s.try(stage); err != nil {
				t.Errorf("%s with all in place: %v", stage, err)
			}
		}
		if s.tree() != before {
			t.Error("it changed")
		}
		s.canary()
		if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(s.path("usr/lib/gpu/libcuda.so.1")); err != nil {
			t.Fatal(err)
		}
		remountReadOnly(t, s.root)
		s.photo()
		_, err := s.try(hook.Apply)
		if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "libcuda.so.1") {
			t.Errorf("with one link missing: %v; want EROFS and the path", err)
		}
		s.canary()
	})
}

// F4, F5: the disk fills at any place; the old files stay whole. F9: with a page
// left, a write does less than it was asked to.
func TestF4F5AFullDisk(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	s := newStand(t)
	mount(t, "tmpfs", s.root, "tmpfs", 0, "size=64k,mode=755")
	s.plant(s.root, "dir usr/lib/gpu", "file etc/ld.so.cache old", "file etc/ld.so.conf /opt/lib")
	for i := range 200 { // a cache of more than 8 KiB
		name := s.path("usr/lib/gpu") + "/" + strings.Repeat("l", 60)
		_ = os.Symlink("none", name+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
	s.write()
	fill := func(leave int) {
		f, err := os.Create(s.path("filler"))
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				break
			}
		}
		st, _ := f.Stat()
		if err := f.Truncate(st.Size() - int64(leave)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for _, leave := range []int{0, 4096} {
		fill(leave)
		before := s.tree()
		_, err := s.try(hook.Apply)
		if leave == 0 && !errors.Is(err, unix.ENOSPC) {
			t.Errorf("full: %v; want ENOSPC", err)
		}
		if cache := s.read("etc/ld.so.cache"); err != nil && cache != "old" {
			t.Errorf("the cache is %q after %v", cache, err)
		}
		if strings.Contains(s.tree(), ".cdi-hook-") {
			t.Error("a temporary is left")
		}
		if leave == 0 && onlyFiles(s.tree()) != onlyFiles(before) {
			t.Errorf("the root changed:\n%s\nto:\n%s", before, s.tree())
		}
	}
	if err := os.Remove(s.path("filler")); err != nil {
		t.Fatal(err)
	}
	s.run(hook.Apply)

	few := newStand(t)
	mount(t, "tmpfs", few.root, "tmpfs", 0, "nr_inodes=4,mode=755")
	few.plant(few.root, "dir usr", "dir etc")
	few.photo()
	full(few)
	few.write()
	if _, err := few.try(hook.Prepare); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without inodes: %v; want ENOSPC", err)
	}
	few.canary()
	if err := unix.Mount("", few.root, "", unix.MS_REMOUNT, "nr_inodes=400"); err != nil {
		t.Fatal(err)
	}
	few.run(hook.Prepare, hook.Apply, hook.Finish, hook.Clean)
	if got := few.tree(); strings.Count(got, "\n") != 3 {
		t.Errorf("left behind:\n%s", got)
	}
}

// onlyFiles takes the directories out of a listing.
func onlyFiles(tree string) string {
	var out strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.Contains(line, " 40755 ") {
			out.WriteString(line)
		}
	}
	return out.String()
}
