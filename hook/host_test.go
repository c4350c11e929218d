package hook_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A trick is an image in which another libcuda comes before the host's.
type trick struct {
	name  string
	conf  string            // ld.so.conf; "-": none
	lines []string          // of the image, see plant
	libs  map[string]string // of the image: path and SONAME
	link  bool              // the plan itself makes the SONAME link
	gpu   string            // the host's folder
	dir   bool              // which the plan mounts whole
	etc   bool              // etc is a link
	has   bool              // every program has the host's already, before it asks
	stays string            // part of the warning; empty: the host's wins
}

const (
	include  = "include /etc/ld.so.conf.d/*.conf\n"
	ownOne   = "/opt/first/libcuda.so.1"
	multiple = "/usr/lib/" + tuple
)

var tricks = []trick{
	{name: "A55 a folder of its own, named first", conf: "/opt/first\n" + include, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 a drop-in that is sorted first", conf: include, lines: []string{"file etc/ld.so.conf.d/00-a.conf /opt/first\n"}, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 the folder for local libraries", conf: include, lines: []string{"file etc/ld.so.conf.d/a.conf /usr/local/lib\n" + multiple + "\n"},
		libs: map[string]string{"/usr/local/lib/libcuda.so.1": "libcuda.so.1"}, gpu: multiple},
	{name: "A55 a subfolder for newer processors, in a folder that comes later", conf: include, libs: map[string]string{multiple + "/glibc-hwcaps/x86-64-v2/libcuda.so.1": "libcuda.so.1"}},
	{name: "A55 a subfolder for newer processors, in the host's own folder", conf: include, libs: map[string]string{"/opt/gpu/lib/glibc-hwcaps/x86-64-v2/libcuda.so.1": "libcuda.so.1"}},
	{name: "A55 before a folder that is mounted whole", conf: "/opt/first\n" + include, dir: true, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 named first, in an etc that is a link", etc: true, conf: "/opt/first\n" + include, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 an include that is negated", conf: "include /etc/[!b].conf\n" + include, lines: []string{"file etc/a.conf /opt/first\n"}, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 a folder that goes up and down", conf: "/opt/../opt/./first\n" + include, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A55 a folder with a zero byte behind it", conf: "/opt/first\x00x\n" + include, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A56 a higher version in the host's own folder", conf: include, libs: map[string]string{"/opt/gpu/lib/libcuda.so.999.99": "libcuda.so.1"}},
	{name: "A56 a higher version, and the plan has the link", conf: include, link: true, libs: map[string]string{"/opt/gpu/lib/libcuda.so.999.99": "libcuda.so.1"}},
	{name: "A56 a file without its link", conf: "/opt/first\n" + include, libs: map[string]string{"/opt/first/libcuda.so.550.54.14": "libcuda.so.1"}},
	{name: "A57 a configuration that includes nothing", conf: "/usr/local/lib\n"},
	{name: "A57 a configuration that includes a pattern", conf: "include /etc/ld.so.conf.d/[a-z]*.conf\n"},
	{name: "A57 no configuration", conf: "-"},
	{name: "A55 a configuration that is a link", conf: "-", lines: []string{"link etc/ld.so.conf ../opt/own.conf", "file opt/own.conf /opt/first\n" + include}, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A57 a configuration that is a link and includes nothing", conf: "-", lines: []string{"link etc/ld.so.conf /opt/own.conf", "file opt/own.conf /usr/local/lib\n"}},
	{name: "A57 a configuration that is a link to nothing", conf: "-", lines: []string{"link etc/ld.so.conf /opt/none"}},
	{name: "A55 a drop-in that is a link", conf: include, lines: []string{"link etc/ld.so.conf.d/00-a.conf /opt/a.conf", "file opt/a.conf /opt/first\n"}, libs: map[string]string{ownOne: "libcuda.so.1"}},
	{name: "A58 a subfolder for hardware, of old", conf: include, libs: map[string]string{multiple + "/tls/libcuda.so.1": "libcuda.so.1"}, stays: "after the container's next ldconfig"},
	{name: "A58 a configuration that is a folder", conf: "-", lines: []string{"dir etc/ld.so.conf"}, stays: "after the container's next ldconfig"},
	{name: "A58 a library that is in every program", conf: include, lines: []string{"file etc/ld.so.preload " + ownOne + "\n"}, libs: map[string]string{ownOne: "libcuda.so.1"},
		stays: `takes "` + ownOne + `" by ld.so.preload`},
	{name: "A58 a library that is in every program, beside its folder", conf: include, lines: []string{"dir usr/bin", "file etc/ld.so.preload $ORIGIN/../../opt/first/libcuda.so.1\n"},
		libs: map[string]string{ownOne: "libcuda.so.1"}, stays: `takes "/usr/bin/../..` + ownOne + `" by ld.so.preload`},
	{name: "A58 a library that is in the programs of one folder", conf: include, lines: []string{"dir usr/bin", "dir usr/local/bin", "file etc/ld.so.preload ${ORIGIN}/../lib/p.so\n"},
		libs: map[string]string{"/usr/local/lib/p.so": "libcuda.so.1"}, stays: `takes "/usr/local/bin/../lib/p.so" by ld.so.preload`},
	{name: "A58 a library that is in every program, for some processors", conf: include, lines: []string{"file etc/ld.so.preload /opt/$PLATFORM/p.so\n"},
		libs: map[string]string{"/opt/haswell/p.so": "libcuda.so.1"}, stays: `takes "/opt/haswell/p.so" by ld.so.preload`},
	{name: "in every program of a folder is the host's own", has: true, conf: include, lines: []string{"dir usr/bin", "file etc/ld.so.preload $ORIGIN/../../opt/gpu/lib/libcuda.so.550.1\n"}},
	{name: "in every program of a folder is another library", conf: include, lines: []string{"dir usr/bin", "file etc/ld.so.preload $ORIGIN/../lib/p.so\n"}, libs: map[string]string{"/usr/lib/p.so": "libp.so"}},
}

func (c trick) stand(t *testing.T) *stand {
	t.Helper()
	loader := needLoader(t, glibcLoader)
	lines := []string{"dir usr/lib64", "dir " + multiple[1:], "link lib usr/lib", "link lib64 usr/lib64", "dir etc/ld.so.conf.d", "copy " + glibcLoader[1:] + " " + loader}
	if c.etc {
		lines = append([]string{"dir config", "link etc config"}, lines...)
	}
	if c.conf != "-" {
		lines = append(lines, "file etc/ld.so.conf "+c.conf)
	}
	s := newStand(t, append(lines, c.lines...)...)
	for _, name := range []string{"libc.so.6", "libm.so.6"} {
		s.plant(s.root, "copy "+multiple[1:]+"/"+name+" "+filepath.Join(filepath.Dir(loader), name))
	}
	gpu := "/opt/gpu/lib"
	if c.gpu != "" {
		gpu = c.gpu
	}
	s.lib(gpu+"/libcuda.so.550.1", "libcuda.so.1", "")
	for p, soname := range c.libs {
		s.lib(p, soname, "")
	}
	s.spec.MountPoints = []hookspec.MountPoint{{Path: gpu + "/libcuda.so.550.1"}}
	if c.dir {
		s.spec.MountPoints = []hookspec.MountPoint{{Path: gpu, Dir: true}}
	}
	s.spec.LibraryDirs = []string{gpu}
	if c.link {
		s.spec.Links = []hookspec.Link{{Path: gpu + "/libcuda.so.1", Target: "libcuda.so.550.1"}}
	}
	return s
}

// leads follows the links of the root's last components.
func (s *stand) leads(p string) string {
	for range 10 {
		text, err := os.Readlink(s.path(p))
		if err != nil {
			break
		}
		if !path.IsAbs(text) {
			text = path.Join(path.Dir(p), text)
		}
		p = text
	}
	return p
}

// TestTheHostsLibraryWins asks the real loader for libcuda.so.1 after the hook, after
// the image's own ldconfig and at the next start, and wants the image as it was in the
// end.
func TestTheHostsLibraryWins(t *testing.T) {
	for _, c := range tricks {
		t.Run(c.name, func(t *testing.T) {
			s := c.stand(t)
			before := s.image()
			wins := func(when string, notes []string) {
				t.Helper()
				told := slices.ContainsFunc(notes, func(n string) bool {
					return strings.Contains(n, hookspec.LibraryShadowed) && strings.Contains(n, c.stays)
				})
				if told != (c.stays != "") {
					t.Errorf("%s: %q", when, notes)
				}
				if c.stays != "" || c.has {
					return
				}
				if got := s.leads(s.resolves(glibcLoader, "libcuda.so.1")); path.Base(got) != "libcuda.so.550.1" {
					t.Errorf("%s: the loader takes %s", when, got)
				}
			}
			wins("started", s.run(hook.Prepare, hook.Apply))
			if out, err := exec.CommandContext(t.Context(), "/sbin/ldconfig", "-r", s.root).CombinedOutput(); err != nil && c.stays == "" {
				skip(t, "ldconfig -r does not work here: %s", out)
			}
			if c.stays == "" {
				wins("after its ldconfig", nil)
			}
			wins("started again", s.run(hook.Finish, hook.Prepare, hook.Apply))
			wins("a device came", s.run(hook.Prepare, hook.Apply))
			s.run(hook.Finish, hook.Clean)
			if after := s.image(); after != before {
				t.Errorf("in the end\n%s", differing(before, after))
			}
			s.canary()
		})
	}
}

// image is the root without what an ldconfig makes in it.
func (s *stand) image() string {
	var out []string
	for l := range strings.Lines(s.tree()) {
		if !strings.Contains(l, "ld.so.cache") && !strings.Contains(l, "var") && !strings.Contains(l, "libcuda.so.1") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "")
}

// TestMuslTakesTheHosts (A55): a folder of the image's comes before the host's.
func TestMuslTakesTheHosts(t *testing.T) {
	loader := needLoader(t, muslLoader)
	for name, lines := range map[string][]string{
		"A55 musl: a default folder":  nil,
		"A55 musl: its own path file": {"file etc/ld-musl-x86_64.path /lib:/opt/own\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, append(lines, "copy "+muslLoader[1:]+" "+loader)...)
			s.lib("/opt/gpu/libcuda.so.550.1", "libcuda.so.1", "")
			s.lib("/opt/own/libcuda.so.1", "libcuda.so.1", "")
			s.lib("/usr/local/lib/libcuda.so.1", "libcuda.so.1", "")
			s.spec.MountPoints = []hookspec.MountPoint{{Path: "/opt/gpu/libcuda.so.550.1"}}
			s.spec.LibraryDirs = []string{"/opt/gpu"}
			s.spec.Links = []hookspec.Link{{Path: "/opt/gpu/libcuda.so.1", Target: "libcuda.so.550.1"}}
			before := s.tree()
			for range 2 {
				s.run(hook.Prepare, hook.Apply)
				if got := s.leads(s.resolves(muslLoader, "libcuda.so.1")); got != "/opt/gpu/libcuda.so.550.1" {
					t.Errorf("the loader takes %s", got)
				}
				s.run(hook.Finish)
			}
			s.run(hook.Clean)
			if after := s.tree(); after != before {
				t.Errorf("taken back:\n%s", differing(before, after))
			}
		})
	}
}

// TestStrictRefusesAnotherLibrary (A58).
func TestStrictRefusesAnotherLibrary(t *testing.T) {
	for _, c := range tricks {
		if c.stays == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := c.stand(t)
			s.spec.Strict = true
			s.write()
			_, err := s.try(hook.Prepare)
			if err == nil {
				_, err = s.try(hook.Apply)
			}
			if err == nil || !strings.HasPrefix(err.Error(), hookspec.LibraryShadowed) || !strings.Contains(err.Error(), c.stays) {
				t.Errorf("%v", err)
			}
		})
	}
}
