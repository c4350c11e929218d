package smi_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/smi"
)

// A rig is nvidia-smi beside the NVML of a host.
type rig struct {
	t   testing.TB
	smi string
	env []string
	dir string
}

// newRig makes the rig of a host; it skips where there is no compiler.
func newRig(t testing.TB, m host.Model, opts nvmlfake.Options) *rig {
	t.Helper()
	lib, err := nvmllib.Build(t.Context(), "")
	if errors.Is(err, nvmllib.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	prog, err := smi.Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, smi: prog, dir: t.TempDir()}
	r.env = []string{"LD_LIBRARY_PATH=" + filepath.Dir(lib), "TZ=UTC", nvmllib.StateEnv + "=" + r.state()}
	r.become(m, opts)
	return r
}

func (r *rig) state() string { return filepath.Join(r.dir, "nvml.state") }

// become replaces the host.
func (r *rig) become(m host.Model, opts nvmlfake.Options) {
	r.t.Helper()
	if err := os.WriteFile(r.state()+".new", nvmllib.StateWith(m, opts), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.state()+".new", r.state()); err != nil {
		r.t.Fatal(err)
	}
}

// run runs nvidia-smi and returns what it wrote and its exit code.
func (r *rig) run(args ...string) (string, int) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), r.smi, args...)
	cmd.Env = r.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func profile(t testing.TB, name string) host.Model {
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

func TestListNamesGPUsAndMIGDevices(t *testing.T) {
	m := profile(t, "a100-mig-2g-3g")
	g := m.NVIDIAGPUs()[0]
	out, code := newRig(t, m, nvmlfake.Options{}).run("-L")
	want := "GPU 0: " + g.Name + " (UUID: " + g.UUID + ")\n"
	for _, gi := range g.MIG.Instances {
		want += "  MIG " + gi.Profile + "     Device  " + strconv.Itoa(gi.Compute[0].Index) + ": (UUID: " + gi.Compute[0].UUID + ")\n"
	}
	if code != 0 || out != want {
		t.Errorf("nvidia-smi -L = %d\n%swant\n%s", code, out, want)
	}
}
