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
	"gpurig/hook"
)

// A stand is a container root, a hook file beside it, and a host tree that
// nothing may touch.
type stand struct {
	t                testing.TB
	root, host, file string
	spec             hookspec.File
	// What nothing may change: the host tree, and the mounts, as they are now and as
	// the test found them.
	canonHost, canonMounts, began string
	walk                          bool
	leak                          *os.File // of the host's, open in the hook
}

// newStand makes a root of the lines (see plant) and /etc. $H in a line is the
// path of the host tree.
func newStand(t testing.TB, lines ...string) *stand {
	t.Helper()
	return newStandIn(t, t.TempDir(), lines...)
}

// newStandIn is newStand in an empty folder.
func newStandIn(t testing.TB, base string, lines ...string) *stand {
	t.Helper()
	s := &stand{t: t, root: filepath.Join(base, "root"), host: filepath.Join(base, "host"), file: filepath.Join(base, "c1.json"),
		spec: hookspec.File{Version: hookspec.Version, Container: "c1", Owner: hookspec.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}}
	s.plant(s.host, "file canary precious", "file empty ", "dir d", "file d/inner deep", "file d/libcuda.so.1 host", "dir etc/ld.so.conf.d",
		"file etc/ld.so.conf host", "link l libcuda.so.1")
	s.plant(s.root, lines...)
	if _, err := os.Lstat(filepath.Join(s.root, "etc")); err != nil {
		s.plant(s.root, "dir etc")
	}
	s.photo()
	s.began = s.canonMounts
	t.Cleanup(func() { // whatever the test itself asks
		if now := mountTable(t, base); now != s.began {
			t.Errorf("CANARY: the mounts changed\n%s", differing(s.began, now))
		}
		if s.canonMounts != s.began { // the host was looked at with mounts that are gone by now
			return
		}
		if now := listing(t, s.host); now != s.canonHost {
			t.Errorf("CANARY: the host changed\n%s", differing(s.canonHost, now))
		}
	})
	return s
}

// plant makes inodes below base, one a line: "dir a/b", "file a/f text",
// "link a/l target", "fifo a/p", "socket a/s", "copy a/f /path/on/this/machine",
// "library a/f SONAME", "script a/f file", which makes that file when it is run.
func (s *stand) plant(base string, lines ...string) {
	s.t.Helper()
	if err := os.MkdirAll(base, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, line := range lines {
		f := append(strings.SplitN(strings.ReplaceAll(line, "$H", s.host), " ", 3), "")
		p := filepath.Join(base, f[1])
		var err error
		if f[0] != "dir" {
			err = os.MkdirAll(filepath.Dir(p), 0o755)
		}
		switch {
		case err != nil:
		case f[0] == "library":
			err = os.WriteFile(p, library(s.t, f[2]), 0o644)
		default:
			err = makeInode(f[0], p, f[2])
		}
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
	}
}

func makeInode(kind, p, arg string) error {
	switch kind {
	case "none": // not even what a stand has otherwise
		return nil
	case "dir":
		return os.MkdirAll(p, 0o755)
	case "file":
		return os.WriteFile(p, []byte(arg), 0o644)
	case "link":
		return os.Symlink(arg, p)
	case "fifo":
		return unix.Mkfifo(p, 0o644)
	case "socket":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dir, err := unix.Open(filepath.Dir(p), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		// A socket's path has room for 108 bytes.
		return unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(p))})
	case "script":
		return os.WriteFile(p, []byte("#!/bin/sh\necho owned > "+arg+"\n"), 0o755)
	case "copy":
		data, err := os.ReadFile(arg)
		if err != nil {
			return err
		}
		return os.WriteFile(p, data, 0o755)
	}
	return fmt.Errorf("no such kind of inode: %q", kind)
}

// chown gives the root to the root of a user namespace.
func (s *stand) chown() {
	s.t.Helper()
	err := filepath.WalkDir(s.root, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, 100000, 100000))
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// photo takes the state of the host that canary compares with.
func (s *stand) photo() { s.canonHost, s.canonMounts = s.outside() }

func (s *stand) outside() (host, mounts string) {
	s.t.Helper()
	return listing(s.t, s.host), mountTable(s.t, filepath.Dir(s.root))
}

// canary closes every attack: the host tree and the mount table are what they were.
func (s *stand) canary() {
	s.t.Helper()
	host, mounts := s.outside()
	if host != s.canonHost || mounts != s.canonMounts {
		s.t.Fatalf("CANARY: the host changed\n%s", differing(s.canonHost+s.canonMounts, host+mounts))
	}
}

func (s *stand) write() {
	s.t.Helper()
	data, err := s.spec.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.file, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// try runs one stage in this process.
func (s *stand) try(stage hook.Stage) ([]string, error) {
	s.t.Helper()
	return hook.Run(s.t.Context(), hook.Job{File: s.file, Stage: stage, Root: s.root, Walk: s.walk}, nil)
}

// run writes the hook file and runs stages, which must succeed.
func (s *stand) run(stages ...hook.Stage) (notes []string) {
	s.t.Helper()
	s.write()
	for _, stage := range stages {
		n, err := s.try(stage)
		if err != nil {
			s.t.Fatalf("%s: %v", stage, err)
		}
		notes = append(notes, n...)
	}
	return notes
}

// args are the arguments of cdi-hook for one stage.
func (s *stand) args(stage hook.Stage) []string {
	a := []string{"--stage", string(stage), "--root", s.root, s.file}
	if s.walk {
		a = append([]string{"--no-openat2"}, a...)
	}
	return a
}

// tree lists the root.
func (s *stand) tree() string { return listing(s.t, s.root) }

// beside lists what is beside the hook file: nothing of ours may be left there.
func (s *stand) beside() string {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.file))
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func (s *stand) read(p string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.root, p))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// each runs f for both ways of resolving paths.
func each(t *testing.T, f func(t *testing.T, walk bool)) {
	t.Run("openat2", func(t *testing.T) { f(t, false) })
	t.Run("walker", func(t *testing.T) { f(t, true) })
}

func full(s *stand) {
	s.spec.MountPoints = []hookspec.MountPoint{{Path: "/run/nvidia", Dir: true}, {Path: "/usr/lib/gpu/libcuda.so.550.1"}}
	s.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libcuda.so.1", Target: "libcuda.so.550.1"}}
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
}

func (s *stand) path(p string) string { return filepath.Join(s.root, p) }

// want is the tree that an ordinary run makes.
func want(t *testing.T) string {
	t.Helper()
	s := newStand(t)
	full(s)
	s.run(hook.Prepare, hook.Apply)
	return s.tree()
}
