package hook_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
	"gpurig/hook/inroot"
)

func TestA5NothingIsWrittenThroughMounts(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		for name, want := range map[string]func(*hookspec.File){
			"a link":                 oneLink("/usr/lib/gpu/b", "a"),
			"a link in a new folder": oneLink("/usr/lib/gpu/new/b", "a"),
			"a file":                 onePoint("/usr/lib/gpu/f", false),
			"a directory":            onePoint("/usr/lib/gpu/f", true),
			"F16 a drop-in":          folder("/opt"),
		} {
			t.Run(name, func(t *testing.T) {
				s := newStand(t, "dir usr/lib/gpu", "dir opt", "dir etc/ld.so.conf.d")
				s.walk = walk
				mount(t, s.host, s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
				mount(t, s.host, s.path("etc/ld.so.conf.d"), "", unix.MS_BIND, "")
				s.photo()
				want(&s.spec)
				s.write()
				stage := hook.Apply
				if len(s.spec.MountPoints) > 0 {
					stage = hook.Prepare
				}
				_, err := s.try(stage)
				if !errors.Is(err, inroot.ErrMount) {
					t.Errorf("%v; want ErrMount", err)
				}
				s.canary()
			})
		}
	})
}

// The second anchor is a tmpfs of the container's own, and nothing else: a bind
// mount of the host's /dev is a tmpfs as well (bug chmod-hook).
func TestA5OnlyAFreshTmpfsIsTheContainersDev(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir dev")
		s.walk = walk
		hostDev := filepath.Join(s.host, "dev")
		mount(t, "tmpfs", hostDev, "tmpfs", 0, "mode=755")
		s.plant(s.host, "dir dev/dri", "file dev/null x")
		s.spec.Links = []hookspec.Link{{Path: "/dev/dri/x", Target: "y"}}
		s.spec.Modes = []hookspec.Mode{{Path: "/dev/dri", Mode: 0o700}}
		s.write()

		mount(t, hostDev, s.path("dev"), "", unix.MS_BIND, "")
		s.photo()
		if _, err := s.try(hook.Apply); !errors.Is(err, inroot.ErrMount) {
			t.Errorf("the host's /dev in the container: %v; want ErrMount", err)
		}
		s.canary()
		if err := unix.Unmount(s.path("dev"), 0); err != nil {
			t.Fatal(err)
		}

		mount(t, "tmpfs", s.path("dev"), "tmpfs", 0, "mode=755")
		s.plant(s.root, "dir dev/dri", "file dev/null x")
		mount(t, "tmpfs", s.path("dev/shm"), "tmpfs", 0, "")
		s.photo()
		s.run(hook.Apply)
		s.canary()
		if st, err := os.Stat(s.path("dev/dri")); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("the mode was not changed: %v, %v", st, err)
		}
		if _, err := os.Lstat(s.file + ".made"); err == nil {
			t.Error("what ends with the container was journalled")
		}
		s.spec.Links[0].Path = "/dev/shm/x"
		s.write()
		if _, err := s.try(hook.Apply); !errors.Is(err, inroot.ErrMount) {
			t.Errorf("below a mount on the container's own /dev: %v; want ErrMount", err)
		}
		if err := os.Symlink(s.host, s.path("dev/out")); err != nil {
			t.Fatal(err)
		}
		s.spec.Links[0].Path = "/dev/out/x"
		s.write()
		if _, err := s.try(hook.Apply); err == nil {
			t.Error("a link out of /dev was followed")
		}
		s.canary()
	})
}

// A22: a bind-mounted node is the host's inode.
func TestA22NodesOfTheHostKeepTheirMode(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	s := newStand(t, "dir dev")
	mount(t, "tmpfs", s.path("dev"), "tmpfs", 0, "")
	s.plant(s.root, "file dev/nvidia0 ")
	if err := unix.Mount("/dev/null", s.path("dev/nvidia0"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	s.spec.Modes = []hookspec.Mode{{Path: "/dev/nvidia0", Mode: 0o600}}
	s.write()
	before, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.try(hook.Apply); !errors.Is(err, inroot.ErrMount) {
		t.Errorf("%v; want ErrMount", err)
	}
	if after, err := os.Stat("/dev/null"); err != nil || after.Mode() != before.Mode() {
		t.Fatalf("the host's /dev/null is now %v", after.Mode())
	}
}

// A4: with the host's procfs in the root, its magic links lead out of it.
func TestA4MagicLinksLeadNowhere(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir usr/lib/gpu", "link m /proc/self/root$H", "link c /proc/self/cwd", "dir proc")
		s.walk = walk
		if err := unix.Mount("/proc", s.path("proc"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(s.path("proc"), unix.MNT_DETACH) })
		s.photo()
		t.Chdir(s.host)
		r, err := inroot.Open(s.root, inroot.Options{Walk: walk})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, p := range []string{"/m/canary", "/proc/self/root" + s.host + "/canary", "/proc/1/root" + s.host + "/canary", "/c/canary", "/proc/self/exe"} {
			if data, err := r.ReadFile(p, 1<<30); err == nil {
				t.Errorf("%s was read: %d bytes", p, len(data))
			}
		}
		for _, dir := range []string{"/m", "/m/etc", "/c", "/proc/self/cwd", "/proc/thread-self/root" + s.host} {
			if _, err := r.Symlink(dir+"/x", "y"); err == nil {
				t.Errorf("a link below %s was made", dir)
			}
		}
		s.canary()
		if err := os.Remove(s.path("etc")); err != nil {
			t.Fatal(err)
		}
		s.plant(s.root, "link etc /proc/1/root$H/etc")
		s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
		s.write()
		if _, err := s.try(hook.Apply); err == nil {
			t.Error("it wrote through /proc/1/root")
		}
		s.canary()
	})
}

// A mapped root, in lxc.hook.mount of a container with an id map, cannot write
// the journal; what the stage before noted is enough.
func TestAMappedRootNeedsTheStageBefore(t *testing.T) { // F8
	if os.Geteuid() != 0 {
		skip(t, "needs root to make files of another owner")
	}
	s := newStand(t, "dir usr/lib/gpu", "dir lib")
	full(s)
	s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	s.write()
	s.chown()
	open(t, filepath.Dir(s.file))
	mountHere(t, s.root)
	out, err := s.mapped().CombinedOutput()
	if err == nil || !strings.Contains(string(out), "journal") || !strings.Contains(string(out), "hint: ") {
		t.Errorf("without the stage before: %v, %s", err, out)
	}
	if strings.Contains(s.tree(), "libcuda") {
		t.Error("something was made that nobody noted")
	}
	s.run(hook.Prepare)
	if out, err := s.mapped().CombinedOutput(); err != nil {
		t.Fatalf("after the stage before: %v, %s", err, out)
	}
	tree := s.tree()
	if !strings.Contains(tree, "libcuda.so.1 120777 100000:100000") || !strings.Contains(tree, "etc/ld.so.cache 100644 100000:100000") {
		t.Errorf("made:\n%s", tree)
	}
	s.run(hook.Finish, hook.Clean)
	if got := s.tree(); strings.Contains(got, "cuda") || strings.Contains(got, "ld.so") {
		t.Errorf("left behind:\n%s", got)
	}
}

// mapped is the mount hook of a container with an id map.
func (s *stand) mapped() *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), hookProgram(s.t), s.file)
	cmd.Env = []string{"LXC_HOOK_TYPE=mount", "LXC_ROOTFS_MOUNT=" + s.root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}},
		Credential:  &syscall.Credential{Uid: 0, Gid: 0}}
	return cmd
}

// TestAPathFileBehindALinkThatAMountChanges (F8): what musl's path file leads to is
// something else once the container's volumes are mounted, and a mapped hook cannot
// note that any more.
func TestAPathFileBehindALinkThatAMountChanges(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root to make files of another owner")
	}
	s := newStand(t, "file lib/ld-musl-x86_64.so.1 x", "link etc/ld-musl-x86_64.path ../vol/own.path", "file vol/own.path /lib:/opt/own\n", "dir usr/lib/gpu")
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
	s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	s.write()
	s.chown()
	open(t, filepath.Dir(s.file))
	before := s.tree()
	mountHere(t, s.root)
	s.run(hook.Prepare)
	mountHere(t, s.path("vol"))
	if out, err := s.mapped().CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if got, want := s.read("etc/ld-musl-x86_64.path"), "/lib\n/opt/own\n/usr/lib/gpu\n"; got != want {
		t.Errorf("the path file has %q, want %q", got, want)
	}
	s.run(hook.Finish, hook.Clean)
	if after := s.tree(); after != before {
		t.Errorf("taken back:\n%s", differing(before, after))
	}
}
