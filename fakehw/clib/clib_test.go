package clib_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"gpurig/fakehw/cachedir"
	"gpurig/fakehw/clib"
)

func library(files map[string]string) clib.Library {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys["csrc/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return clib.Library{SONAME: "libone.so.1", Sources: []clib.Sources{{FS: fsys, Pattern: "csrc/*"}}}
}

func build(t *testing.T, l clib.Library, dir string) string {
	t.Helper()
	lib, err := l.Build(t.Context(), dir)
	if errors.Is(err, clib.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func TestALibraryIsCompiledOncePerContent(t *testing.T) {
	dir := t.TempDir()
	one := library(map[string]string{"a.c": "#include \"a.h\"\nint a(void) { return A; }\n", "a.h": "#define A 1\nint a(void);\n"})
	first := build(t, one, dir)
	if filepath.Base(first) != "libone.so.1" || !strings.HasPrefix(first, dir) {
		t.Errorf("Build = %s; want libone.so.1 below %s", first, dir)
	}
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	again := build(t, one, dir)
	after, err := os.Stat(again)
	if err != nil || again != first || !os.SameFile(before, after) {
		t.Errorf("the second Build made %s anew: %v", again, err)
	}
	other := one
	other.Flags = []string{"-DB"}
	if build(t, other, dir) == first {
		t.Error("other flags have the same file")
	}
	changed := library(map[string]string{"a.c": "#include \"a.h\"\nint a(void) { return A; }\n", "a.h": "#define A 2\nint a(void);\n"})
	if build(t, changed, dir) == first {
		t.Error("another header has the same file")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", ".build-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is packaged with a program is taken where its sources are the program's, and then
// needs no compiler.
func TestWhatIsPackagedNeedsNoCompiler(t *testing.T) {
	one := library(map[string]string{"a.c": "int a(void);\nint a(void) { return 1; }\n"})
	other := library(map[string]string{"a.c": "int a(void);\nint a(void) { return 2; }\n"})
	lib := build(t, one, t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	packaged := filepath.Join(filepath.Dir(self), filepath.Base(filepath.Dir(lib)))
	if err := os.CopyFS(packaged, os.DirFS(filepath.Dir(lib))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(packaged) })
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	asked := build(t, one, "")
	t.Setenv("CC", "cc")
	if compiled := build(t, one, ""); asked != filepath.Join(packaged, "libone.so.1") || compiled == asked {
		t.Errorf("Build = %s, and %s where CC names a compiler; want what is in %s only without", asked, compiled, packaged)
	}
	t.Setenv("CC", "")
	t.Setenv("PATH", "")
	if got, err := one.Build(t.Context(), ""); err != nil || got != asked {
		t.Errorf("without a compiler: %s, %v; want %s", got, err, asked)
	}
	if got, err := other.Build(t.Context(), ""); !errors.Is(err, clib.ErrNoCompiler) {
		t.Errorf("other sources: %s, %v; want an ErrNoCompiler", got, err)
	}
}

func TestWhatCannotBeBuiltSaysWhy(t *testing.T) {
	bad := library(map[string]string{"a.c": "int a(void) { return nothing; }\n"})
	two := library(map[string]string{"a.c": "int a;\n"})
	two.Sources = append(two.Sources, two.Sources[0])
	none := library(map[string]string{"a.c": "int a;\n"})
	none.Sources[0].Pattern = "src/*"
	for _, tc := range []struct {
		name, want string
		lib        clib.Library
	}{
		{"an error in C", "nothing", bad},
		{"one name twice", `two source files are named "a.c"`, two},
		{"a pattern without files", `no source file matches "src/*"`, none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.lib.Build(t.Context(), t.TempDir())
			if errors.Is(err, clib.ErrNoCompiler) {
				t.Skip(err)
			}
			if b, ok := errors.AsType[*clib.BuildError](err); !ok || b.SONAME != "libone.so.1" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Build: %v; want a BuildError with %q", err, tc.want)
			}
		})
	}
}

func TestAProgramRuns(t *testing.T) {
	fsys := fstest.MapFS{"csrc/main.c": {Data: []byte("int main(void) { return CODE; }\n")}}
	p := clib.Program{Name: "three", Sources: []clib.Sources{{FS: fsys, Pattern: "csrc/*"}}, Flags: []string{"-DCODE=3"}}
	build := func() string {
		path, err := p.Build(t.Context(), t.TempDir())
		if errors.Is(err, clib.ErrNoCompiler) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, want := range []int{3, 4} {
		cmd := exec.CommandContext(t.Context(), build())
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", cmd.Path, err, want)
		}
		t.Setenv("CFLAGS", "-UCODE -DCODE=4") // the next one heeds the environment
	}
}

// Who has no home, or one that cannot be written to, has a folder beside other
// temporary files, closed to others.
func TestWithoutAHome(t *testing.T) {
	one := library(map[string]string{"a.c": "int a(void);\nint a(void) { return 1; }\n"})
	one.Cache = "one"
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, home := range map[string]string{"none": "", "below a file": file} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", "")
			t.Setenv("HOME", home)
			t.Setenv("TMPDIR", tmp)
			lib := build(t, one, "")
			if !strings.HasPrefix(lib, tmp+"/") || build(t, one, "") != lib {
				t.Errorf("Build = %s; want it below %s", lib, tmp)
			}
			dirs, err := filepath.Glob(tmp + "/gpurig-cache-*")
			if err != nil || len(dirs) != 1 {
				t.Fatalf("folders: %q, %v", dirs, err)
			}
			if err := os.Chmod(dirs[0], 0o777); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 { // who then takes cachedir.System, which is no place for tests
				lib, err = one.Build(t.Context(), dirs[0])
			} else {
				lib, err = one.Build(t.Context(), "")
			}
			if !errors.Is(err, cachedir.ErrUntrusted) && !strings.Contains(fmt.Sprint(err), dirs[0]+" can be written by others") {
				t.Errorf("in a folder that is open to all: %s, %v", lib, err)
			}
		})
	}
}

// A43: root with the home that sudo -E has kept takes nothing that its owner put there,
// nor what another user could have written where root itself keeps things.
func TestNothingOfAnotherUserIsTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	one := library(map[string]string{"a.c": "int a(void);\nint a(void) { return 1; }\n"})
	one.Cache = "one"
	const alice = 4242
	for name, spoil := range map[string]func(home, lib string) error{
		"the home is another's": func(home, _ string) error {
			return filepath.WalkDir(home, func(p string, _ os.DirEntry, err error) error { return errors.Join(err, os.Lchown(p, alice, alice)) })
		},
		"the file is another's":   func(_, lib string) error { return os.Chown(lib, alice, alice) },
		"the file is open to all": func(_, lib string) error { return os.Chmod(lib, 0o777) },
		"its folder is another's": func(_, lib string) error { return os.Chown(filepath.Dir(lib), alice, alice) },
		"the home is open to all": func(home, _ string) error { return os.Chmod(home, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", "")
			t.Setenv("HOME", home)
			t.Setenv("TMPDIR", t.TempDir())
			lib := build(t, one, "")
			if !strings.HasPrefix(lib, home+"/") {
				t.Fatalf("Build = %s; want it below %s", lib, home)
			}
			if err := errors.Join(os.WriteFile(lib, []byte("planted"), 0o755), spoil(home, lib)); err != nil {
				t.Fatal(err)
			}
			again := build(t, one, "")
			if data, err := os.ReadFile(again); err != nil || string(data) == "planted" {
				t.Errorf("Build took the planted %s: %v", again, err)
			}
		})
	}
}
