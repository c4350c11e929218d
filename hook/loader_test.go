package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/fakehw/elfgen"
	"gpurig/hook"
)

// Where this machine has its loaders and the libraries that every root gets.
const (
	tuple       = "x86_64-linux-gnu"
	glibcLoader = "/lib64/ld-linux-x86-64.so.2"
	muslLoader  = "/lib/ld-musl-x86_64.so.1"
)

func needLoader(t testing.TB, name string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(name)
	if runtime.GOARCH != "amd64" || err != nil {
		skip(t, "%s is not on this machine", name)
	}
	return real
}

// lib adds a loadable library to a root.
func (s *stand) lib(p, soname, needed string) {
	s.t.Helper()
	data, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: filepath.Base(p), Version: "1", SONAME: soname, Needed: needed})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path(p)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(p), data, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// resolves asks a loader, inside the root, which file it takes for a SONAME; "":
// none.
func (s *stand) resolves(loader, soname string, options ...string) string {
	s.t.Helper()
	s.lib("/asks.so", "", soname)
	defer os.Remove(s.path("asks.so"))
	cmd := exec.CommandContext(s.t.Context(), loader, append(options, "--list", "/asks.so")...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.root}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		skip(s.t, "no program can be run in another root here: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == soname && f[1] == "=>" && strings.HasPrefix(f[2], "/") {
			return f[2]
		}
	}
	return ""
}

// A glibcRoot is a layout that glibc's loader has to find libraries in.
type glibcRoot struct {
	name  string
	image []string
	libc  string            // folder of the C library
	gpu   string            // folder of the driver's libraries
	find  map[string]string // SONAME: the file that the loader must take
	told  string            // what ldconfig is told where its built-in folders differ
}

var glibcRoots = []glibcRoot{
	{"merged usr, as Debian has it", []string{
		"dir usr/lib64", "dir usr/lib/" + tuple, "link lib usr/lib", "link lib64 usr/lib64", "file etc/ld.so.conf include /etc/ld.so.conf.d/*.conf\n",
		"file etc/ld.so.conf.d/libc.conf /usr/local/lib\n", "file etc/ld.so.conf.d/x.conf /lib/" + tuple + "\n/usr/lib/" + tuple + "\n"},
		"usr/lib/" + tuple, "/usr/lib/" + tuple, map[string]string{"libcuda.so.1": "/lib/" + tuple + "/libcuda.so.1"}, ""},
	{"unmerged usr", []string{
		"dir lib64", "dir lib/" + tuple, "dir usr/lib/" + tuple, "file etc/ld.so.conf include /etc/ld.so.conf.d/*.conf\n",
		"file etc/ld.so.conf.d/x.conf /lib/" + tuple + "\n/usr/lib/" + tuple + "\n"},
		"lib/" + tuple, "/usr/lib/" + tuple, map[string]string{"libcuda.so.1": "/usr/lib/" + tuple + "/libcuda.so.1"}, ""},
	{"lib64, as Fedora has it", []string{"dir usr/lib64", "dir usr/lib", "link lib usr/lib", "link lib64 usr/lib64", "file etc/ld.so.conf include ld.so.conf.d/*.conf\n"},
		"lib64", "/usr/lib64", map[string]string{"libcuda.so.1": "/lib64/libcuda.so.1"}, "/lib64\n"},
	{"distroless: no ld.so.conf, no cache (no-ld-so-conf)", []string{"dir lib64", "dir usr/lib/" + tuple},
		"usr/lib/" + tuple, "/usr/lib/gpu", map[string]string{"libcuda.so.1": "/usr/lib/gpu/libcuda.so.1"}, ""},
	{"no /etc at all", []string{"dir lib64", "dir usr/lib"}, "lib64", "/opt/gpu/lib", map[string]string{"libcuda.so.1": "/opt/gpu/lib/libcuda.so.1"}, "/opt/gpu/lib\n/lib64\n"},
	{"a configuration that includes nothing", []string{"dir lib64", "file etc/ld.so.conf /usr/local/lib\n"},
		"lib64", "/opt/gpu/lib", map[string]string{"libcuda.so.1": "/opt/gpu/lib/libcuda.so.1"}, "/opt/gpu/lib\n/usr/local/lib\n/lib64\n"},
}

func (g glibcRoot) stand(t *testing.T, walk bool) *stand {
	t.Helper()
	loader := needLoader(t, glibcLoader)
	s := newStand(t)
	s.walk = walk
	if err := os.Remove(s.path("etc")); err != nil {
		t.Fatal(err)
	}
	s.plant(s.root, g.image...)
	s.plant(s.root, "copy "+glibcLoader[1:]+" "+loader)
	for _, name := range []string{"libc.so.6", "libm.so.6"} {
		s.plant(s.root, "copy "+g.libc+"/"+name+" "+filepath.Join(filepath.Dir(loader), name))
	}
	s.lib(g.gpu+"/libcuda.so.550.1", "libcuda.so.1", "")
	s.lib(g.gpu+"/libnvidia-ml.so.550.1", "libnvidia-ml.so.1", "")
	s.lib("/usr/local/lib/libown.so.2", "libown.so.2", "")
	s.lib(g.gpu+"/glibc-hwcaps/x86-64-v2/libfast.so.1", "libfast.so.1", "")
	s.lib(g.gpu+"/libfast.so.1", "libfast.so.1", "")
	s.spec.Links = []hookspec.Link{{Path: g.gpu + "/libcuda.so", Target: "libcuda.so.1"}}
	s.spec.LibraryDirs = []string{g.gpu}
	s.write()
	return s
}

// TestGlibcFindsEveryLibrary has the real loader of this machine look for
// libraries by the cache that the hook wrote.
func TestGlibcFindsEveryLibrary(t *testing.T) {
	for _, g := range glibcRoots {
		t.Run(g.name, func(t *testing.T) {
			each(t, func(t *testing.T, walk bool) {
				s := g.stand(t, walk)
				const fast = "libfast.so.1"
				if got := s.resolves(glibcLoader, fast); got != "" && strings.HasPrefix(g.gpu, "/opt") {
					t.Errorf("found %s before the hook ran", got)
				}
				s.run(hook.Prepare, hook.Apply)
				for soname, want := range g.find {
					if got := s.resolves(glibcLoader, soname); got != want {
						t.Errorf("%s is %q for the loader, want %q", soname, got, want)
					}
					if strings.HasPrefix(g.gpu, "/opt") {
						if got := s.resolves(glibcLoader, soname, "--inhibit-cache"); got != "" {
							t.Errorf("%s is found without the cache, %s: this test proves nothing", soname, got)
						}
					}
				}
				for _, soname := range []string{"libnvidia-ml.so.1", "libcuda.so", "libm.so.6"} {
					if s.resolves(glibcLoader, soname) == "" {
						t.Errorf("%s is not found", soname)
					}
				}
				if got := s.resolves(glibcLoader, fast); !strings.Contains(got, "/glibc-hwcaps/x86-64-v2/") && hasV2() {
					t.Errorf("%s is %q, want the one for x86-64-v2", fast, got)
				}
				s.everyEntry()
				s.run(hook.Clean)
				if got := s.resolves(glibcLoader, "libcuda.so.1"); got != "" && strings.HasPrefix(g.gpu, "/opt") {
					t.Errorf("taken back, libcuda.so.1 is still %s", got)
				}
				s.canary()
			})
		})
	}
}

func hasV2() bool {
	data, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && strings.Contains(string(data), "sse4_2") && strings.Contains(string(data), "popcnt")
}

// everyEntry has the loader resolve each SONAME of the cache to what the cache
// says.
func (s *stand) everyEntry() {
	s.t.Helper()
	c, err := ldcache.Parse([]byte(s.read("etc/ld.so.cache")))
	if err != nil || len(c.Entries) == 0 {
		s.t.Fatalf("cache: %v, %d entries", err, len(c.Entries))
	}
	for _, e := range c.Entries {
		if e.SONAME == "libc.so.6" || strings.HasPrefix(e.SONAME, "ld-linux") || e.HWCaps != "" || e.SONAME == "libfast.so.1" {
			continue // loaded before, or of several the processor's
		}
		if got := s.resolves(glibcLoader, e.SONAME); got != c.Lookup(e.SONAME)[0].Path {
			s.t.Errorf("%s is %q for the loader; the cache says %s", e.SONAME, got, c.Lookup(e.SONAME)[0].Path)
		}
	}
}

// TestTheCacheIsAsLdconfigMakesIt has glibc's own ldconfig make a cache of the
// same root, and prints both with ldconfig -p.
func TestTheCacheIsAsLdconfigMakesIt(t *testing.T) {
	ldconfig, err := exec.LookPath("ldconfig")
	if err != nil {
		ldconfig = "/sbin/ldconfig"
	}
	if _, err := os.Stat(ldconfig); err != nil {
		skip(t, "ldconfig is not on this machine")
	}
	for _, g := range glibcRoots {
		if g.libc == "usr/lib/"+tuple && strings.HasPrefix(g.name, "distroless") {
			continue // Debian's ldconfig scans that folder too; its loader needs no cache for it
		}
		t.Run(g.name, func(t *testing.T) {
			s := g.stand(t, false)
			s.run(hook.Prepare, hook.Apply)
			conf := "/etc/ld.so.conf"
			if !strings.Contains(g.libc, tuple) {
				// This machine's ldconfig has other built-in folders than the
				// image's (host-vs-image-ldconfig), so it is told which to take.
				conf = "/etc/told.conf"
				s.plant(s.root, "file etc/told.conf "+g.told)
			}
			cmd := exec.CommandContext(t.Context(), ldconfig, "-r", s.root, "-X", "-C", "/etc/theirs", "-f", conf)
			if out, err := cmd.CombinedOutput(); err != nil {
				skip(t, "ldconfig -r does not work here: %s", out)
			}
			ours, theirs := printed(t, ldconfig, s.path("etc/ld.so.cache")), printed(t, ldconfig, s.path("etc/theirs"))
			if !slices.Equal(ours, theirs) || len(ours) < 6 {
				t.Errorf("ldconfig -p of our cache:\n%s\nof glibc's:\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
			}
		})
	}
}

// printed are the entries that ldconfig -p shows of a cache.
func printed(t *testing.T, ldconfig, cache string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), ldconfig, "-p", "-C", cache).CombinedOutput()
	if err != nil {
		t.Fatalf("ldconfig -p: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "Cache generated by") || strings.Contains(l, "libs found in cache")
	})
}

// TestMuslFindsEveryLibrary has the real musl loader look by its path file.
func TestMuslFindsEveryLibrary(t *testing.T) { // bug: musl
	loader := needLoader(t, muslLoader)
	for name, own := range map[string]string{"no path file": "", "the image's own path file": "/lib:/opt/own\n"} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, walk bool) {
				s := newStand(t, "copy "+muslLoader[1:]+" "+loader)
				s.walk = walk
				s.lib("/opt/gpu/libcuda.so.550.1", "libcuda.so.1", "")
				s.lib("/opt/own/libown.so.2", "libown.so.2", "")
				if own != "" {
					s.plant(s.root, "file etc/ld-musl-x86_64.path "+own)
				}
				s.spec.LibraryDirs = []string{"/opt/gpu"}
				s.spec.Links = []hookspec.Link{{Path: "/opt/gpu/libcuda.so.1", Target: "libcuda.so.550.1"}}
				before := s.tree()
				if got := s.resolves(muslLoader, "libcuda.so.1"); got != "" {
					t.Errorf("found %s before the hook ran", got)
				}
				s.run(hook.Prepare, hook.Apply)
				if got := s.resolves(muslLoader, "libcuda.so.1"); got != "/opt/gpu/libcuda.so.1" {
					t.Errorf("libcuda.so.1 is %q for the loader", got)
				}
				if got := s.resolves(muslLoader, "libown.so.2"); (got != "") != (own != "") {
					t.Errorf("libown.so.2 is %q for the loader", got)
				}
				s.run(hook.Clean)
				if after := s.tree(); after != before {
					t.Errorf("taken back:\n%s", differing(before, after))
				}
			})
		})
	}
}

// An old cache is replaced by one that old and new loaders read, and a cache that
// the container made itself stays when ours is taken back.
func TestCachesOfOthers(t *testing.T) {
	g := glibcRoots[4]
	for name, old := range map[string]string{
		"the old format": "ld.so-1.7.0\x00" + strings.Repeat("\x00", 4), "cut": "glibc-ld.so.cache1.1\xff", "empty": "",
		"a hostile count": "glibc-ld.so.cache1.1\xff\xff\xff\x0f" + strings.Repeat("\x00", 64),
	} {
		t.Run(name, func(t *testing.T) {
			s := g.stand(t, false)
			s.plant(s.root, "file etc/ld.so.cache "+old)
			s.run(hook.Prepare, hook.Apply)
			if got := s.resolves(glibcLoader, "libcuda.so.1"); got != g.find["libcuda.so.1"] {
				t.Errorf("libcuda.so.1 is %q", got)
			}
			s.run(hook.Clean)
			if got := s.read("etc/ld.so.cache"); got != old {
				t.Errorf("taken back, it is %q", got)
			}
		})
	}
	t.Run("the container's own, made since", func(t *testing.T) {
		s := g.stand(t, false)
		s.run(hook.Prepare, hook.Apply)
		own := ldcache.Cache{Generator: "ldconfig (GNU libc) stable release version 2.36"}
		if err := os.WriteFile(s.path("etc/ld.so.cache"), own.Marshal(), 0o644); err != nil {
			t.Fatal(err)
		}
		s.run(hook.Clean)
		if strings.Contains(s.read("etc/ld.so.cache"), "/opt/gpu") {
			t.Error("it has our folder")
		}
	})
}
