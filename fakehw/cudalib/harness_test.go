package cudalib_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/clib"
	"gpurig/fakehw/cudalib"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
)

// sanitize returns the flags for SANITIZE=1 in the environment: all tests then run the
// library and their programs with the compiler's checks of addresses, leaks and
// undefined behaviour. What they find ends the program, and so fails the test that
// looked at its output.
func sanitize() []string {
	if os.Getenv("SANITIZE") == "" {
		return nil
	}
	return []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"}
}

// library builds the C library, or skips where there is no compiler.
func library(t testing.TB) string {
	t.Helper()
	lib, err := cudalib.BuildChecked(t.Context(), sanitize()...)
	if errors.Is(err, clib.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil && len(sanitize()) > 0 && strings.Contains(err.Error(), "san") {
		t.Skipf("the compiler's checks are not installed: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

var programs struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// program compiles testdata/c/NAME.c against the library, once per run.
func program(t testing.TB, name string) string {
	t.Helper()
	lib := library(t)
	programs.Lock()
	defer programs.Unlock()
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "cudalib-test-*")
		if err != nil {
			t.Fatal(err)
		}
		programs.dir, programs.paths = dir, map[string]string{}
	}
	if path := programs.paths[name]; path != "" {
		return path
	}
	path := filepath.Join(programs.dir, name)
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	args := append([]string{"-std=gnu11", "-O1", "-Wall", "-Wextra", "-pthread", "-o", path, filepath.Join("testdata", "c", name+".c"), lib, "-lm"}, sanitize()...)
	out, err := exec.Command(cc, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("compile %s: %v\n%s", name, err, out)
	}
	programs.paths[name] = path
	return path
}

// A machine is where a program runs: a host's state, and files for its nodes.
type machine struct {
	dir string
	env []string
}

func model(t testing.TB, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// onHost makes a machine of a profile with all of its nodes.
func onHost(t testing.TB, profile string) machine {
	t.Helper()
	m := model(t, profile)
	var nodes []string
	for _, n := range m.Nodes {
		nodes = append(nodes, n.Path)
	}
	return withNodes(t, nvmllib.State(m), nodes...)
}

func withNodes(t testing.TB, state []byte, nodes ...string) machine {
	t.Helper()
	x := machine{dir: t.TempDir()}
	x.write(t, "nvml.state", state)
	for _, n := range nodes {
		x.write(t, "root"+n, nil)
	}
	x.env = []string{nvmllib.StateEnv + "=" + x.path("nvml.state"), cudalib.RootEnv + "=" + x.path("root"), cudalib.LogEnv + "=" + x.path("log")}
	return x
}

func (x machine) path(name string) string { return filepath.Join(x.dir, name) }

func (x machine) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(x.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	// At once: a program may be reading it.
	next := x.path(name) + ".next"
	if err := errors.Join(os.WriteFile(next, data, 0o644), os.Rename(next, x.path(name))); err != nil {
		t.Fatal(err)
	}
}

// remove takes a node away.
func (x machine) remove(t testing.TB, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		if err := os.Remove(x.path("root" + n)); err != nil {
			t.Fatal(err)
		}
	}
}

// log returns what the library wrote there.
func (x machine) log(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(x.path("log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func (x machine) command(t testing.TB, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, name), args...)
	cmd.Env = append(append([]string{"LD_LIBRARY_PATH=" + filepath.Dir(library(t))}, x.env...), env...)
	return cmd
}

// run returns a program's output; a program that fails says so in its last line.
func (x machine) run(t testing.TB, env []string, name string, args ...string) string {
	t.Helper()
	out, err := x.command(t, env, name, args...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	text := string(out)
	if err != nil {
		text += fmt.Sprintf("(%v)\n", err)
	}
	return text
}

func TestVectorsAreAddedOnTheCPU(t *testing.T) {
	x := onHost(t, "dgx-a100")
	got := x.run(t, nil, "vectoradd", "testdata/ptx/add.ptx", "100000")
	if want := "8 devices, NVIDIA A100-SXM4-40GB: 100000 sums\n"; got != want {
		t.Errorf("vectoradd: %q; want %q\n%s", got, want, x.log(t))
	}
}

// The twin: with one word of the kernel changed, the program notices.
func TestAWrongSumIsSeen(t *testing.T) {
	x := onHost(t, "dgx-a100")
	text, err := os.ReadFile("testdata/ptx/add.ptx")
	if err != nil {
		t.Fatal(err)
	}
	x.write(t, "sub.ptx", []byte(strings.Replace(string(text), "add.f32", "sub.f32", 1)))
	if got := x.run(t, nil, "vectoradd", x.path("sub.ptx"), "100"); !strings.Contains(got, "want") {
		t.Errorf("vectoradd with a subtraction: %q", got)
	}
}
