package inroot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/hook/inroot"
)

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
		{"A36 removing an empty file through a link", []string{"dir usr", "link usr/lib $H"},
			func(r *inroot.Root) error { _, err := r.RemoveEmpty("/usr/lib/d/empty", false); return err }, ""},
		{"A36 removing an empty directory through a link", []string{"dir usr", "link usr/lib " + up + "$H"},
			func(r *inroot.Root) error { _, err := r.RemoveEmpty("/usr/lib/d/void", true); return err }, ""},
		{"A36 removing a link through a link", []string{"link usr $H"},
			func(r *inroot.Root) error { _, err := r.RemoveLink("/usr/d/l", "x"); return err }, ""},
		{"A36 removing a file of ours through a link", []string{"link usr $H"},
			func(r *inroot.Root) error {
				_, err := r.RemoveFile("/usr/d/inner", 10, func([]byte) bool { return true })
				return err
			}, ""},
		{"A36 removing left-overs through a link", []string{"link usr $H", "link lib $H/d"},
			func(r *inroot.Root) error { _, err := r.Sweep("/lib"); return err }, ""},
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
	return func(r *inroot.Root) error { _, err := r.WriteFile(p, []byte("ours"), inroot.Attr{}); return err }
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
