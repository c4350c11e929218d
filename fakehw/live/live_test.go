package live_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/live"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// A rig is a live host under test.
type rig struct {
	t testing.TB
	*live.Host
}

func load(t testing.TB, name string) host.Model {
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

// start makes a rig of a profile, with vfio-pci loaded.
func start(t testing.TB, name string) *rig {
	t.Helper()
	m, err := fakehw.WithPCIDriver(load(t, name), "vfio-pci", nil)
	if err != nil {
		t.Fatal(err)
	}
	return startModel(t, m)
}

func startModel(t testing.TB, m host.Model) *rig {
	t.Helper()
	h, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, h}
}

// path spells out a place: "0000:41:00.0/enable" is of a function, "nvidia/bind"
// of a driver.
func (r *rig) path(p string) string {
	bdf, rest, _ := strings.Cut(p, "/")
	switch {
	case strings.HasPrefix(p, "/"):
	case strings.Contains(bdf, ":"):
		p = "/sys/bus/pci/devices/" + bdf + "/" + rest
	default:
		p = "/sys/bus/pci/drivers/" + p
	}
	real, err := host.Resolve(r.Tree(), p)
	if err != nil {
		return p
	}
	return real
}

// echo writes and wants this error number.
func (r *rig) echo(data, p string, want syscall.Errno) {
	r.t.Helper()
	before := ""
	if want != 0 {
		before = r.Tree().Sum()
	}
	if got := r.Write(r.path(p), []byte(data)); got != want {
		r.t.Fatalf("echo %q > %s: %v (%d); want %v (%d)", data, p, got, got, want, want)
	}
	if want != 0 && r.Tree().Sum() != before {
		r.t.Fatalf("echo %q > %s was refused and yet changed the tree", data, p)
	}
}

func (r *rig) cat(p string) string {
	r.t.Helper()
	data, err := r.Tree().ReadFile(r.path(p))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *rig) exists(p string) bool {
	r.t.Helper()
	_, err := r.Tree().Lstat(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	return err == nil
}

// wants checks what is and, with "!" before it, what is not there.
func (r *rig) wants(paths ...string) {
	r.t.Helper()
	for _, p := range paths {
		if gone, no := strings.CutPrefix(p, "!"); r.exists(gone) == no {
			r.t.Errorf("%s is there: %v", gone, no)
		}
	}
}

func (r *rig) driver(bdf string) string {
	m := r.Model()
	for _, f := range m.Functions() {
		if f.BDF.String() == bdf {
			return f.Driver
		}
	}
	return "gone"
}

// consistent wants the tree to be that of the model, as a reader sees it.
func (r *rig) consistent() {
	r.t.Helper()
	m := r.Model()
	var n host.NVML
	if m.Driver != nil {
		n = nvidia.NVML(nvmlfake.New(m, nvmlfake.Options{}))
	}
	got, err := host.Discover(r.Tree(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		r.t.Fatalf("Discover(tree) is not the model (-model +discovered):\n%s", diff)
	}
}

// unlike says where two trees differ.
func unlike(a, b *tree.Tree) string {
	var out strings.Builder
	for i, c := range a.Clone().Update(b.Clone()) {
		if i == 20 {
			return out.String() + "…"
		}
		fmt.Fprintf(&out, "%s %v\n", c.Path, c.Kind)
	}
	return out.String()
}

// instanceNode reports whether n is the capability of a MIG instance, and not
// one of the three fixed ones.
func instanceNode(n device.Node) bool {
	number, is := strings.CutPrefix(n.Path, "/dev/nvidia-caps/nvidia-cap")
	return is && number != "1" && number != "2" && number != "4323"
}
