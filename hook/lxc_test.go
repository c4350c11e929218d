package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
)

// An lxcStand is a root that liblxc's tools start, with the hook in it.
type lxcStand struct {
	*stand
	name   string
	idmap  bool
	lines  []string // more configuration
	script string   // what its first process does
	// elsewhere changes the root when all but the start is done.
	elsewhere func()
	noPrepare bool   // without a hook before the start
	old       bool   // on a machine without openat2, statx and close_range
	before    string // shell, with "; " at its end, that comes before the post-stop hook
}

var lxcCount atomic.Int64

// newLXC makes a root of busybox, and a driver's library to be mounted in.
func newLXC(t *testing.T, idmap bool, lines ...string) *lxcStand {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "needs root: liblxc makes a container with devices and an id map")
	}
	if _, err := exec.LookPath("lxc-start"); err != nil {
		skip(t, "lxc-start is not installed (apt-get install lxc)")
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		skip(t, "busybox is not installed (apt-get install busybox-static)")
	}
	s := &lxcStand{stand: newStand(t), idmap: idmap, name: fmt.Sprintf("cdi-hook-test-%d-%d", os.Getpid(), lxcCount.Add(1))}
	if err := os.Remove(s.path("etc")); err != nil {
		t.Fatal(err)
	}
	s.plant(s.root, "copy bin/busybox /bin/busybox", "link bin/sh busybox")
	s.plant(s.root, lines...)
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "etc"} {
		if _, err := os.Lstat(s.path(dir)); err != nil {
			s.plant(s.root, "dir "+dir)
		}
	}
	if err := os.WriteFile(filepath.Join(s.host, "libcuda.so.550.1"), library(t, "libcuda.so.1"), 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Dir(s.file))
	s.spec.Container = s.name
	if idmap {
		s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	}
	s.script = "cd /; ls -ln usr/lib/gpu dev/dri dev/dri/by-path > tmp/seen 2>&1; cat etc/ld.so.conf.d/00-cdi-hook.conf >> tmp/seen; ls -ln etc >> tmp/seen"
	return s
}

// start starts the container and waits for its end.
func (s *lxcStand) start(applyIn string) error {
	s.t.Helper()
	s.install()
	s.photo()
	cmd, log := s.command(applyIn, s.name, s.t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(log)
	var said []string
	for line := range strings.Lines(string(text)) { // what the hook said may be some lines
		if !strings.HasPrefix(line, "lxc-start ") || strings.Contains(line, " ERROR ") || strings.Contains(line, "produced output") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	return fmt.Errorf("%w: %s%s", err, out, strings.Join(said, "\n"))
}

// liblxc is the version of the LXC at hand.
func liblxc(t testing.TB) lxc.Version {
	t.Helper()
	out, err := exec.Command("lxc-start", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	v, err := lxc.ParseVersion(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// install writes what a start reads.
func (s *lxcStand) install() {
	s.t.Helper()
	s.write()
	err := os.WriteFile(s.path("check"), []byte(s.script+"\n"), 0o755)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.idmap {
		s.chown()
	}
	if s.elsewhere != nil {
		s.elsewhere()
	}
}

// command is a start, with cgroups of that name and what liblxc keeps in a
// directory, and its log.
func (s *lxcStand) command(applyIn, group, at string) (cmd *exec.Cmd, log string) {
	s.t.Helper()
	command := hookProgram(s.t) + " " + s.file
	lines := append([]string{
		"lxc.uts.name = c1", "lxc.rootfs.path = dir:" + s.root, "lxc.apparmor.profile = unconfined", "lxc.net.0.type = empty",
		"lxc.autodev = 1", "lxc.mount.auto = proc:mixed",
		"lxc.cgroup.dir.container = " + group, "lxc.cgroup.dir.monitor = " + group + ".monitor", "lxc.cgroup.dir.monitor.pivot = " + group + ".pivot",
		"lxc.init.cmd = /bin/sh /check",
		"lxc.hook.version = 1", "lxc.hook.pre-start = " + command, "lxc.hook." + applyIn + " = " + command, "lxc.hook.post-stop = /bin/sh -c '" + s.before + "exec " + command + "'",
	}, s.lines...)
	if s.noPrepare {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "lxc.hook.pre-start") })
	}
	if s.idmap {
		lines = append(lines, "lxc.idmap = u 0 100000 65536", "lxc.idmap = g 0 100000 65536")
	}
	dir := s.t.TempDir()
	open(s.t, dir)
	config := filepath.Join(dir, "config")
	log = filepath.Join(dir, "log")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		s.t.Fatal(err)
	}
	start, err := exec.LookPath("lxc-start")
	if err != nil {
		s.t.Fatal(err)
	}
	args := []string{start, "-P", at, "-n", s.name, "-f", config, "-F", "-o", log, "-l", "DEBUG"}
	cmd = exec.CommandContext(s.t.Context(), start, args[1:]...)
	if !liblxc(s.t).CgroupV1() { // where this machine mounts v1 too
		args = append([]string{"/usr/bin/unshare", "--mount", "/bin/sh", "-c", `/bin/mount -t cgroup2 none /sys/fs/cgroup && exec "$@"`, "sh"}, args...)
		cmd = exec.CommandContext(s.t.Context(), args[0], args[1:]...)
	}
	if s.old {
		cmd = exec.CommandContext(s.t.Context(), "/proc/self/exe", append([]string{fmt.Sprintf("%d,%d,%d,%d", unix.ENOSYS, unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_CLOSE_RANGE)}, args...)...)
		cmd.Args[0] = asFilteredStarter
	}
	cmd.Env = []string{"PATH=" + dir} // no newuidmap there: as root, liblxc writes the maps itself
	cmd.WaitDelay = time.Second
	s.t.Cleanup(func() {
		removeCgroups(group)
		removeLocks(at)
	})
	return cmd, log
}

// removeLocks removes what liblxc leaves of the locks of containers in a directory,
// which have its path, and the folders above that hold nothing else.
func removeLocks(at string) {
	const locks = "/run/lxc/lock"
	dir := filepath.Join(locks, at)
	os.RemoveAll(dir)
	for dir = filepath.Dir(dir); dir != filepath.Dir(locks); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil { // another test's are in it
			return
		}
	}
}

// removeCgroups removes the cgroups of a container that did not, or that liblxc
// always leaves. The kernel lets go of one a moment after its last process.
func removeCgroups(name string) {
	for _, pattern := range []string{"/sys/fs/cgroup/" + name + "*", "/sys/fs/cgroup/*/" + name + "*"} {
		dirs, _ := filepath.Glob(pattern)
		for _, d := range dirs {
			var all []string
			filepath.WalkDir(d, func(p string, e os.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					all = append(all, p)
				}
				return nil
			})
			for _, p := range slices.Backward(all) {
				for range 100 {
					if err := unix.Rmdir(p); err != unix.EBUSY {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		}
	}
}

// TestLXCEntryPoints runs whole containers: pre-start, start-host or mount, and
// post-stop, privileged and with an id map, twice over.
func TestLXCEntryPoints(t *testing.T) {
	for _, applyIn := range []string{"start-host", "mount"} {
		for _, idmap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/idmap=%v", applyIn, idmap), func(t *testing.T) {
				s := newLXC(t, idmap, "dir usr/lib")
				before := s.tree()
				s.lines = []string{"lxc.mount.entry = " + s.host + "/libcuda.so.550.1 usr/lib/gpu/libcuda.so.550.1 none bind,ro 0 0"}
				s.spec.MountPoints = []hookspec.MountPoint{{Path: "/usr/lib/gpu/libcuda.so.550.1", Source: s.host + "/libcuda.so.550.1"}}
				s.spec.Links = []hookspec.Link{{Path: "/dev/dri/by-path/pci-0000:41:00.0-card", Target: "../card0"}, {Path: "/usr/lib/gpu/libcuda.so", Target: "libcuda.so.1"}}
				s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
				s.spec.Modes = []hookspec.Mode{{Path: "/dev/dri", Mode: 0o750}}
				for range 2 {
					if err := s.start(applyIn); err != nil {
						t.Fatal(err)
					}
					seen := s.read("tmp/seen")
					for _, want := range []string{
						"libcuda.so -> libcuda.so.1\n", "libcuda.so.1 -> libcuda.so.550.1\n", "pci-0000:41:00.0-card -> ../card0\n",
						"\n/usr/lib/gpu\n", " ld.so.cache\n", " ld.so.conf\n",
					} {
						if !strings.Contains(seen, want) {
							t.Errorf("%q was not seen inside:\n%s", want, seen)
						}
					}
					for line := range strings.Lines(seen) { // everything belongs to the container's root
						if f := strings.Fields(line); len(f) > 8 && f[0][0] != '#' && f[8] != "libcuda.so.550.1" && (f[2] != "0" || f[3] != "0") {
							t.Errorf("belongs to somebody else: %s", line)
						}
					}
					s.canary()
					if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.550.1")); err == nil {
						t.Error("stopped, the mount point is left")
					}
					if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.1")); err == nil {
						t.Error("stopped, the SONAME link is left")
					}
				}
				cmd := hookCommand(t, s.args("clean")...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("clean: %s", out)
				}
				for _, own := range []string{"check", "tmp/seen"} {
					if err := os.Remove(s.path(own)); err != nil {
						t.Error(err)
					}
				}
				after := strings.ReplaceAll(s.tree(), " 100000:100000", " 0:0")
				if after != before {
					t.Errorf("taken back:\n%s", differing(before, after))
				}
			})
		}
	}
}
