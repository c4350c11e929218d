package hook_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook"
)

// TestA51PartsOfTheHostAreNoRoot by whatever name: nothing is written to them.
func TestA51PartsOfTheHostAreNoRoot(t *testing.T) {
	if !onADisposableHost(t) {
		return
	}
	s := newStand(t)
	s.spec.Links = []hookspec.Link{{Path: "/cdi-hook-test", Target: "x"}}
	s.spec.MountPoints = []hookspec.MountPoint{{Path: "/cdi-hook-point"}}
	s.spec.LibraryDirs = []string{"/cdi-hook-libraries"}
	s.write()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(filepath.Dir(s.root), "alias")
	if err := os.Symlink("/usr", filepath.Join(filepath.Dir(s.root), "link")); err != nil {
		t.Fatal(err)
	}
	mount(t, "/usr", alias, "", unix.MS_BIND, "")
	mount(t, "/", alias+"-of-all", "", unix.MS_BIND, "")
	mount(t, filepath.Dir(s.file), alias+"-of-the-file", "", unix.MS_BIND, "")
	s.photo()
	for name, root := range map[string]string{
		"/usr":                             "/usr",
		"/etc":                             "/etc",
		"/tmp":                             "/tmp",
		"a bind alias of /usr":             alias,
		"a bind alias of /":                alias + "-of-all",
		"/usr by procfs":                   "/proc/self/root/usr",
		"above the program":                filepath.Dir(program),
		"far above the program":            filepath.Dir(filepath.Dir(program)),
		"above the hook file":              filepath.Dir(s.file),
		"a bind alias of what is above it": alias + "-of-the-file",
	} {
		t.Run(name, func(t *testing.T) {
			for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
				out, err := hookCommand(t, "--stage", string(stage), "--root", root, s.file).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "of the host") && !strings.Contains(string(out), "host's own root") {
					t.Errorf("%s: %v, %s; want it refused as the host's", stage, err, out)
				}
				for _, p := range []string{"cdi-hook-test", "cdi-hook-point", "cdi-hook-libraries"} {
					if _, err := os.Lstat(filepath.Join(root, p)); err == nil {
						t.Fatalf("%s: it made %s in %s", stage, p, root)
					}
				}
			}
			s.canary()
		})
	}
	if out, err := hookCommand(t, s.args(hook.Prepare)...).CombinedOutput(); err != nil {
		t.Errorf("a root of a container's own: %v, %s", err, out)
	}
}

// TestA52AProcessOfTheHostIsNoContainer: LXC_PID names one that has our own mounts,
// with whatever root directory.
func TestA52AProcessOfTheHostIsNoContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: a process with another root directory")
	}
	if !onADisposableHost(t) {
		return
	}
	s := newStand(t, "copy bin/busybox /bin/busybox", "dir usr/lib/gpu")
	full(s)
	s.write()
	cmd := exec.CommandContext(t.Context(), "/bin/busybox", "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.root}
	if err := cmd.Start(); err != nil {
		skip(t, "no busybox to run in a root: %v", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	before := s.tree()
	for _, pid := range []int{cmd.Process.Pid, os.Getpid()} {
		var out, errOut bytes.Buffer
		hookAs := hookCommand(t, s.file)
		hookAs.Env = []string{"LXC_HOOK_TYPE=start-host", "LXC_NAME=c1", fmt.Sprintf("LXC_PID=%d", pid)}
		hookAs.Stdout, hookAs.Stderr = &out, &errOut
		if code := exitCode(t, hookAs); code != hook.ExitFailed || !strings.Contains(errOut.String(), "has the same mounts as cdi-hook") {
			t.Errorf("exit %d, %s", code, errOut.String())
		}
	}
	if after := s.tree(); after != before {
		t.Errorf("the root changed:\n%s", differing(before, after))
	}
	s.canary()
}

// TestA53NodesOfTheImageKeepTheirMode: a second name of a node of the host's, and a
// node that nobody made for the container.
func TestA53NodesOfTheImageKeepTheirMode(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root to make device nodes")
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir dev/dri")
		s.walk = walk
		node := filepath.Join(s.host, "node")
		if err := errJoin(unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), unix.Mknod(s.path("dev/own"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))); err != nil {
			skip(t, "no device node can be made here: %v", err)
		}
		if err := os.Link(node, s.path("dev/second")); err != nil {
			t.Fatal(err)
		}
		s.photo()
		for p, want := range map[string]string{"/dev/second": "has 2 names", "/dev/own": "the image's", "/dev/dri": ""} {
			oneMode(p, 0o755)(&s.spec)
			s.write()
			_, err := s.try(hook.Apply)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", p, err, want)
			}
			if st, err := os.Lstat(s.path(p)); err != nil || want != "" && st.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", p, st.Mode(), err)
			}
			s.canary()
		}
	})
}

// TestA54CleanPutsBackByteForByte: links whose texts are no UTF-8, files that were
// links, and a file of the image's where one of ours was.
func TestA54CleanPutsBackByteForByte(t *testing.T) {
	const odd = "\xff\xfe \"q\"/\x80"
	for name, image := range map[string][]string{
		"a link of the plan's":                   {"dir usr/lib/gpu", "link usr/lib/gpu/libcuda.so.1 " + odd},
		"a link that looks quoted":               {"dir usr/lib/gpu", "link usr/lib/gpu/libcuda.so.1 \"x\""},
		"a link at a mount point":                {"dir usr/lib/gpu", "link usr/lib/gpu/libcuda.so.550.1 " + odd},
		"a folder with such a name":              {"dir opt/\xff", "link usr/lib/gpu ../../opt/\xff", "library opt/\xff/libx.so.1.2 libx.so.1"},
		"musl's path file is a link":             {"file lib/ld-musl-x86_64.so.1 x", "link etc/ld-musl-x86_64.path own", "file etc/own /opt\n"},
		"musl's path file is an odd link":        {"file lib/ld-musl-x86_64.so.1 x", "link etc/ld-musl-x86_64.path " + odd},
		"musl's path file is odd":                {"file lib/ld-musl-x86_64.so.1 x", "file etc/ld-musl-x86_64.path /\xff\n/x"},
		"the drop-in is a link":                  {"link etc/ld.so.conf.d/00-cdi-hook.conf " + odd},
		"the drop-in is a file":                  {"file etc/ld.so.conf.d/00-cdi-hook.conf \xff/own\n"},
		"the drop-in is empty":                   {"file etc/ld.so.conf.d/00-cdi-hook.conf "},
		"the cache is a link":                    {"link etc/ld.so.cache ../var/cache"},
		"the cache is an odd link to itself":     {"link etc/ld.so.cache " + odd},
		"the cache is a file":                    {"file etc/ld.so.cache " + oldCache(t)},
		"the cache is none":                      {"file etc/ld.so.cache " + odd},
		"the cache is empty":                     {"file etc/ld.so.cache "},
		"the configuration is a link":            {"link etc/ld.so.conf /opt/own.conf", "file opt/own.conf /opt/own\n", "library opt/own/libcuda.so.1 libcuda.so.1"},
		"the configuration leads nowhere":        {"link etc/ld.so.conf " + odd},
		"the configuration leads by an odd name": {"link etc/ld.so.conf ../opt/\xff", "file opt/\xff /opt/own\n", "library opt/own/libcuda.so.1 libcuda.so.1"},
		"a library comes first":                  {"file etc/ld.so.conf /opt/own\ninclude ld.so.conf.d/*.conf\n", "file etc/ld.so.cache " + oldCache(t), "library opt/own/libcuda.so.1 libcuda.so.1"},
	} {
		t.Run(name, func(t *testing.T) {
			roots(t, func(t *testing.T, mapped bool) {
				s := newStand(t, image...)
				full(s)
				if mapped {
					s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
					s.chown()
				}
				for i, p := range []string{"etc/ld.so.conf", "etc/ld.so.cache", "etc/ld.so.conf.d/00-cdi-hook.conf", "etc/ld-musl-x86_64.path", "opt/own.conf"} {
					if i, err := os.Lstat(s.path(p)); err != nil || !i.Mode().IsRegular() {
						continue
					}
					err := os.Chmod(s.path(p), 0o600)
					if os.Geteuid() == 0 && (i+len(name))%2 == 0 { // another user's
						err = errJoin(os.Chmod(s.path(p), 0o604), os.Chown(s.path(p), int(s.spec.Owner.UID)+33, int(s.spec.Owner.GID)+7))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				before := s.tree()
				s.run(hook.Prepare, hook.Apply, hook.Prepare, hook.Apply)
				if s.tree() == before {
					t.Fatal("nothing was made")
				}
				s.run(hook.Finish, hook.Clean)
				if after := s.tree(); after != before {
					t.Errorf("cleaned, the root is not what it was:\n%s", differing(before, after))
				}
				s.canary()
			})
		})
	}
}

// oldCache is one that no ldconfig would make of the root: what is in it is gone.
func oldCache(t *testing.T) string {
	t.Helper()
	c := ldcache.Cache{Generator: "ldconfig (GNU libc) stable release version 2.36",
		Entries: []ldcache.Entry{{SONAME: "libgone.so.1", Path: "/opt/gone/libgone.so.1", Flags: ldcache.FlagsX8664}}}
	return string(c.Marshal())
}
