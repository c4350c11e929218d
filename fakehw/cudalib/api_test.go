package cudalib_test

import (
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurig/fakehw/cudalib"
)

func TestCodesOfTheAPI(t *testing.T) {
	x := onHost(t, "dgx-a100")
	if got := x.run(t, nil, "api", "testdata/ptx/add.ptx"); got != "" {
		t.Errorf("%s\n%s", got, x.log(t))
	}
}

func TestThreadsAndForks(t *testing.T) {
	x := onHost(t, "dgx-a100")
	if got := x.run(t, nil, "threads", "testdata/ptx/add.ptx"); got != "done\n" {
		t.Errorf("%s\n%s", got, x.log(t))
	}
}

// A library whose file is named after another driver than the one that is loaded.
func TestTheLibrarysVersionIsThatOfItsFile(t *testing.T) {
	x := onHost(t, "dgx-a100") // driver 535.113.01
	data, err := os.ReadFile(library(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ version, proc, want string }{
		{"535.113.01", "", "CUDA 12020"},
		{"575.57.08", "", "cuInit: 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
		{"575.57.08", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Sat May 24 06:49:28 UTC 2025\n", "CUDA 12020"},
		{"535.113.01", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n", "cuInit: 803"},
		{"1", "", "CUDA 12020"},
	} {
		if tc.proc != "" {
			x.write(t, "root/proc/driver/nvidia/version", []byte(tc.proc))
		}
		dir := filepath.Join("lib", tc.version, strings.Fields(tc.proc + " none")[0])
		x.write(t, filepath.Join(dir, "libcuda.so."+tc.version), data)
		if link := x.path(filepath.Join(dir, "libcuda.so.1")); tc.version != "1" {
			if err := os.Symlink("libcuda.so."+tc.version, link); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(program(t, "devices"))
		cmd.Env = append([]string{"LD_LIBRARY_PATH=" + x.path(dir)}, x.env...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), tc.want) {
			t.Errorf("library %s, module %q: %s, %v; want %s\n%s", tc.version, tc.proc, out, err, tc.want, x.log(t))
		}
		os.RemoveAll(x.path("root/proc"))
	}
}

// Every name of the real library that is known is there, and nothing else.
func TestTheLibraryHasEveryName(t *testing.T) {
	f, err := elf.Open(library(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			got = append(got, s.Name)
		}
	}
	slices.Sort(got)
	want := slices.Sorted(maps.Keys(cudalib.Symbols))
	for _, n := range want {
		if _, ok := slices.BinarySearch(got, n); !ok {
			t.Errorf("%s is missing: go generate writes it", n)
		}
	}
	for _, n := range got {
		if !slices.Contains(want, n) {
			t.Errorf("%s is no name of the real library, or missing in symbols.txt", n)
		}
	}
	if name, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(name, []string{"libcuda.so.1"}) {
		t.Errorf("SONAME %v, %v", name, err)
	}
}

// stubs.c is what the generator writes.
func TestTheStubsAreGenerated(t *testing.T) {
	out := filepath.Join(t.TempDir(), "stubs.c")
	if msg, err := exec.Command("go", "run", "./internal/gen", "symbols.txt", "csrc", out).CombinedOutput(); err != nil {
		t.Skipf("the go command does not run: %v: %s", err, msg)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("csrc/stubs.c")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("csrc/stubs.c is old: go generate writes it")
	}
}
