package elfgen

import (
	"bytes"
	goelf "debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gpurig/core/elf"
)

var cuda = Object{Arch: "x86_64", Name: "libcuda.so", Version: "550.163.01", SONAME: "libcuda.so.1", Needed: "libc.so.6", Functions: "cuInit=100 cuNothing cuLarge=65535"}

// native is cuda for this machine, or the test is skipped.
func native(t *testing.T) Object {
	t.Helper()
	o := cuda
	switch runtime.GOARCH {
	case "amd64":
	case "arm64":
		o.Arch = "aarch64"
	default:
		t.Skipf("no ELF of ours runs on %s", runtime.GOARCH)
	}
	return o
}

func TestLibraryReadsAsWhatItIs(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"x86_64": elf.X8664, "aarch64": elf.AArch64, "i386": elf.I386, "x32": elf.X8664} {
		class := elf.Class64
		if arch == "i386" || arch == "x32" {
			class = elf.Class32
		}
		o := cuda
		o.Arch = arch
		b, err := Library(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 2048 {
			t.Errorf("%s: %d bytes", arch, len(b))
		}
		f, err := elf.Parse(b)
		if want := (elf.File{Class: class, Machine: machine, Type: elf.SharedObject, Dynamic: true, SONAME: "libcuda.so.1", NeedsLibc: machine == elf.I386}); err != nil || f != want {
			t.Errorf("%s: %+v, %v; want %+v", arch, f, err, want)
		}
		// Go's reader goes by sections, as NVIDIA's toolkit does.
		g, err := goelf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		sonames, err := g.DynString(goelf.DT_SONAME)
		needed, err2 := g.DynString(goelf.DT_NEEDED)
		if err := errors.Join(err, err2); err != nil || fmt.Sprint(sonames, needed) != "[libcuda.so.1] [libc.so.6]" {
			t.Errorf("%s: SONAME %v, needed %v, %v", arch, sonames, needed, err)
		}
		symbols, err := g.DynamicSymbols()
		if err != nil || len(symbols) != 4 || symbols[0].Name != "gpurig_version" || symbols[1].Name != "cuInit" {
			t.Errorf("%s: symbols %v, %v", arch, symbols, err)
		}
	}
}

func TestContentsDifferAndRepeat(t *testing.T) {
	seen := map[string]Object{}
	for _, arch := range []string{"x86_64", "aarch64"} {
		for _, name := range []string{"libcuda.so", "libnvidia-ml.so"} {
			for _, version := range []string{"550.163.01", "550.78", "580.105.08"} {
				o := Object{Arch: arch, Name: name, Version: version, SONAME: name + ".1"}
				for kind, make := range map[string]func(Object) ([]byte, error){"library": Library, "program": Program} {
					a, err := make(o)
					b, err2 := make(o)
					if err := errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
						t.Fatalf("%+v made twice differs, %v", o, err)
					}
					if other, ok := seen[string(a)]; ok {
						t.Errorf("%s %+v and %+v are the same", kind, o, other)
					}
					seen[string(a)] = o
					if !bytes.Contains(a, []byte(name+" "+version)) {
						t.Errorf("%s %+v does not say what it is", kind, o)
					}
				}
			}
		}
	}
}

func write(t *testing.T, name string, data []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheKernelRunsAProgram(t *testing.T) {
	b, err := Program(native(t))
	out, err := exec.Command(write(t, "prog", b, err)).CombinedOutput()
	if err != nil || string(out) != "libcuda.so 550.163.01\n" {
		t.Errorf("it prints %q, %v", out, err)
	}
}

func TestTheLoaderLoadsALibrary(t *testing.T) {
	b, err := Library(native(t))
	lib := write(t, "libcuda.so.1", b, err)
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program to load it into")
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"LD_PRELOAD=" + lib}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("with the library preloaded: %v\n%s", err, out)
	}
}

// opener opens a library as programs do, and asks it for what it has.
const opener = `#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	void *h = dlopen(argv[1], RTLD_NOW);
	if (!h) { puts(dlerror()); return 1; }
	const char *version = dlsym(h, "gpurig_version");
	if (!version) { puts(dlerror()); return 2; }
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(h, "cuInit");
	int (*nothing)(void) = (int (*)(void))dlsym(h, "cuNothing");
	int (*large)(void) = (int (*)(void))dlsym(h, "cuLarge");
	if (!init || !nothing || !large || dlsym(h, "cuMissing")) { puts("symbols"); return 3; }
	printf("%s %d %d %d\n", version, init(0), nothing(), large());
	return dlclose(h);
}
`

func TestAProgramOpensALibraryAndCallsIt(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler here")
	}
	b, err := Library(native(t))
	lib := write(t, "libcuda.so.1", b, err)
	source := write(t, "open.c", []byte(opener), nil)
	program := filepath.Join(filepath.Dir(source), "open")
	if out, err := exec.Command(cc, "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		t.Skipf("the C compiler does not work here: %v\n%s", err, out)
	}
	out, err := exec.Command(program, lib).CombinedOutput()
	if want := "libcuda.so 550.163.01 100 0 65535\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v; want %q", out, err, want)
	}
}

func TestErrors(t *testing.T) {
	for _, make := range []func(Object) ([]byte, error){Library, Program} {
		if _, err := make(Object{Arch: "riscv64"}); !errors.Is(err, ErrArch) || !strings.Contains(err.Error(), "riscv64") {
			t.Errorf("for riscv64: %v", err)
		}
	}
	for _, narrow := range []string{"i386", "x32"} {
		if _, err := Program(Object{Arch: narrow}); !errors.Is(err, ErrArch) {
			t.Errorf("a program for %s: %v", narrow, err)
		}
	}
	for _, list := range []string{"cuInit=x", "cuInit=70000", "cuInit=-1", "=1"} {
		if _, err := Library(Object{Arch: "x86_64", Functions: list}); !errors.Is(err, ErrFunction) {
			t.Errorf("functions %q: %v", list, err)
		}
	}
}

func BenchmarkLibrary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Library(cuda); err != nil {
			b.Fatal(err)
		}
	}
}
