package inroot_test

import (
	"fmt"
	"os"
	"testing"

	"gpurig/hook/inroot"
)

// A36: what is removed is what we made, as we made it. What the container has made
// of it since is the container's.
func TestA36OnlyOursIsRemoved(t *testing.T) {
	ours := func(data []byte) bool { return string(data) == "ours" }
	for _, tc := range []struct {
		name, inode string
		do          func(r *inroot.Root) (bool, error)
		removed     bool
	}{
		{"our link", "link p ours", removeLink, true},
		{"our link, as it was before", "link p before", removeLink, true},
		{"a link that leads elsewhere", "link p other", removeLink, false},
		{"a file in a link's place", "file p ours", removeLink, false},
		{"a directory in a link's place", "dir p", removeLink, false},
		{"our mount point", "file p ", removePoint, true},
		{"a mount point that was written to", "file p x", removePoint, false},
		{"a link in a mount point's place", "link p ours", removePoint, false},
		{"a FIFO in a mount point's place", "fifo p", removePoint, false},
		{"a directory in a mount point's place", "dir p", removePoint, false},
		{"our directory", "dir p", removeDir, true},
		{"a directory with something in it", "dir p/x", removeDir, false},
		{"a file in a directory's place", "file p ", removeDir, false},
		{"a link in a directory's place", "link p ours", removeDir, false},
		{"our file", "file p ours", func(r *inroot.Root) (bool, error) { return r.RemoveFile("/p", 10, ours) }, true},
		{"a file that was changed", "file p other", func(r *inroot.Root) (bool, error) { return r.RemoveFile("/p", 10, ours) }, false},
		{"a file that grew", "file p ours", func(r *inroot.Root) (bool, error) { return r.RemoveFile("/p", 3, ours) }, false},
		{"a FIFO in a file's place", "fifo p", func(r *inroot.Root) (bool, error) { return r.RemoveFile("/p", 10, ours) }, false},
		{"nothing", "dir q", removeLink, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			both(t, func(t *testing.T, open func(string) *inroot.Root) {
				w := newWorld(t, tc.inode)
				before := listing(t, w.R)
				removed, err := tc.do(open(w.R))
				if err != nil || removed != tc.removed {
					t.Errorf("removed: %v, %v; want %v", removed, err, tc.removed)
				}
				if gone := listing(t, w.R) != before; gone != tc.removed {
					t.Errorf("it is gone: %v; want %v", gone, tc.removed)
				}
				w.canary()
			})
		})
	}
}

// A59: a file that has something in it is not empty because its size is 0.
func TestA59ASizeOfZeroIsNotEmpty(t *testing.T) {
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		if removed, err := open(fmt.Sprintf("/proc/%d", os.Getpid())).RemoveEmpty("/comm", false); removed || err != nil {
			t.Errorf("removed: %v, %v; want it not to be tried", removed, err)
		}
	})
}

func removeLink(r *inroot.Root) (bool, error)  { return r.RemoveLink("/p", "ours", "before") }
func removePoint(r *inroot.Root) (bool, error) { return r.RemoveEmpty("/p", false) }
func removeDir(r *inroot.Root) (bool, error)   { return r.RemoveEmpty("/p", true) }
