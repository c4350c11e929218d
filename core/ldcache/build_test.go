package ldcache

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpurig/core/elf"
	"gpurig/fakehw/elfgen"
)

// paths maps what is in a cache: "SONAME PATH".
func paths(c Cache) []string {
	var out []string
	for _, e := range c.Entries {
		out = append(out, strings.TrimSpace(e.SONAME+" "+e.Path+" "+e.HWCaps))
	}
	return out
}

func TestBuild(t *testing.T) {
	for _, tc := range []struct {
		name    string
		v       files
		folders []string
		want    []string // in order
		links   []Link
	}{
		{name: "the SONAME makes the entry, and its link is there",
			v:       files{"/d/libx.so.1": "-> libx.so.1.5", "/d/libx.so.1.5": lib(t, "libx.so.1", "1.5")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}},
		{name: "the link is missing",
			v:       files{"/d/libx.so.1.5": lib(t, "libx.so.1", "1.5")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}, links: []Link{{"/d", "/d", "libx.so.1", "libx.so.1.5"}}},
		{name: "the link leads to the older one",
			v:       files{"/d/libx.so.1": "-> libx.so.1.9", "/d/libx.so.1.9": lib(t, "libx.so.1", "1.9"), "/d/libx.so.1.10": lib(t, "libx.so.1", "1.10")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}, links: []Link{{"/d", "/d", "libx.so.1", "libx.so.1.10"}}},
		{name: "the link dangles",
			v:       files{"/d/libx.so.1": "-> libx.so.1.4", "/d/libx.so.1.5": lib(t, "libx.so.1", "1.5")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}, links: []Link{{"/d", "/d", "libx.so.1", "libx.so.1.5"}}},
		{name: "a development link is an entry of its own",
			v:       files{"/d/libx.so": "-> libx.so.1", "/d/libx.so.1": "-> libx.so.1.5", "/d/libx.so.1.5": lib(t, "libx.so.1", "1.5")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1", "libx.so /d/libx.so"}},
		{name: "another link passes for a file",
			v:       files{"/d/libother.so.2": "-> libx.so.1.5", "/d/libx.so.1.5": lib(t, "libx.so.1", "1.5"), "/d/libx.so.1": "-> libx.so.1.5"},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}},
		{name: "no SONAME: the file's name",
			v:       files{"/d/libplugin.so": lib(t, "", "1")},
			folders: []string{"/d"}, want: []string{"libplugin.so /d/libplugin.so"}},
		{name: "the first folder comes first",
			v:       files{"/b/libx.so.1": lib(t, "libx.so.1", "1"), "/a/libx.so.1": lib(t, "libx.so.1", "2")},
			folders: []string{"/b/", "/a"}, want: []string{"libx.so.1 /b/libx.so.1", "libx.so.1 /a/libx.so.1"}},
		{name: "merged usr: a folder counts once, by the first name",
			v:       files{"/lib": "-> usr/lib", "/usr/lib/libx.so.1": lib(t, "libx.so.1", "1")},
			folders: []string{"/lib", "/usr/lib", "/lib"}, want: []string{"libx.so.1 /lib/libx.so.1"}},
		{name: "another architecture has an entry too",
			v:       files{"/a/libx.so.1": arm(t, "libx.so.1"), "/b/libx.so.1": lib(t, "libx.so.1", "1")},
			folders: []string{"/b", "/a"}, want: []string{"libx.so.1 /a/libx.so.1", "libx.so.1 /b/libx.so.1"}},
		{name: "hwcaps name the file and make no link",
			v: files{"/d/libx.so.1": lib(t, "libx.so.1", "1"), "/d/glibc-hwcaps/x86-64-v3/libx.so.1.5": lib(t, "libx.so.1", "v3"),
				"/d/glibc-hwcaps/x86-64-v2/libx.so.1": lib(t, "libx.so.1", "v2"), "/d/glibc-hwcaps/README": "text"},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/glibc-hwcaps/x86-64-v2/libx.so.1 x86-64-v2", "libx.so.1 /d/glibc-hwcaps/x86-64-v3/libx.so.1.5 x86-64-v3", "libx.so.1 /d/libx.so.1"}},
		{name: "a library behind a link to another folder",
			v:       files{"/d/libx.so.1": "-> /store/libx.so.1.5", "/store/libx.so.1.5": lib(t, "libx.so.1", "1")},
			folders: []string{"/d"}, want: []string{"libx.so.1 /d/libx.so.1"}},
		{name: "nothing", v: files{"/d/readme": "x"}, folders: []string{"/d"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Build(tc.v, tc.folders)
			if !slices.Equal(paths(got.Cache), tc.want) {
				t.Errorf("entries %q, want %q (skipped %v)", paths(got.Cache), tc.want, got.Skipped)
			}
			if !slices.Equal(got.Links, tc.links) {
				t.Errorf("links %v, want %v", got.Links, tc.links)
			}
			if again := Build(tc.v, tc.folders); !reflect.DeepEqual(again.Cache, got.Cache) {
				t.Errorf("a second Build gives %+v", again)
			}
		})
	}
}

func TestB42WhatIsNoLibraryIsSkippedWithItsReason(t *testing.T) {
	good := lib(t, "libx.so.1", "1")
	program, machine8 := []byte(good), []byte(good)
	program[16], machine8[18] = 2, 8
	static, err := elfgen.Program(elfgen.Object{Arch: "x86_64", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	static[16] = 3 // a shared object without a dynamic section
	v := files{
		"/d/libstatic.so":   string(static),
		"/d/libempty.so.1":  "",
		"/d/libshort.so.1":  "\x7fELF",
		"/d/libscript.so":   "/* GNU ld script */ GROUP ( libc.so.6 )",
		"/d/libfifo.so.1":   "!",
		"/d/libtofifo.so.1": "-> libfifo.so.1",
		"/d/libdangling.so": "-> nowhere",
		"/d/libloop.so.1":   "-> libloop.so.1",
		"/d/libprogram.so":  string(program),
		"/d/libmips.so.1":   string(machine8),
		"/d/libevil.so.1":   lib(t, "../../pwn/escaped", "1"),
		"/d/lib\nname.so":   good,
		"/d/libdir.so.d/x":  "a folder, which is no surprise",
		"/d/libx.so.1":      good,
		"/d/notalib.so":     good,
		"/d/libx.txt":       good,
	}
	got := Build(v, []string{"/d", "/missing", "relative", "/d/libx.so.1", "/d/../d", "/a\nb"})
	if want := []string{"libx.so.1 /d/libx.so.1"}; !slices.Equal(paths(got.Cache), want) {
		t.Errorf("entries %q, want %q", paths(got.Cache), want)
	}
	reasons := map[string]error{}
	for _, s := range got.Skipped {
		reasons[s.Path] = s.Err
	}
	for p, want := range map[string]error{
		"/d/libempty.so.1": elf.ErrNotELF, "/d/libshort.so.1": elf.ErrNotELF, "/d/libscript.so": elf.ErrNotELF,
		"/d/libfifo.so.1": ErrNotLibrary, "/d/libtofifo.so.1": ErrNotLibrary, "/d/libdangling.so": fs.ErrNotExist,
		"/d/libprogram.so": ErrNotLibrary, "/d/libstatic.so": ErrNotLibrary, "/d/libmips.so.1": ErrNotLibrary, "/d/libevil.so.1": elf.ErrSONAME,
		"/d/lib\nname.so": elf.ErrSONAME, "/missing": fs.ErrNotExist,
	} {
		if !errors.Is(reasons[p], want) {
			t.Errorf("%q was skipped for %v, want %v", p, reasons[p], want)
		}
		delete(reasons, p)
	}
	for _, p := range []string{"/d/libloop.so.1", "relative", "/d/libx.so.1", "/d/../d", "/a\nb"} {
		if reasons[p] == nil {
			t.Errorf("%q was not reported", p)
		}
		delete(reasons, p)
	}
	if len(reasons) > 0 {
		t.Errorf("reported too: %v", reasons)
	}
}

func TestA10AFileWhereTheLinkBelongsIsKept(t *testing.T) {
	v := files{"/d/libx.so.1": "not a library", "/d/libx.so.1.5": lib(t, "libx.so.1", "1.5")}
	got := Build(v, []string{"/d"})
	if len(got.Links) != 0 {
		t.Errorf("links over a file: %v", got.Links)
	}
	if !slices.ContainsFunc(got.Skipped, func(s Skip) bool { return s.Path == "/d/libx.so.1" && errors.Is(s.Err, ErrInTheWay) }) {
		t.Errorf("skipped %v, want ErrInTheWay for /d/libx.so.1", got.Skipped)
	}
}

// many is a folder of n links to one library.
type many struct {
	files
	names []string
}

func (m many) ReadDir(p string) ([]string, error) {
	if p == "/d" {
		return m.names, nil
	}
	return m.files.ReadDir(p)
}

func (m many) Lstat(p string) (Info, error) {
	if strings.HasPrefix(p, "/d/libm") {
		return m.files.Lstat("/d/lib.so.1")
	}
	return m.files.Lstat(p)
}

func (m many) ReadFile(string) ([]byte, error) { return m.files.ReadFile("/d/lib.so.1") }

func TestB42AtMostTwentyThousandFilesAreRead(t *testing.T) {
	m := many{files: files{"/d/lib.so.1": lib(t, "", "1"), "/e/libe.so": lib(t, "libe.so", "1")}}
	for i := range 2*MaxFiles + 5 {
		m.names = append(m.names, fmt.Sprintf("libm%06d.so", i))
	}
	got := Build(m, []string{"/d", "/e"})
	if len(got.Cache.Entries) != MaxFiles {
		t.Errorf("%d entries, want %d", len(got.Cache.Entries), MaxFiles)
	}
	if len(got.Skipped) != 2 || !errors.Is(got.Skipped[0].Err, ErrLimit) {
		t.Errorf("skipped %v, want the limit, for each folder", got.Skipped)
	}
}

func TestB42ReportsAreBoundedToo(t *testing.T) {
	m := many{files: files{"/d/lib.so.1": "no ELF"}}
	for i := range MaxSkips + 50 {
		m.names = append(m.names, fmt.Sprintf("libm%06d.so", i))
	}
	if got := Build(m, []string{"/d"}); len(got.Skipped) != MaxSkips || got.SkipsOmitted != 50 {
		t.Errorf("%d skipped and %d omitted, want %d and 50", len(got.Skipped), got.SkipsOmitted, MaxSkips)
	}
}

func TestIsLibraryName(t *testing.T) {
	for name, want := range map[string]bool{
		"libc.so.6": true, "ld-linux-x86-64.so.2": true, "libfoo.so": true, "libfoo-1.2.so": true, "libfoo.so.debug": true,
		"foo.so": false, "libfoo.a": false, "libc.so.6-gdb.py": false, "libc.so.6.dpkg-new": false, "libc.so.6.dpkg-tmp": false,
		"libc.so.6;5f3a01bc": false, "libc.so.6.#prelink#": false, "": false,
	} {
		if IsLibraryName(name) != want {
			t.Errorf("IsLibraryName(%q) = %v", name, !want)
		}
	}
}

func TestBuildOfManyLibrariesResolvesOneNameEach(t *testing.T) {
	v := files{}
	for i := range 50 {
		so := fmt.Sprintf("lib%d.so.1", i)
		v["/usr/lib/"+so] = "-> " + so + ".0"
		v["/usr/lib/"+so+".0"] = lib(t, so, "0")
	}
	got := Build(v, []string{"/usr/lib"})
	if len(got.Cache.Entries) != 50 || len(got.Links) != 0 || len(got.Skipped) != 0 {
		t.Errorf("%d entries, links %v, skipped %v", len(got.Cache.Entries), got.Links, got.Skipped)
	}
}
