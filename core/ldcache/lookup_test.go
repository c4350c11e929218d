package ldcache

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/elf"
	"gpurig/fakehw/elfgen"
)

const (
	soname = "libt.so.1"
	multi  = "/lib/x86_64-linux-gnu"
)

// A lookup is one root and what its loader takes for libt.so.1.
type lookup struct {
	name  string
	files files
	musl  bool
	opts  Options
	want  string // "RULE PATH", with " [HWCAPS]" and ": PROBLEM" behind; "none"
	// passed are the paths of Found.Passed.
	passed []string
	// skipped is in the text of Resolver.Skipped.
	skipped string
}

// found is a Found as lookup.want has it.
func (f Found) found() string {
	if f.Path == "" {
		return "none"
	}
	out := string(f.By) + " " + f.Path
	if f.HWCaps != "" {
		out += " [" + f.HWCaps + "]"
	}
	if f.Problem != "" {
		out += ": " + f.Problem
	}
	return out
}

func written(entries ...Entry) string { return string(Cache{Entries: entries}.Marshal()) }

func at(p string) Entry { return Entry{SONAME: soname, Path: p, Flags: FlagsX8664} }

// alone is a library that needs no other.
func alone(t testing.TB, soname string) string {
	t.Helper()
	b, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: soname, SONAME: soname})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// narrow is the start of a library of i386.
func narrow() string {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x01\x01\x01")
	b[16], b[18] = byte(elf.SharedObject), byte(elf.I386)
	return string(b)
}

// lookups are roots whose answer every loader of their kind gives; files named
// libt.so.1 are of that SONAME unless their content says otherwise.
func lookups(t testing.TB) []lookup {
	x, v2 := alone(t, soname), Entry{SONAME: soname, Path: "/o/glibc-hwcaps/x86-64-v2/libt.so.1", Flags: FlagsX8664, HWCaps: "x86-64-v2", ISALevel: 1}
	v3 := Entry{SONAME: soname, Path: "/o/glibc-hwcaps/x86-64-v3/libt.so.1", Flags: FlagsX8664, HWCaps: "x86-64-v3"}
	both := string(old([]Entry{at("/n/libt.so.1")}, put([]byte(written(at("/o/libt.so.1"))), 32, 0))) // without extensions
	tail := func(p string) files { return files{p: x, multi + "/libt.so.1": x} }
	with := func(f files, more ...string) files {
		f = maps.Clone(f)
		for i := 0; i < len(more); i += 2 {
			f[more[i]] = more[i+1]
		}
		return f
	}
	return []lookup{
		{name: "nothing", files: files{"/x": ""}, want: "none"},
		{name: "first default folder", files: with(tail("/usr/lib/libt.so.1"), "/lib/libt.so.1", x), want: "default folders " + multi + "/libt.so.1"},
		{name: "a default folder that is a link", files: files{"/lib": "-> usr/lib", "/usr/lib/libt.so.1.2": x, "/usr/lib/libt.so.1": "-> libt.so.1.2"}, want: "default folders /lib/libt.so.1"},
		{name: "a dangling link", files: files{multi + "/libt.so.1": "-> none", "/usr/lib/libt.so.1": x}, want: "default folders /usr/lib/libt.so.1"},
		{name: "links in a circle in the cache", files: with(tail("/lib/libt.so.1"), "/o/libt.so.1", "-> libt.so.1", File, written(at("/o/libt.so.1"))),
			want: "default folders " + multi + "/libt.so.1", passed: []string{"/o/libt.so.1"}},
		{name: "links in a circle in a default folder end the search", files: with(tail("/usr/lib/libt.so.1"), multi+"/libt.so.1", "-> libt.so.1"), want: "none", passed: []string{multi + "/libt.so.1"}},
		{name: "cache before folders", files: with(tail("/o/libt.so.1"), File, written(at("/o/libt.so.1"))), want: "ld.so.cache /o/libt.so.1"},
		{name: "cache of the old format", files: with(tail("/o/libt.so.1"), File, string(old([]Entry{at("/o/libt.so.1")}, nil))), want: "ld.so.cache /o/libt.so.1"},
		{name: "cache of both formats", files: with(tail("/o/libt.so.1"), File, both), want: "ld.so.cache /o/libt.so.1"},
		{name: "cache among many", files: with(tail("/o/libt.so.1"), File, written(
			Entry{SONAME: "libt.so.10", Path: "/a", Flags: FlagsX8664}, at("/o/libt.so.1"), Entry{SONAME: "libt.so", Path: "/b", Flags: FlagsX8664},
			Entry{SONAME: "liba.so.1", Path: "/c", Flags: FlagsX8664}, Entry{SONAME: "libz.so.1", Path: "/d", Flags: FlagsX8664})), want: "ld.so.cache /o/libt.so.1"},
		{name: "cache that names what is not there", files: with(tail("/usr/lib/libt.so.1"), File, written(at("/o/libt.so.1"))),
			want: "default folders " + multi + "/libt.so.1", passed: []string{"/o/libt.so.1"}},
		{name: "only the first of two entries is tried", files: with(tail("/q/libt.so.1"), File, written(at("/o/libt.so.1"), at("/q/libt.so.1"))),
			want: "default folders " + multi + "/libt.so.1", passed: []string{"/o/libt.so.1"}},
		{name: "cache that is none", files: with(tail("/o/libt.so.1"), File, "no cache"), want: "default folders " + multi + "/libt.so.1", skipped: "not a loader cache"},
		{name: "cache that is a folder", files: with(tail("/o/libt.so.1"), File+"/x", ""), want: "default folders " + multi + "/libt.so.1", skipped: "not a regular file"},
		{name: "cache out of order", files: with(tail("/o/libt.so.1"), File, string(old([]Entry{
			{SONAME: "liba.so.1", Path: "/a", Flags: FlagsX8664}, {SONAME: "libb.so.1", Path: "/a", Flags: FlagsX8664}, at("/o/libt.so.1")}, nil))), want: "default folders " + multi + "/libt.so.1"},
		{name: "entry of another machine", files: with(tail("/o/libt.so.1"), File, written(Entry{SONAME: soname, Path: "/o/libt.so.1", Flags: FlagsI386},
			Entry{SONAME: soname, Path: "/o/libt.so.1", Flags: FlagsAArch64})), want: "default folders " + multi + "/libt.so.1"},
		{name: "entry for libc5 of any machine", files: with(tail("/o/libt.so.1"), File, written(Entry{SONAME: soname, Path: "/o/libt.so.1", Flags: flagsELF})), want: "default folders " + multi + "/libt.so.1"},
		{name: "file of another width", files: with(tail("/o/libt.so.1"), "/o/libt.so.1", narrow(), File, written(at("/o/libt.so.1"))),
			want: "default folders " + multi + "/libt.so.1", passed: []string{"/o/libt.so.1"}},
		{name: "32 bit beside 64 bit", files: files{multi + "/libt.so.1": narrow(), "/lib/libt.so.1": arm(t, soname), "/usr/lib/libt.so.1": x},
			want: "default folders /usr/lib/libt.so.1", passed: []string{multi + "/libt.so.1", "/lib/libt.so.1"}},
		{name: "empty file in the cache", files: with(tail("/o/libt.so.1"), "/o/libt.so.1", "", File, written(at("/o/libt.so.1"))), want: "ld.so.cache /o/libt.so.1: file too short"},
		{name: "text in a folder", files: files{multi + "/libt.so.1": strings.Repeat("text\n", 40), "/usr/lib/libt.so.1": x}, want: "default folders " + multi + "/libt.so.1: invalid ELF header"},
		{name: "a folder for a file", files: files{multi + "/libt.so.1/x": "", "/usr/lib/libt.so.1": x}, want: "default folders " + multi + "/libt.so.1: not a regular file"},

		{name: "hwcaps in a folder", opts: Options{Level: 2}, files: with(tail(multi+"/glibc-hwcaps/x86-64-v2/libt.so.1"), multi+"/glibc-hwcaps/x86-64-v9/libt.so.1", x),
			want: "default folders " + multi + "/glibc-hwcaps/x86-64-v2/libt.so.1 [x86-64-v2]"},
		{name: "hwcaps of a later folder", opts: Options{Level: 2}, files: tail("/usr/lib/glibc-hwcaps/x86-64-v2/libt.so.1"), want: "default folders " + multi + "/libt.so.1"},
		{name: "hwcaps in the cache", opts: Options{Level: 2}, files: with(tail("/o/libt.so.1"), v2.Path, x, File, written(at("/o/libt.so.1"), v2)), want: "ld.so.cache " + v2.Path + " [x86-64-v2]"},
		{name: "hwcaps of the cache are not there", opts: Options{Level: 2}, files: with(tail("/o/libt.so.1"), File, written(at("/o/libt.so.1"), v2)),
			want: "default folders " + multi + "/libt.so.1", passed: []string{v2.Path}},
		{name: "best hwcaps in the cache", opts: Options{Level: 3}, files: with(tail("/o/libt.so.1"), v2.Path, x, v3.Path, x, File, written(at("/o/libt.so.1"), v2, v3)), want: "ld.so.cache " + v3.Path + " [x86-64-v3]"},

		{name: "preloaded library of that SONAME", files: with(tail("/p/any.so"), "/p/any.so", x, preloadFile, "# comment /p/no.so\n/p/none.so:/p/any.so\n"), want: "ld.so.preload /p/any.so", skipped: `"/p/none.so": not found`},
		{name: "preloaded library of another SONAME", files: with(tail("/p/any.so"), "/p/any.so", alone(t, "libu.so.1"), preloadFile, "/p/any.so"), want: "default folders " + multi + "/libt.so.1"},
		{name: "preloaded by name", files: with(tail("/o/libt.so.1"), File, written(at("/o/libt.so.1")), preloadFile, "libt.so.1"), want: "ld.so.preload /o/libt.so.1"},
		{name: "preloaded library of another width", files: with(tail("/p/any.so"), "/p/any.so", narrow(), preloadFile, "/p/any.so\n"), want: "default folders " + multi + "/libt.so.1", skipped: `"/p/any.so"`},
		{name: "preloaded library that is damaged", files: with(tail("/p/any.so"), "/p/any.so", "", preloadFile, "/p/any.so\n"), want: "default folders " + multi + "/libt.so.1", skipped: "file too short"},
		{name: "preloaded through $LIB", files: with(tail("/usr/lib/x86_64-linux-gnu/any.so"), preloadFile, "/usr/${LIB}/any.so /usr/$LIB_/any.so"), want: "ld.so.preload /usr/lib/x86_64-linux-gnu/any.so", skipped: "$LIB_"},
		{name: "preloaded from the program's folder", opts: Options{Origin: "/"}, files: with(tail("/p/any.so"), preloadFile, "$ORIGIN/p/any.so ${ORIGIN}x/p/any.so"), want: "ld.so.preload //p/any.so", skipped: "${ORIGIN}x"},
		{name: "preloaded from a program's folder that is not known", files: with(tail("/p/any.so"), preloadFile, "$PLATFORM/any.so"), want: "default folders " + multi + "/libt.so.1", skipped: "depends on the program"},
		{name: "preloaded for a processor", opts: Options{Platform: "x86_64"}, files: with(tail("/p/x86_64/any.so"), "/p/haswell", "-> x86_64", "/p/xeon_phi", "-> x86_64", preloadFile, "/p/$PLATFORM/any.so"), want: "ld.so.preload /p/x86_64/any.so"},
		{name: "a name without a slash has no tokens", opts: Options{Origin: "/"}, files: with(tail(multi+"/$LIB.so"), preloadFile, "$LIB.so"), want: "ld.so.preload " + multi + "/$LIB.so"},

		{name: "environment before the cache", opts: Options{LibraryPath: "/none:/e;/f"}, files: with(tail("/e/libt.so.1"), File, written(at("/o/libt.so.1")), "/o/libt.so.1", x), want: "LD_LIBRARY_PATH /e/libt.so.1"},
		{name: "preload before the environment", opts: Options{LibraryPath: "/e"}, files: with(tail("/e/libt.so.1"), "/p/any.so", x, preloadFile, "/p/any.so"), want: "ld.so.preload /p/any.so"},
		{name: "hwcaps in the environment's folder", opts: Options{Level: 2, LibraryPath: "/e"}, files: tail("/e/glibc-hwcaps/x86-64-v2/libt.so.1"), want: "LD_LIBRARY_PATH /e/glibc-hwcaps/x86-64-v2/libt.so.1 [x86-64-v2]"},

		{name: "musl: built-in folders in order", musl: true, files: files{"/usr/local/lib/libt.so.1": x, "/usr/lib/libt.so.1": x}, want: "default folders /usr/local/lib/libt.so.1"},
		{name: "musl: path file", musl: true, files: files{"/usr/lib/libt.so.1": x, "/m/libt.so.1": x, "/etc/ld-musl-x86_64.path": "/none:/m\n/usr/lib\n"}, want: "musl path file /m/libt.so.1"},
		{name: "musl: path file for another machine", musl: true, files: files{"/usr/lib/libt.so.1": x, "/m/libt.so.1": x, "/etc/ld-musl-aarch64.path": "/m\n"}, want: "default folders /usr/lib/libt.so.1"},
		{name: "musl: empty path file", musl: true, files: files{"/usr/lib/libt.so.1": x, "/etc/ld-musl-x86_64.path": ""}, want: "none"},
		{name: "musl: path file that is a folder", musl: true, files: files{"/usr/lib/libt.so.1": x, "/etc/ld-musl-x86_64.path/x": ""}, want: "none", skipped: "not a regular file"},
		{name: "musl: path file that is a dangling link", musl: true, files: files{"/usr/lib/libt.so.1": x, "/etc/ld-musl-x86_64.path": "-> none"}, want: "default folders /usr/lib/libt.so.1"},
		{name: "musl: zero byte ends the path file", musl: true, files: files{"/usr/lib/libt.so.1": x, "/m/libt.so.1": x, "/etc/ld-musl-x86_64.path": "/usr/lib\x00\n/m"}, want: "musl path file /usr/lib/libt.so.1"},
		{name: "musl: links in a circle end the search", musl: true, files: files{"/lib/libt.so.1": "-> libt.so.1", "/usr/lib/libt.so.1": x}, want: "none", passed: []string{"/lib/libt.so.1"}},
		{name: "musl: the first file counts", musl: true, files: files{"/lib/libt.so.1": "", "/usr/lib/libt.so.1": x}, want: "default folders /lib/libt.so.1: file too short"},
		{name: "musl: neither cache nor preload nor hwcaps", musl: true, opts: Options{Level: 4}, files: files{"/usr/lib/libt.so.1": x, "/usr/lib/glibc-hwcaps/x86-64-v2/libt.so.1": x, "/p.so": x,
			preloadFile: "/p.so", File: written(at("/p.so"))}, want: "default folders /usr/lib/libt.so.1"},
		{name: "musl: environment", musl: true, opts: Options{LibraryPath: "/e"}, files: files{"/usr/lib/libt.so.1": x, "/e/libt.so.1": x}, want: "LD_LIBRARY_PATH /e/libt.so.1"},
	}
}

// rtld is what the tests read of a loader of Debian.
const rtld = "\x7fELF\x00/etc/x\x00/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00/etc/\x00"

// root is the root of a lookup, its loader among the files.
func (l lookup) root(loader string) (files, Loader) {
	out := maps.Clone(l.files)
	which := loaders[slices.IndexFunc(loaders, func(ld Loader) bool { return ld.Machine == elf.X8664 && (ld.Musl != "") == l.musl })]
	if out["/lib"] == "" || !l.musl {
		out[which.Path] = loader
	}
	return out, which
}

// A48.
func TestFind(t *testing.T) {
	for _, tc := range lookups(t) {
		t.Run(tc.name, func(t *testing.T) {
			root, ld := tc.root(rtld)
			r, err := NewResolver(root, ld, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Find(soname)
			if err != nil || got.found() != tc.want {
				t.Errorf("found %s, %v; want %s", got.found(), err, tc.want)
			}
			var passed []string
			for _, s := range got.Passed {
				passed = append(passed, s.Path)
			}
			if !slices.Equal(passed, tc.passed) {
				t.Errorf("passed over %v, want %v", got.Passed, tc.passed)
			}
			if text := fmt.Sprint(r.Skipped); !strings.Contains(text, tc.skipped) || tc.skipped == "" && len(r.Skipped) > 0 {
				t.Errorf("skipped %v, want %q", text, tc.skipped)
			}
		})
	}
}

func TestFindByProcessorAndKernel(t *testing.T) {
	x := lib(t, soname, "1")
	newer := at("/o/libt.so.1")
	newer.OSVersion = 0x060100
	tls := at("/o/tls/libt.so.1")
	tls.HWCap = 1 << 63
	v3 := Entry{SONAME: soname, Path: "/o/v3/libt.so.1", Flags: FlagsX8664, HWCaps: "x86-64-v3"}
	isa := Entry{SONAME: soname, Path: "/o/isa/libt.so.1", Flags: FlagsX8664, HWCaps: "x86-64-v2", ISALevel: 3}
	root := files{File: written(newer, tls, v3, isa, at("/o/plain/libt.so.1"))}
	for _, e := range []Entry{newer, tls, v3, isa, at("/o/plain/libt.so.1")} {
		root[e.Path] = x
	}
	for _, tc := range []struct {
		name string
		opts Options
		want string
	}{
		{"zero options", Options{}, "/o/libt.so.1"},
		{"an older kernel", Options{OSVersion: 0x050a00}, "/o/plain/libt.so.1"},
		{"that kernel", Options{OSVersion: 0x060100}, "/o/libt.so.1"},
		{"bits of old", Options{HWCap: 1 << 63}, "/o/tls/libt.so.1"},
		{"other bits of old", Options{HWCap: 1}, "/o/libt.so.1"},
		{"level 2 is less than an ISA level of 3", Options{Level: 2}, "/o/libt.so.1"},
		{"level 3", Options{Level: 3}, "/o/v3/libt.so.1"},
		{"a level that is none", Options{Level: 9}, "/o/v3/libt.so.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := NewResolver(root, loaders[0], tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.Find(soname); err != nil || got.Path != tc.want {
				t.Errorf("found %+v, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestFindOfPathsAndOfWhatIsNoName(t *testing.T) {
	r, err := NewResolver(files{"/a/libt.so.1": "-> ../b", "/b": lib(t, soname, "1")}, loaders[0], Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Found{Name: "/a/./libt.so.1", Path: "/a/./libt.so.1", Real: "/b", By: ByPath}
	if got, err := r.Find("/a/./libt.so.1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, %v; want %+v", got, err, want)
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", maxPath+1), ".", ".."} {
		if got, err := r.Find(name); err != nil || got.Path != "" {
			t.Errorf("Find(%.10q) = %+v, %v", name, got, err)
		}
	}
}

func TestLoaders(t *testing.T) {
	root := files{"/lib64": "-> usr/lib64", "/usr/lib64/ld-linux-x86-64.so.2": rtld, "/lib/ld-linux.so.2": "-> none", "/lib/ld-musl-aarch64.so.1": "x", "/lib/ld-linux-armhf.so.3/x": ""}
	list, err := Loaders(root)
	var got []string
	for _, l := range list {
		got = append(got, l.Path)
	}
	if want := []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-aarch64.so.1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("loaders %v, %v; want %v", got, err, want)
	}
	other, ok := list[0].For(elf.AArch64)
	if !ok || other.Path != list[0].Path || other.Musl != "" || other.flags[0] != FlagsAArch64 {
		t.Errorf("for aarch64: %+v, %v", other, ok)
	}
}

func TestBuiltInFolders(t *testing.T) {
	debian := []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"}
	for _, tc := range []struct {
		name string
		root files
		want []string
	}{
		{"Debian's loader", files{"/lib64/ld-linux-x86-64.so.2": rtld}, debian},
		{"Fedora's loader", files{"/lib64/ld-linux-x86-64.so.2": "\x7fELF\x00/\x00//\x00/proc/self/\x00/lib64/\x00/usr/lib64/\x00"}, []string{"/lib64", "/usr/lib64"}},
		{"a store of its own", files{"/lib64/ld-linux-x86-64.so.2": "\x00/nix/store/x-glibc-2.40/lib/\x00x"}, []string{"/nix/store/x-glibc-2.40/lib"}},
		{"it does not tell: Debian's layout", files{"/lib64/ld-linux-x86-64.so.2": "lib/\x00", "/usr/lib/x86_64-linux-gnu/x": ""}, debian},
		{"it does not tell: another layout", files{"/lib64/ld-linux-x86-64.so.2": "/lib/"}, []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}},
		{"hostile", files{"/lib64/ld-linux-x86-64.so.2": "/lib/../x/\x00/lib\n/\x00/l\x00/"}, []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := loaders[0].folders(tc.root); !slices.Equal(got, tc.want) {
				t.Errorf("folders %q, want %q", got, tc.want)
			}
		})
	}
}

// stuck is a View in which one path cannot be looked at.
type stuck struct {
	files
	at string
}

func (s stuck) Lstat(p string) (Info, error) {
	if p == s.at {
		return Info{}, syscall.EIO
	}
	return s.files.Lstat(p)
}

func TestWhatCannotBeLookedAtIsAnErrorAndNoAnswer(t *testing.T) {
	x := lib(t, soname, "1")
	root := files{multi + "/libt.so.1": x, File: written(at("/o/libt.so.1")), preloadFile: "/p.so", "/etc/ld-musl-x86_64.path": "/m"}
	for _, p := range []string{File, preloadFile, "/p.so", "/o/libt.so.1", multi + "/libt.so.1"} {
		v := stuck{maps.Clone(root), p}
		if p == multi+"/libt.so.1" {
			delete(v.files, File)
		}
		v.files["/o/x"] = ""
		r, err := NewResolver(v, loaders[0], Options{})
		if err == nil {
			_, err = r.Find(soname)
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s cannot be looked at: %v", p, err)
		}
	}
	damaged := files{File: written(at("/usr/../o/libt.so.1"))}
	if _, err := NewResolver(damaged, loaders[0], Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("entries that only a loader may use: %v", err)
	}
	if _, err := NewResolver(stuck{root, "/etc/ld-musl-x86_64.path"}, loaders[4], Options{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("path file cannot be looked at: %v", err)
	}
}

func TestResolverIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		root files
		ld   Loader
		opts Options
	}{
		"preloaded libraries": {files{preloadFile: strings.Repeat("/p\n", maxPreloads+1)}, loaders[0], Options{}},
		"text of preloads":    {files{preloadFile: strings.Repeat("#", maxConfSize+1)}, loaders[0], Options{}},
		"musl's folders":      {files{"/etc/ld-musl-x86_64.path": strings.Repeat("/p:", MaxFolders+1)}, loaders[4], Options{}},
		"LD_LIBRARY_PATH":     {files{}, loaders[0], Options{LibraryPath: strings.Repeat("/p:", MaxFolders+1)}},
	} {
		if _, err := NewResolver(tc.root, tc.ld, tc.opts); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A48.
func FuzzResolver(f *testing.F) {
	x := lib(f, soname, "1")
	f.Add([]byte("/p.so libt.so.1\n#x\n$LIB/${LIB}/$ORIGIN"), []byte(written(at("/o/libt.so.1"))), []byte("/lib:/m\n"), []byte(rtld))
	f.Add([]byte("a:b\tc"), old([]Entry{at("/p.so")}, nil), []byte("\x00"), []byte("/lib/\x00"))
	f.Fuzz(func(t *testing.T, preload, cache, path, loader []byte) {
		root := files{preloadFile: string(preload), File: string(cache), "/etc/ld-musl-x86_64.path": string(path), "/p.so": x, "/o/libt.so.1": x, loaders[0].Path: string(loader)}
		for _, ld := range []Loader{loaders[0], loaders[4]} {
			r, err := NewResolver(root, ld, Options{Level: 4})
			if err != nil {
				if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrFormat) {
					t.Fatal(err)
				}
				continue
			}
			got, err := r.Find(soname)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := root.Lstat(got.Real); got.Path != "" && (err != nil || !info.Mode.IsRegular() && got.Problem == "") {
				t.Fatalf("found %+v, which is %v, %v", got, info, err)
			}
		}
	})
}
