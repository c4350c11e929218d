package hook_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
)

// driver asks for what a driver's version brings: a library, its link, a node.
func (s *lxcStand) driver(version string) {
	lib := "libcuda.so." + version
	s.spec.MountPoints = []hookspec.MountPoint{{Path: "/usr/lib/gpu/" + lib, Source: s.host + "/" + lib}}
	s.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libcuda.so", Target: "libcuda.so.1"}}
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
	s.lines = []string{
		fmt.Sprintf("lxc.mount.entry = %s/%s usr/lib/gpu/%s none bind,ro 0 0", s.host, lib, lib),
		fmt.Sprintf("lxc.mount.entry = %s/nvidia0 dev/nvidia0 none bind,create=file 0 0", s.host),
	}
}

// A GPU that goes, or a driver that changes, at each moment of a real start (F18,
// F19, F20): before it, between our first hook and the mounts, and behind the
// mounts, where a container keeps what it has. A start either fails and says what
// is gone, or has all; the next one, of a Spec that is true, makes what a first
// start makes.
func TestLXCAGPUThatGoesDuringAStart(t *testing.T) {
	for name, tc := range map[string]struct {
		gone string // of the host tree
		hook string // in which it goes; empty: before the start
		said string // empty: the start succeeds
	}{
		"F20 the node before the start":           {"nvidia0", "", "nvidia0"},
		"F20 the node between hook and mounts":    {"nvidia0", "pre-start", "nvidia0"},
		"F20 the node behind the mounts":          {"nvidia0", "start-host", ""},
		"F19 the library before the start":        {"libcuda.so.550.1", "", "libcuda.so.550.1"},
		"F19 the library between hook and mounts": {"libcuda.so.550.1", "pre-start", "libcuda.so.550.1"},
		"F19 the library behind the mounts":       {"libcuda.so.550.1", "start-host", ""},
	} {
		for _, idmap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/idmap=%v", name, idmap), func(t *testing.T) {
				s := newLXC(t, idmap, "dir usr/lib/gpu")
				before := s.tree()
				upgrade := func() {
					err := os.WriteFile(filepath.Join(s.host, "libcuda.so.560.2"), library(t, "libcuda.so.1"), 0o644)
					if err != nil {
						t.Fatal(err)
					}
				}
				node := func() {
					if err := unix.Mknod(filepath.Join(s.host, "nvidia0"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil && err != unix.EEXIST {
						skip(t, "no device node can be made here: %v", err)
					}
				}
				node()
				upgrade()
				s.driver("550.1")
				victim := filepath.Join(s.host, tc.gone)
				if tc.hook == "" {
					if err := os.Remove(victim); err != nil {
						t.Fatal(err)
					}
				} else { // after ours of that kind
					s.lines = append(s.lines, "lxc.hook."+tc.hook+" = /bin/rm "+victim)
				}
				err := s.start("start-host")
				if (err == nil) != (tc.said == "") || err != nil && !strings.Contains(err.Error(), tc.said) {
					t.Fatalf("%v; want %q", err, tc.said)
				}
				if _, err := os.Lstat(victim); !os.IsNotExist(err) {
					t.Fatalf("%s did not go: %v", tc.gone, err)
				}
				if tree := s.tree(); strings.Contains(tree, "\nusr/lib/gpu/libcuda.so.550.1 ") || strings.Contains(tree, ".cdi-hook-") {
					t.Errorf("after the start there is left:\n%s", tree)
				}
				node() // and the driver is another one
				s.driver("560.2")
				s.script = "readlink /usr/lib/gpu/libcuda.so.1 > /tmp/seen; test -c /dev/nvidia0 && test -e /usr/lib/gpu/libcuda.so"
				if err := s.start("start-host"); err != nil {
					t.Fatalf("with a Spec that is true: %v", err)
				}
				s.canary()
				if seen := s.read("tmp/seen"); seen != "libcuda.so.560.2\n" {
					t.Errorf("the link leads to %q", seen)
				}
				if out, err := hookCommand(t, s.args("clean")...).CombinedOutput(); err != nil {
					t.Fatalf("clean: %s", out)
				}
				if err := errors.Join(os.Remove(s.path("check")), os.Remove(s.path("tmp/seen"))); err != nil {
					t.Error(err)
				}
				if after := strings.ReplaceAll(s.tree(), " 100000:100000", " 0:0"); after != before {
					t.Errorf("taken back:\n%s", differing(before, after))
				}
			})
		}
	}
}

// F17: a hundred starts in a row give one tree, byte for byte.
func TestLXCManyStartsAreOne(t *testing.T) {
	s := newLXC(t, true, "dir usr/lib/gpu")
	s.driver("550.1")
	s.lines = s.lines[:1]
	s.script = "true"
	times := 10
	if thorough() {
		times = 100
	}
	first := ""
	for i := range times {
		if err := s.start("start-host"); err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		s.canary()
		now := s.tree() + s.beside()
		if first == "" {
			first = now
		}
		if now != first {
			t.Fatalf("start %d made something else:\n%s", i, differing(first, now))
		}
	}
}
