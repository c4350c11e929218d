package vfio_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/request"
	"gpurig/core/vfio"
	"gpurig/fakehw"
	"gpurig/fakehw/live"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

// A rig is a host that changes as it is written to.
type rig struct {
	t testing.TB
	*live.Host
	writes   []string          // as a shell has them
	fails    map[int]error     // by number of the write, from 0
	swallows map[int]bool      // writes that are taken and have no effect
	after    func(n int)       // called after each write
	boot     string            // boot_id; empty: there is none
	texts    map[string]string // of files that say something else than the host's
}

func load(t testing.TB, profile string) host.Model {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"vfio-pci", "nvgrace-gpu-vfio-pci"} {
		if m, err = fakehw.WithPCIDriver(m, driver, nil); err != nil {
			t.Fatal(err)
		}
	}
	return isolated(m)
}

// isolated returns m with an IOMMU, on a machine that keeps each board apart.
func isolated(m host.Model) host.Model {
	m.IOMMU = true
	group := 0
	for _, f := range m.Functions() {
		group = max(group, f.IOMMUGroup)
	}
	of := map[pci.BDF]int{}
	for _, f := range m.Functions() {
		board := f.BDF
		board.Function = 0
		if f.IOMMUGroup < 0 && of[board] == 0 {
			group++
			of[board] = group
		}
		if f.IOMMUGroup < 0 {
			f.IOMMUGroup = of[board]
		}
	}
	return m
}

func start(t testing.TB, m host.Model) *rig {
	t.Helper()
	h, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, Host: h}
}

func (r *rig) Lstat(p string) (host.Info, error) {
	r.Locker().Lock()
	defer r.Locker().Unlock()
	return r.Tree().Lstat(p)
}

func (r *rig) Readlink(p string) (string, error) {
	r.Locker().Lock()
	defer r.Locker().Unlock()
	return r.Tree().Readlink(p)
}

func (r *rig) ReadFile(p string) ([]byte, error) {
	if p == "/proc/sys/kernel/random/boot_id" && r.boot != "" {
		return []byte(r.boot + "\n"), nil
	}
	if text, ok := r.texts[p]; ok {
		return []byte(text), nil
	}
	r.Locker().Lock()
	defer r.Locker().Unlock()
	return r.Tree().ReadFile(p)
}

func (r *rig) ReadDir(p string) ([]string, error) {
	r.Locker().Lock()
	defer r.Locker().Unlock()
	return r.Tree().ReadDir(p)
}

// Write is what open(2) and write(2) do.
func (r *rig) Write(p string, data []byte) error {
	n := len(r.writes)
	r.writes = append(r.writes, fmt.Sprintf("echo %s > %s", strings.TrimSuffix(string(data), "\n"), p))
	if r.after != nil {
		defer r.after(n)
	}
	if err := r.fails[n]; err != nil || r.swallows[n] {
		return err
	}
	real, err := host.Resolve(r, p)
	if err != nil {
		return fmt.Errorf("open %s: %w", p, syscall.ENOENT)
	}
	if no := r.Host.Write(real, data); no != 0 {
		return fmt.Errorf("write %s: %w", p, no)
	}
	return nil
}

// echo writes as an administrator does.
func (r *rig) echo(text, p string) {
	r.t.Helper()
	real, err := host.Resolve(r, p)
	if err != nil {
		r.t.Fatal(err)
	}
	if no := r.Host.Write(real, []byte(text+"\n")); no != 0 {
		r.t.Fatalf("echo %s > %s: %v", text, p, no)
	}
}

// discover reads the host as any program does.
func (r *rig) discover() host.Model {
	r.t.Helper()
	m := r.Model()
	var n host.NVML
	if m.Driver != nil {
		n = nvidia.NVML(nvmlfake.New(m, nvmlfake.Options{}))
	}
	got, err := host.Discover(r, n)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// same wants the host to be as it was.
func (r *rig) same(was host.Model, when string) {
	r.t.Helper()
	if diff := cmp.Diff(was, r.discover()); diff != "" {
		r.t.Fatalf("%s the host is not as before (-before +after):\n%s\nwrites:\n%s", when, diff, strings.Join(r.writes, "\n"))
	}
}

// function returns a function as it is now.
func (r *rig) function(bdf string) host.PCIFunction {
	r.t.Helper()
	m := r.Model()
	for _, f := range m.Functions() {
		if f.BDF.String() == bdf {
			return *f
		}
	}
	r.t.Fatalf("no function %s", bdf)
	return host.PCIFunction{}
}

// asks reads "pci=41:00.0" and the like, one for each device, named gpu0, gpu1, …
func asks(t testing.TB, texts ...string) []vfio.Ask {
	t.Helper()
	var out []vfio.Ask
	for i, s := range texts {
		m := map[string]string{}
		for _, f := range strings.Fields(s) {
			k, v, _ := strings.Cut(f, "=")
			m[k] = v
		}
		o, err := request.FromMap(m)
		if err != nil {
			t.Fatal(err)
		}
		req, _, err := request.Parse(o, request.Context{VM: true})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, vfio.Ask{Name: fmt.Sprintf("gpu%d", i), Request: req})
	}
	return out
}

func (r *rig) plan(texts ...string) (vfio.Plan, error) {
	r.t.Helper()
	return vfio.Make(r, r.discover(), asks(r.t, texts...), vfio.Options{Instance: "vm1"})
}

// carry makes a plan and carries it out.
func (r *rig) carry(texts ...string) vfio.Plan {
	r.t.Helper()
	p, err := r.plan(texts...)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := vfio.Carry(context.Background(), r, p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) giveBack(p vfio.Plan) {
	r.t.Helper()
	if err := vfio.Return(context.Background(), r, p); err != nil {
		r.t.Fatal(err)
	}
}
