package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// up is more ".." than any root is deep.
const up = "../../../../../../../../../../../../../../../../../../../.."

// An attack is an image and what is asked of the hook in it.
type attack struct {
	name  string
	image []string
	want  func(*hookspec.File)
	// fails is in the error of the stage that refuses; empty: all succeeds.
	fails string
	// lands are paths of the root that must be there afterwards, and with a "!"
	// before them must not be.
	lands []string
}

func oneLink(p, target string) func(*hookspec.File) {
	return func(f *hookspec.File) { f.Links = []hookspec.Link{{Path: p, Target: target}} }
}

func onePoint(p string, dir bool) func(*hookspec.File) {
	return func(f *hookspec.File) { f.MountPoints = []hookspec.MountPoint{{Path: p, Dir: dir}} }
}

func folder(d string) func(*hookspec.File) {
	return func(f *hookspec.File) { f.LibraryDirs = []string{d} }
}

func oneMode(p string, mode uint32) func(*hookspec.File) {
	return func(f *hookspec.File) { f.Modes = []hookspec.Mode{{Path: p, Mode: os.FileMode(mode)}} }
}

var cacheAttackFolder = folder("/usr/lib/gpu")

var attacks = []attack{
	{"A1 the last directory of a link is an absolute link", []string{"dir usr/lib", "link usr/lib/gpu $H"}, oneLink("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), "dangling", nil},
	{"A1 and what it names is in the image too", []string{"dir usr/lib", "dir $H", "link usr/lib/gpu $H"}, oneLink("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), "", []string{"$H/libcuda.so"}},
	{"A1 the first directory is an absolute link", []string{"link usr $H"}, oneLink("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), "dangling", nil},
	{"A1 the middle directory is an absolute link", []string{"dir usr", "link usr/lib $H/d"}, oneLink("/usr/lib/gpu/libcuda.so", "libcuda.so.1"), "dangling", nil},
	{"A2 a firmware directory climbs above the root, a link", []string{"dir lib/firmware/nvidia", "link lib/firmware/nvidia/550.54.14 " + up + "$H"}, oneLink("/lib/firmware/nvidia/550.54.14/b", "a"), "dangling", nil},
	{"A2 a mount point there", []string{"dir lib/firmware/nvidia", "link lib/firmware/nvidia/550.54.14 " + up + "$H"}, onePoint("/lib/firmware/nvidia/550.54.14/gsp.bin", false), "dangling", nil},
	{"A4 /etc is a link into procfs", []string{"dir usr/lib/gpu", "link etc /proc/self/root$H/etc"}, cacheAttackFolder, "/etc", nil},
	{"A4 /etc is a link to our own working directory", []string{"dir usr/lib/gpu", "link etc /proc/self/cwd$H/etc"}, cacheAttackFolder, "/etc", nil},
	{"A4 /etc is a link to a thread's root", []string{"dir usr/lib/gpu", "link etc /proc/thread-self/root$H/etc"}, cacheAttackFolder, "/etc", nil},
	{"A4 /etc is a link to a descriptor", []string{"dir usr/lib/gpu", "link etc /dev/fd/$F"}, cacheAttackFolder, "/etc", nil},
	{"A6 the drop-in is a link to a host file", []string{"dir usr/lib/gpu", "dir etc/ld.so.conf.d", "file etc/ld.so.conf include /etc/ld.so.conf.d/*.conf", "link etc/ld.so.conf.d/00-cdi-hook.conf $H/canary"}, cacheAttackFolder, "", []string{"etc/ld.so.conf.d/00-cdi-hook.conf"}},
	{"A6 the drop-in is a dangling link", []string{"dir usr/lib/gpu", "dir etc/ld.so.conf.d", "link etc/ld.so.conf.d/00-cdi-hook.conf $H/new"}, cacheAttackFolder, "", []string{"etc/ld.so.conf.d/00-cdi-hook.conf"}},
	{"A6 ld.so.conf.d is a link to the host's", []string{"dir usr/lib/gpu", "dir etc", "link etc/ld.so.conf.d $H/etc/ld.so.conf.d"}, cacheAttackFolder, "dangling", nil},
	{"A6 the cache is a link to a host file", []string{"dir usr/lib/gpu", "dir etc", "link etc/ld.so.cache $H/canary"}, cacheAttackFolder, "", []string{"etc/ld.so.cache"}},
	{"A6 /etc is a link to the host's", []string{"dir usr/lib/gpu", "link etc $H/etc"}, cacheAttackFolder, "dangling", nil},
	{"A6 /etc is a loop", []string{"dir usr/lib/gpu", "link etc etc"}, cacheAttackFolder, "/etc", nil},
	{"A7 a link with the name of glibc's temporary", []string{"dir usr/lib/gpu", "dir etc", "link etc/ld.so.cache~ $H/canary"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "etc/ld.so.cache~"}},
	{"A7 a directory of that name", []string{"dir usr/lib/gpu", "dir etc/ld.so.cache~"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "etc/ld.so.cache~"}},
	{"A7 a socket of that name", []string{"dir usr/lib/gpu", "socket etc/ld.so.cache~"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "etc/ld.so.cache~"}},
	{"A13 a mount point of a file under a link to the host", []string{"dir usr/lib", "link usr/lib/gpu $H"}, onePoint("/usr/lib/gpu/x", false), "dangling", nil},
	{"A13 a mount point of a directory there", []string{"dir usr/lib", "link usr/lib/gpu $H"}, onePoint("/usr/lib/gpu/x", true), "dangling", nil},
	{"A13 the mount point itself is a link to a host file", []string{"link usr/lib/gpu/x $H/canary"}, onePoint("/usr/lib/gpu/x", false), "", nil},
	{"A18 the cache is a FIFO", []string{"dir usr/lib/gpu", "fifo etc/ld.so.cache"}, cacheAttackFolder, "no file", nil},
	{"A18 F24 the configuration is a FIFO", []string{"dir usr/lib/gpu", "fifo etc/ld.so.conf"}, cacheAttackFolder, "", []string{"etc/ld.so.cache"}},
	{"A19 /dev is a link to the host", []string{"link dev $H"}, oneLink("/dev/dri/by-path/x", "../card0"), "/dev", nil},
	{"A19 /dev/dri is a link to the host", []string{"dir dev", "link dev/dri $H"}, oneLink("/dev/dri/by-path/x", "../card0"), "dangling", nil},
	{"A22 chmod below a link to the host", []string{"dir dev", "link dev/dri $H"}, oneMode("/dev/dri/d", 0o700), "/dev/dri", nil},
	{"A22 chmod of a link to the host", []string{"dir dev", "link dev/dri $H/d"}, oneMode("/dev/dri", 0o700), "neither", nil},
	{"A22 chmod of a regular file", []string{"dir dev", "file dev/x y"}, oneMode("/dev/x", 0o700), "neither", nil},
	{"A9 programs, loaders and name services of the image", []string{"script sbin/ldconfig $H/owned", "script lib64/ld-linux-x86-64.so.2 $H/owned",
		"file etc/ld.so.preload /evil.so", "file etc/nsswitch.conf passwd: evil", "script evil.so $H/owned", "fifo usr/lib/gpu/libfifo.so.1",
		"link usr/lib/gpu/libout.so.1 $H/d/libcuda.so.1", "link usr/lib/gpu/libmagic.so.1 /proc/self/exe"}, cacheAttackFolder, "", []string{"etc/ld.so.cache"}},
	{"A10 a SONAME that climbs", []string{"dir pwn", "library usr/lib/gpu/libx.so ../../../pwn/escaped"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "!pwn/escaped"}},
	{"A10 a SONAME that is a path of the host", []string{"library usr/lib/gpu/libx.so $H/escaped"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "!$H/escaped"}},
	{"A10 a SONAME with a line break", []string{"library usr/lib/gpu/libx.so a\nb"}, cacheAttackFolder, "", []string{"etc/ld.so.cache", "!usr/lib/gpu/a\nb"}},
	{"A38 a link that is right on the host only", []string{"dir usr/lib", "link usr/lib/p $H"}, oneLink("/usr/lib/p/l", "libcuda.so.1"), "dangling", nil},
}

// stand makes the image; apart says that the hook is going to be a process of its
// own, and mapped that the root belongs to the root of a user namespace.
func (a attack) stand(t *testing.T, walk, apart, mapped bool) *stand {
	t.Helper()
	s := newStand(t)
	s.walk = walk
	if err := os.Remove(filepath.Join(s.root, "etc")); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.leak, err = os.Open(filepath.Join(s.host, "etc")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.leak.Close() })
	fd := int(s.leak.Fd())
	if apart {
		fd = 3 // as the first of its ExtraFiles
	}
	for _, line := range a.image {
		s.plant(s.root, strings.ReplaceAll(line, "$F", strconv.Itoa(fd)))
	}
	a.want(&s.spec)
	if mapped {
		s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
		s.chown()
	}
	s.write()
	return s
}

// roots runs f for a privileged root and, where we may make one, a mapped one.
func roots(t *testing.T, f func(t *testing.T, mapped bool)) {
	t.Run("privileged", func(t *testing.T) { f(t, false) })
	if os.Geteuid() == 0 {
		t.Run("mapped", func(t *testing.T) { f(t, true) })
	}
}

// judge compares the first error of a run with what was expected.
func (a attack) judge(t *testing.T, s *stand, err error) {
	t.Helper()
	s.canary()
	switch {
	case a.fails == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case a.fails != "" && err == nil:
		t.Fatalf("it was done; want an error with %q\n%s", a.fails, s.tree())
	case a.fails != "" && !strings.Contains(err.Error(), a.fails):
		t.Fatalf("error %q; want %q in it", err, a.fails)
	}
	for _, p := range a.lands {
		p, not := strings.CutPrefix(strings.ReplaceAll(p, "$H", s.host), "!")
		if _, err := os.Lstat(filepath.Join(s.root, p)); not != (err != nil) {
			t.Errorf("%s: must it be absent: %v; it is: %v", p, not, err)
		}
	}
}

// TestAttacks holds every image against every stage, and takes all back again (A36).
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			roots(t, func(t *testing.T, mapped bool) {
				each(t, func(t *testing.T, walk bool) { a.directly(t, walk, mapped) })
			})
		})
	}
}

func (a attack) directly(t *testing.T, walk, mapped bool) {
	s := a.stand(t, walk, false, mapped)
	t.Chdir("/")
	before := s.tree()
	var first error
	for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
		if _, err := s.try(stage); err != nil && first == nil {
			first = err
		}
		s.canary()
	}
	a.judge(t, s, first)
	for _, stage := range []hook.Stage{hook.Finish, hook.Clean} { // A36
		if _, err := s.try(stage); err != nil && a.fails == "" {
			t.Errorf("%s: %v", stage, err)
		}
		s.canary()
	}
	if a.fails == "" && !strings.HasPrefix(a.name, "A6") {
		if after := s.tree(); after != before {
			t.Errorf("taken back, the root is\n%s\nwant\n%s", after, before)
		}
	}
}

// TestAttacksWithOpenat2Forbidden runs them as a process that a filter denies
// openat2 from the start (F10), as old kernels and outer sandboxes do: a few of
// them where time matters, all of them in the job that owns the privileges.
func TestAttacksWithOpenat2Forbidden(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		for i, a := range attacks {
			if i%4 != int(errno)%4 && !thorough() {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", errno, a.name), func(t *testing.T) {
				roots(t, func(t *testing.T, mapped bool) {
					t.Parallel()
					s := a.stand(t, false, true, mapped)
					var first error
					for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
						cmd := hookCommand(t, append([]string{fmt.Sprintf("%d,%d,%d,%d", errno, unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_CLOSE_RANGE)}, s.args(stage)...)...)
						cmd.Args[0], cmd.ExtraFiles = asFiltered, []*os.File{s.leak}
						out, err := cmd.CombinedOutput()
						if err != nil && first == nil {
							first = fmt.Errorf("%s", out)
						}
						s.canary()
					}
					a.judge(t, s, first)
				})
			})
		}
	}
}

// What is refused before the root is looked at at all.
func TestRootsThatAreNone(t *testing.T) { // A14, A15
	s := newStand(t, "dir d")
	s.plant(filepath.Dir(s.root), "file f x", "fifo p", "link l $H", "link via root", "dir open/root")
	if err := os.Chmod(filepath.Join(filepath.Dir(s.root), "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.spec.Links = []hookspec.Link{{Path: "/x", Target: "y"}}
	s.write()
	for name, want := range map[string]string{"f": "not a directory", "p": "not a directory", "l": "not a directory", "via": "not a directory",
		"none": "no such file", "open/root": "others than its owner can write"} {
		_, err := hook.Run(t.Context(), hook.Job{File: s.file, Stage: hook.Apply, Root: filepath.Join(filepath.Dir(s.root), name)}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("root %s: %v; want %q", name, err, want)
		}
		s.canary()
	}
	_, err := hook.Run(t.Context(), hook.Job{File: s.file, Stage: hook.Apply, PID: os.Getpid()}, nil)
	if err == nil || !strings.Contains(err.Error(), "has the same mounts as cdi-hook") {
		t.Errorf("our own process as the container: %v", err)
	}
	_, err = hook.Run(t.Context(), hook.Job{File: s.file, Stage: hook.Apply, Root: s.root, Mounted: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing is mounted there") {
		t.Errorf("a mount hook without a mount: %v", err)
	}
}

// A16: a process that ended, and one that never was.
func TestProcessesThatAreNone(t *testing.T) {
	s := newStand(t)
	s.spec.Links = []hookspec.Link{{Path: "/x", Target: "y"}}
	s.write()
	cmd := hookCommand(t, "--help")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{cmd.Process.Pid, 1 << 30} {
		if _, err := hook.Run(t.Context(), hook.Job{File: s.file, Stage: hook.Apply, PID: pid}, nil); err == nil {
			t.Errorf("process %d was taken for a container", pid)
		}
	}
	s.canary()
}

// A36: the container exchanges directories while it runs.
func TestA36TakingBackFollowsNothing(t *testing.T) {
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t)
		s.walk = walk
		full(s)
		s.spec.MountPoints[1].Path, s.spec.Links[0] = "/usr/lib/gpu/empty", hookspec.Link{Path: "/usr/lib/gpu/l", Target: "libcuda.so.1"}
		s.run(hook.Prepare, hook.Apply)
		gpu := filepath.Join(s.root, "usr/lib/gpu")
		if err := os.RemoveAll(gpu); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(s.host, gpu); err != nil { // has "empty", and "l", a link with our text
			t.Fatal(err)
		}
		s.run(hook.Finish)
		s.canary()
		s.run(hook.Clean)
		s.canary()
		if text, err := os.Readlink(gpu); err != nil || text != s.host {
			t.Errorf("the container's own link is gone: %q, %v", text, err)
		}
	})
}

// A10: SONAMEs that are paths make no link and no entry.
func TestA10HostileSONAMEs(t *testing.T) {
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir usr/lib/gpu", "dir pwn")
		s.walk = walk
		for i, soname := range []string{"../../../pwn/escaped", "/pwn/abs", "a\nb", strings.Repeat("x", 300), "lib\xff.so", "..", "."} {
			name := filepath.Join(s.root, "usr/lib/gpu", fmt.Sprintf("libx%d.so", i))
			if err := os.WriteFile(name, library(t, soname), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		good := filepath.Join(s.root, "usr/lib/gpu/libgood.so.1.2")
		if err := os.WriteFile(good, library(t, "libgood.so.1"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
		s.photo()
		notes := s.run(hook.Apply)
		s.canary()
		if len(notes) < 6 {
			t.Errorf("the notes do not tell: %q", notes)
		}
		if entries, _ := os.ReadDir(filepath.Join(s.root, "pwn")); len(entries) > 0 {
			t.Errorf("made %v", entries)
		}
		cache := s.read("etc/ld.so.cache")
		if strings.Contains(cache, "escaped") || strings.Contains(cache, "pwn") || !strings.Contains(cache, "/usr/lib/gpu/libgood.so.1\x00") {
			t.Errorf("cache %q", cache)
		}
		if text, _ := os.Readlink(filepath.Join(s.root, "usr/lib/gpu/libgood.so.1")); text != "libgood.so.1.2" {
			t.Errorf("the SONAME link is %q", text)
		}
	})
}

// A37: names of the image come out escaped, and few.
func TestHostileNamesInMessages(t *testing.T) { // A37, F25
	s := newStand(t, "dir usr/lib/gpu")
	for i := range 500 {
		name := fmt.Sprintf("lib\x1b[2J\r\u202e%d</script>.so%s", i, strings.Repeat("y", 150))
		s.plant(s.root, "file usr/lib/gpu/"+strings.ReplaceAll(name, "/", "_")+" x")
	}
	s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
	s.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/none/x", Target: "y"}}
	s.plant(s.root, "file usr/lib/gpu/none x")
	s.write()
	cmd := hookCommand(t, s.args(hook.Apply)...)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != hook.ExitFailed {
		t.Errorf("exit %d: %s", code, out)
	}
	if len(out) > 8<<10 || strings.ContainsAny(string(out), "\x1b\r\u202e") {
		t.Errorf("%d bytes: %q", len(out), out)
	}
	s.spec.Links = nil
	s.write()
	cmd = hookCommand(t, s.args(hook.Apply)...)
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) == 0 || len(out) > 8<<10 || strings.ContainsAny(string(out), "\x1b\r\u202e") {
		t.Errorf("%v, %d bytes: %q", err, len(out), out)
	}
	s.canary()
}

// A39, B34: what the standard library would take for the same path.
func TestPathsAreTakenAsTheyStand(t *testing.T) {
	for _, p := range []string{"/usr/lib/", "/usr//lib", "/usr/./lib", "/usr/../lib", "usr/lib", "/", "", "/a\x00b", "/" + strings.Repeat("x", 256)} {
		f := hookspec.File{Version: hookspec.Version, Container: "c1", Links: []hookspec.Link{{Path: p, Target: "x"}}}
		if _, err := f.Marshal(); err == nil {
			t.Errorf("a link at %q is acceptable", p)
		}
	}
}
