package hook_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// An ordinary root is one in which all has to succeed: refusing too much is a
// defect like refusing too little.
type ordinary struct {
	name  string
	image []string
	// lands are files and links that must be there afterwards.
	lands []string
}

// What is asked in each of them, and lands in most.
var (
	askedLinks = []hookspec.Link{{Path: "/usr/lib/gpu/libcuda.so", Target: "libcuda.so.1"}, {Path: "/opt/gpu/l", Target: "x"}}
	glibcLands = []string{"usr/lib/gpu/libcuda.so", "usr/lib/gpu/libcuda.so.1", "opt/gpu/l", "etc/ld.so.cache"}
	muslLands  = []string{"usr/lib/gpu/libcuda.so", "opt/gpu/l", "etc/ld-musl-x86_64.path"}
)

const ownLibrary = "library usr/lib/gpu/libcuda.so.550.1 libcuda.so.1"

var ordinaries = []ordinary{
	{"merged usr", []string{"dir usr/lib", "link lib usr/lib", "link lib64 usr/lib", "file etc/ld.so.conf include /etc/ld.so.conf.d/*.conf\n", ownLibrary}, glibcLands},
	{"unmerged usr", []string{"dir usr/lib", "dir lib", "dir lib64", "file etc/ld.so.conf /usr/local/lib\n", ownLibrary}, glibcLands},
	{"absolute links inside the root", []string{"library srv/libs/libcuda.so.550.1 libcuda.so.1", "dir usr/lib", "link usr/lib/gpu /srv/libs", "dir config", "link etc /config", "link opt /srv/../srv/opt", "dir srv/opt"},
		[]string{"srv/libs/libcuda.so", "srv/libs/libcuda.so.1", "srv/opt/gpu/l", "config/ld.so.cache"}},
	{"links that climb to the root and no farther", []string{"library srv/libs/libcuda.so.550.1 libcuda.so.1", "dir usr/lib", "link usr/lib/gpu " + up + "/srv/libs"},
		[]string{"srv/libs/libcuda.so", "srv/libs/libcuda.so.1", "opt/gpu/l", "etc/ld.so.cache"}},
	{"distroless", []string{"file lib64/ld-linux-x86-64.so.2 x", "dir etc", ownLibrary}, glibcLands},
	{"no /etc", []string{"file lib64/ld-linux-x86-64.so.2 x", ownLibrary, "none etc"}, glibcLands},
	{"musl", []string{"file lib/ld-musl-x86_64.so.1 x", "dir etc", ownLibrary},
		muslLands},
	{"musl without /etc", []string{"file lib/ld-musl-x86_64.so.1 x", ownLibrary, "none etc"},
		muslLands},
}

// A ground is what a root lies on.
type ground struct {
	name string
	lay  func(t *testing.T, s *stand)
}

var grounds = []ground{
	{"a directory", func(*testing.T, *stand) {}},
	{"a mount", func(t *testing.T, s *stand) { mountHere(t, s.root) }},
	{"an overlay", overlay},
}

// overlay makes the root the lower layer of what is mounted over it.
func overlay(t *testing.T, s *stand) {
	t.Helper()
	upper := filepath.Join(t.TempDir(), "upper")
	mount(t, "tmpfs", upper, "tmpfs", 0, "mode=755")
	for _, dir := range []string{"u", "w"} {
		if err := os.Mkdir(filepath.Join(upper, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat(s.root); err == nil {
		o := st.Sys().(*syscall.Stat_t)
		if err := os.Chown(filepath.Join(upper, "u"), int(o.Uid), int(o.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, "overlay", s.root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%[2]s/u,workdir=%[2]s/w", s.root, upper))
}

// shift mounts the root over itself with the ids of a container: what root owns
// on the disk is the container root's there.
func shift(t *testing.T, s *stand) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}}
	if err := cmd.Start(); err != nil {
		skip(t, "no user namespace can be made here: %v", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, s.root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		t.Fatalf("the file system of %s takes no id map: %v", s.root, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, s.root, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(s.root, unix.MNT_DETACH) })
}

func (s *stand) ask() {
	s.spec.Links, s.spec.LibraryDirs = askedLinks, []string{"/usr/lib/gpu"}
	s.spec.MountPoints = []hookspec.MountPoint{{Path: "/usr/lib/gpu/inner.so"}}
}

// landed checks that all is where the container looks, and is its root's.
func (s *stand) landed(want []string, uid int) {
	s.t.Helper()
	for _, p := range want {
		var st unix.Stat_t
		if err := unix.Lstat(s.path(p), &st); err != nil {
			s.t.Errorf("%s: %v", p, err)
		} else if int(st.Uid) != uid || int(st.Gid) != uid {
			s.t.Errorf("%s belongs to %d:%d, want %d", p, st.Uid, st.Gid, uid)
		}
	}
}

// TestPositiveControl: every ordinary root, on every ground, privileged, mapped
// and with the ids of the mount mapped, and once more when it is read-only and all
// is in place (F6, F8).
func TestPositiveControl(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	owners := []string{"privileged"}
	if os.Geteuid() == 0 && os.Getenv(requireEnv) != "" {
		owners = append(owners, "mapped", "mapped by its mount")
	}
	for _, o := range ordinaries {
		for _, g := range grounds {
			for _, owner := range owners {
				if owner == "mapped by its mount" && g.name == "an overlay" {
					continue // the kernel maps its layers only
				}
				t.Run(o.name+"/"+g.name+"/"+owner, func(t *testing.T) {
					each(t, func(t *testing.T, walk bool) { o.succeeds(t, g, owner, walk) })
				})
			}
		}
	}
}

func (o ordinary) succeeds(t *testing.T, g ground, owner string, walk bool) {
	s := newStand(t)
	s.walk = walk
	if err := os.Remove(s.path("etc")); err != nil {
		t.Fatal(err)
	}
	s.plant(s.root, o.image...)
	s.ask()
	uid := os.Geteuid()
	if owner != "privileged" {
		uid = 100000
		s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	}
	if owner == "mapped" {
		s.chown()
	}
	g.lay(t, s)
	if owner == "mapped by its mount" {
		shift(t, s)
	}
	s.photo()
	before := s.tree()
	s.run(hook.Prepare, hook.Apply)
	s.landed(o.lands, uid)
	made := s.tree()
	remountReadOnly(t, s.root)
	s.run(hook.Prepare, hook.Apply)
	if got := s.tree(); got != made {
		t.Errorf("read-only, it is\n%s", differing(made, got))
	}
	if err := unix.Unmount(s.root, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	s.canary()
	s.run(hook.Finish, hook.Clean)
	s.canary()
	if got := s.tree(); got != before {
		t.Errorf("taken back:\n%s", differing(before, got))
	}
}

// TestLXCPositiveControl has each of these roots be a real container's.
func TestLXCPositiveControl(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: liblxc makes a container with devices and an id map")
	}
	if !inMountNamespace(t) {
		return
	}
	for _, o := range ordinaries {
		for _, g := range grounds {
			for i, applyIn := range []string{"mount", "start-host"} {
				for _, idmap := range []bool{false, true} {
					if g.name == "a mount" || g.name == "an overlay" && (i == 0) == idmap {
						continue // each kind once is enough here
					}
					t.Run(fmt.Sprintf("%s/%s/%s/idmap=%v", o.name, g.name, applyIn, idmap), func(t *testing.T) { o.starts(t, g, applyIn, idmap) })
				}
			}
		}
	}
}

func (o ordinary) starts(t *testing.T, g ground, applyIn string, idmap bool) {
	s := newLXC(t, idmap, o.image...)
	if strings.Contains(strings.Join(o.image, " "), "none etc") {
		if err := os.Remove(s.path("etc")); err != nil {
			t.Fatal(err)
		}
	}
	s.ask()
	s.spec.MountPoints = nil
	s.script = "(readlink /usr/lib/gpu/libcuda.so; readlink /opt/gpu/l) > /tmp/seen"
	out := filepath.Join(filepath.Dir(s.file), "out")
	if err := errors.Join(os.Mkdir(out, 0o700), os.Chmod(out, 0o777)); err != nil {
		t.Fatal(err)
	}
	s.lines = []string{"lxc.mount.entry = " + out + " tmp none bind 0 0"}
	if idmap {
		s.chown()
	}
	g.lay(t, s.stand)
	for _, what := range []string{"first", "once more", "read-only"} {
		if what == "read-only" {
			s.lines = append(s.lines, "lxc.rootfs.options = ro")
			s.script = "! touch /x 2> /dev/null && " + s.script
		}
		if err := s.start(applyIn); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		s.canary()
		seen, err := os.ReadFile(filepath.Join(out, "seen"))
		if err != nil || string(seen) != "libcuda.so.1\nx\n" {
			t.Errorf("%s: inside, the links are %q, %v", what, seen, err)
		}
		os.Remove(filepath.Join(out, "seen"))
		if s.idmap {
			s.landed(o.lands, 100000)
		} else {
			s.landed(o.lands, 0)
		}
	}
}
