package nvmllib_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/nvmllib/internal/names"
	"gpurig/fakehw/profiles"
)

// Every function that go-nvml's header declares is in the library, under every
// version; nothing else is.
func TestTheLibraryHasEveryNameOfTheHeader(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	if err != nil {
		t.Skipf("the go command finds no go-nvml: %v", err)
	}
	header, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "nvml.h"))
	if err != nil {
		t.Fatal(err)
	}
	want := names.Declared(header)
	if len(want) < 400 || !slices.Contains(want, "nvmlInit") || !slices.Contains(want, "nvmlDeviceGetPciInfo_v2") {
		t.Fatalf("the header declares %d names: %v", len(want), want)
	}
	want = slices.AppendSeq(want, maps.Keys(nvmllib.Symbols))
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
	for _, n := range want {
		if !slices.Contains(got, n) {
			t.Errorf("%s is missing: go generate writes it", n)
		}
	}
	for _, n := range got {
		if !slices.Contains(want, n) {
			t.Errorf("%s is no function of NVML", n)
		}
	}
	if soname, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(soname, []string{nvmllib.SONAME}) {
		t.Errorf("SONAME %v, %v", soname, err)
	}
}

func TestACProgramListsTheDevices(t *testing.T) {
	lib := library(t)
	program := filepath.Join(t.TempDir(), "list")
	if out, err := exec.Command("cc", "-o", program, "testdata/list.c", lib, "-Wl,-rpath,"+filepath.Dir(lib)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := profile(t, "a100-mig-2g-3g")
	g := m.NVIDIAGPUs()
	onHost(t, nvmllib.State(m))
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"driver " + m.Driver.Version + ", ",
		"no table: 6, a table: 0 of 512, handle: 0 1, processes: 0 0, another place: 3, no handle: 2, no way to itself: 3\n",
		"a short buffer: 7\n", "temperature: 0, fans: Not Supported, no handle: 2, null: 2\n",
		"0 " + g[0].Name + ", 0 " + g[0].UUID + "\n",
		"\n  0 " + g[0].Name + " MIG " + g[0].MIG.Instances[0].Compute[0].Profile + ", 0 " + g[0].MIG.Instances[0].Compute[0].UUID + "\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	t.Setenv(nvmllib.StateEnv, filepath.Join(t.TempDir(), "none"))
	if out, _ := exec.Command(program).CombinedOutput(); string(out) != "init: Driver Not Loaded\n" {
		t.Errorf("without a state: %s", out)
	}
}

// What is no state, or not all of one, is refused, with its line on stderr.
func TestABadStateIsNoDriver(t *testing.T) {
	lib := library(t)
	good := string(nvmllib.State(profile(t, "a100-mig-2g-3g")))
	for _, tc := range []struct{ name, text string }{
		{"empty", ""}, {"another version", strings.Replace(good, "nvml 1", "nvml 2", 1)},
		{"cut within a line", good[:len(good)/2]}, {"without its end", strings.TrimSuffix(good, "end\n")},
		{"more after the end", good + "gpu 8\n"}, {"an unknown key", strings.Replace(good, "\nminor", "\nmajor", 1)},
		{"no number", strings.Replace(good, "\nminor 0", "\nminor x", 1)}, {"a negative number", strings.Replace(good, "\nminor 0", "\nminor -1", 1)},
		{"a GPU out of order", strings.Replace(good, "\ngpu 0", "\ngpu 1", 1)}, {"a number too large", strings.Replace(good, "\nminor 0", "\nminor 4294967296", 1)},
		{"a part of nothing", "gpurig-nvml 1\nplace 0 1\nend\n"}, {"a text too long", strings.Replace(good, "\nname ", "\nname "+strings.Repeat("x", 200), 1)},
		{"too many instances", strings.Replace(good, "\nend", strings.Repeat("\ngi 1 2 3 4", 20)+"\nend", 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.text == good {
				t.Fatal("the text was not changed")
			}
			onHost(t, []byte(tc.text))
			if r := nvml.New(nvml.WithLibraryPath(lib)).Init(); r != nvml.ERROR_UNKNOWN {
				t.Errorf("Init() = %d, want %d", r, nvml.ERROR_UNKNOWN)
			}
		})
	}
}

// A program that runs sees the host change: an instance that goes takes its
// handle with it, one that stays keeps it, a half-written file changes nothing.
func TestTheHostChangesUnderARunningProgram(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	m := profile(t, "a100-mig-2g-3g")
	file := onHost(t, nvmllib.State(m))
	if r := lib.Init(); r != nvml.SUCCESS {
		t.Fatal(r)
	}
	defer lib.Shutdown()
	gpu, _ := lib.DeviceGetHandleByIndex(0)
	first, _ := gpu.GetMigDeviceHandleByIndex(0)
	second, r := gpu.GetMigDeviceHandleByIndex(1)
	if r != nvml.SUCCESS {
		t.Fatal(r)
	}

	text := string(nvmllib.State(m))
	replace(t, file, []byte(text[:len(text)/2]))
	if _, r := first.GetUUID(); r != nvml.SUCCESS {
		t.Errorf("a half-written file: %d", r)
	}
	fewer, err := fakehw.WithMIG(m, 0, []string{"2g.10gb"}, false)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, file, nvmllib.State(fewer))
	if mode, _, r := gpu.GetMigMode(); r != nvml.SUCCESS || mode != 1 {
		t.Errorf("the GPU after its instances changed: %d, %d", mode, r)
	}
	if _, r := second.GetUUID(); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("a MIG device that is gone: %d", r)
	}
	none := m
	none.GPUs = nil
	replace(t, file, nvmllib.State(none))
	if _, r := gpu.GetUUID(); r != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("a GPU that is gone: %d", r)
	}
	replace(t, file, nvmllib.State(m))
	if id, r := second.GetUUID(); r != nvml.SUCCESS || !strings.HasPrefix(id, "MIG-") {
		t.Errorf("a MIG device that is back: %q, %d", id, r)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, r := gpu.GetUUID(); r != nvml.SUCCESS {
		t.Errorf("a state file that was removed: %d", r)
	}
}

// Threads that ask while the host changes get one host or the other.
func TestThreadsMayAskWhileTheHostChanges(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	states := [][]byte{nvmllib.State(profile(t, "dgx-a100")), nvmllib.State(profile(t, "t4-server"))}
	file := onHost(t, states[0])
	if r := lib.Init(); r != nvml.SUCCESS {
		t.Fatal(r)
	}
	defer lib.Shutdown()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				d, r := lib.DeviceGetHandleByIndex(0)
				if r != nvml.SUCCESS {
					t.Errorf("DeviceGetHandleByIndex(0) = %d", r)
					return
				}
				if name, r := d.GetName(); r != nvml.ERROR_GPU_IS_LOST && (r != nvml.SUCCESS || !strings.HasPrefix(name, "NVIDIA A100") && name != "Tesla T4") {
					t.Errorf("GetName() = %q, %d", name, r)
				}
			}
		})
	}
	for i := range 60 {
		replace(t, file, states[i%2])
	}
	all.Wait()
}

// Equal hosts have equal states, and different hosts different ones.
func TestStateIsAFunctionOfTheHost(t *testing.T) {
	seen := map[string]string{}
	for _, name := range profiles.Names() {
		m := profile(t, name)
		s := nvmllib.State(m)
		if !bytes.Equal(s, nvmllib.State(m)) {
			t.Errorf("%s: two states", name)
		}
		if other, ok := seen[string(s)]; ok && len(m.NVIDIAGPUs()) > 0 {
			t.Errorf("%s and %s have one state", name, other)
		}
		seen[string(s)] = name
	}
}

func TestBuildSaysThatThereIsNoCompiler(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	_, err := nvmllib.Build(t.Context(), t.TempDir())
	b, ok := errors.AsType[*nvmllib.BuildError](err)
	if !ok || !errors.Is(err, nvmllib.ErrNoCompiler) || b.Hint == "" {
		t.Errorf("Build() = %v", err)
	}
	t.Setenv("CC", "false")
	if _, err := nvmllib.Build(t.Context(), t.TempDir()); err == nil || errors.Is(err, nvmllib.ErrNoCompiler) {
		t.Errorf("a compiler that fails: %v", err)
	}
}

func TestBuildKeepsWhatItMade(t *testing.T) {
	library(t)
	dir := t.TempDir()
	first, err := nvmllib.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := nvmllib.Build(t.Context(), dir)
	if err != nil || again != first {
		t.Fatalf("Build() = %q, %v; want %q", again, err, first)
	}
	if after, err := os.Stat(again); err != nil || !os.SameFile(before, after) {
		t.Errorf("the library was made again")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(first), ".build-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
