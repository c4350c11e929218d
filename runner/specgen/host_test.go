package specgen

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
)

func TestMain(m *testing.M) {
	registerPlain()
	mntns.Init()
	code := m.Run()
	if common != nil {
		_ = common.Close() // the children end with us in any case
	}
	os.Exit(code)
}

// common is the generator of all tests that do not look at one.
var common *Generator

func shared(t testing.TB) *Generator {
	t.Helper()
	able(t)
	if common == nil {
		common = New(Options{})
	}
	return common
}

// profile returns a shipped host.
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

var machine = sync.OnceValue(mntns.Able)

// able skips where this machine allows no fake root directory, and says what to
// allow.
func able(t testing.TB) {
	t.Helper()
	if err := machine(); err != nil {
		e, _ := errors.AsType[*mntns.Error](err)
		t.Skipf("%v (to allow it: %s)", err, e.Hint)
	}
}

// generator has children of its own.
func generator(t testing.TB, opts Options) *Generator {
	t.Helper()
	able(t)
	g := New(opts)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func generate(t testing.TB, g *Generator, r Request) *nvidia.Result {
	t.Helper()
	res, err := g.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// names returns the device names of a Spec, in its order.
func names(r *nvidia.Result) string {
	var out []string
	for _, d := range r.Spec.Devices {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

// paths returns the paths of a device's nodes; of the common ones for "".
func paths(r *nvidia.Result, device string) string {
	var out []string
	nodes := r.Spec.ContainerEdits.DeviceNodes
	for _, d := range r.Spec.Devices {
		if d.Name == device {
			nodes = d.ContainerEdits.DeviceNodes
		}
	}
	for _, n := range nodes {
		out = append(out, n.Path)
	}
	return strings.Join(out, " ")
}

func warned(r *nvidia.Result, text string) bool {
	for _, w := range r.Warnings {
		if strings.Contains(string(w.Reason)+" "+w.String(), text) {
			return true
		}
	}
	return false
}
