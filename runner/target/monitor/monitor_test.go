package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/core/vfio"
	"gpurig/fakehw/live"
	"gpurig/fakehw/profiles"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/monitor"
)

// A rig is a host and a machine on it, which wants one GPU.
type rig struct {
	t   *testing.T
	l   *live.Host
	sys *sys
	m   *monitor.VM
}

// A sys is a live host whose nodes open as a test says.
type sys struct {
	live.Sys
	refuses map[string]syscall.Errno // by path
	opened  int
}

func (s *sys) Open(path string) (io.Closer, error) {
	if no := s.refuses[path]; no != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: no}
	}
	s.opened++
	return s.Sys.Open(path)
}

func start(t *testing.T) *rig {
	t.Helper()
	r := on(t, "workstation")
	r.give(request.Request{Type: request.Physical, PCI: &geforce, VM: true})
	return r
}

func on(t *testing.T, profile string) *rig {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	l, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, l: l, sys: &sys{Sys: l.Sys(), refuses: map[string]syscall.Errno{}}}
	r.m = monitor.New("test", "vm1", func(context.Context, target.Host) (target.Sys, error) { return r.sys, nil })
	return r
}

var geforce = pci.BDF{Bus: 0x0a}

// give makes a plan for the host as it is now.
func (r *rig) give(req request.Request) {
	r.t.Helper()
	p, err := vfio.Make(r.sys, r.l.Model(), []vfio.Ask{{Name: "gpu0", Request: req}}, vfio.Options{Instance: "vm1"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.m.Give(p)
}

func (r *rig) look() observe.Host {
	r.t.Helper()
	h, err := r.m.LookAtHost(r.t.Context(), target.Host{})
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// unchanged fails if the host is not as it was.
func (r *rig) unchanged(was observe.Host, when string) {
	r.t.Helper()
	if diffs, _ := observe.CompareHosts(was, r.look()); len(diffs) > 0 {
		r.t.Errorf("%s the host differs: %v", when, diffs)
	}
}

func TestLife(t *testing.T) {
	r, ctx := start(t), t.Context()
	was := r.look()
	for range 2 {
		r.give(request.Request{Type: request.Physical, PCI: &geforce, VM: true})
		if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
			t.Fatal(err)
		}
		o, err := r.m.Observe(ctx, observe.Request{})
		if err != nil || len(o.Nodes) != 2 || o.Nodes[0].Path != "/dev/vfio/14" || o.Nodes[0].Open != observe.Allowed || o.Nodes[1].Path != "/dev/vfio/vfio" {
			t.Errorf("nodes %+v, %v", o.Nodes, err)
		}
		if args := strings.Split(r.m.Configuration(), "\n"); !slices.ContainsFunc(args, func(l string) bool { return strings.HasPrefix(l, "-device vfio-pci,host=0000:0a:00.0,") }) {
			t.Errorf("configuration %q", args)
		}
		if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); !errors.Is(err, target.ErrBroken) {
			t.Errorf("a start of what runs: %v", err)
		}
		if err := r.m.Stop(ctx); err != nil || r.m.Running() || r.m.Configuration() != "" {
			t.Errorf("stop: %v; running %v", err, r.m.Running())
		}
		r.unchanged(was, "after a stop")
	}
	if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.m.Remove(ctx), r.m.Remove(ctx)); err != nil {
		t.Error(err)
	}
	r.unchanged(was, "after it was removed")
	for what, err := range map[string]error{"start": r.m.Start(ctx, target.Host{}, plan.Plan{}), "stop": r.m.Stop(ctx), "crash": r.m.Crash(ctx)} {
		if !errors.Is(err, target.ErrBroken) {
			t.Errorf("%s of what was removed: %v", what, err)
		}
	}
}

// A node that does not open is seen as such; one that cannot be opened at all ends the
// start, and the host is as before.
func TestNodesThatDoNotOpen(t *testing.T) {
	for no, want := range map[syscall.Errno]observe.Access{syscall.EPERM: observe.Denied, syscall.EACCES: observe.NoMode, syscall.EBUSY: ""} {
		r := start(t)
		was := r.look()
		r.sys.refuses["/dev/vfio/14"] = no
		err := r.m.Start(t.Context(), target.Host{}, plan.Plan{})
		if want == "" {
			if !errors.Is(err, no) || r.m.Running() {
				t.Errorf("%v: start: %v, running %v", no, err, r.m.Running())
			}
			r.unchanged(was, "after a start that failed")
			continue
		}
		o, oerr := r.m.Observe(t.Context(), observe.Request{})
		if err != nil || oerr != nil || o.Nodes[0].Open != want {
			t.Errorf("%v: nodes %+v, %v %v; want open %s", no, o.Nodes, err, oerr, want)
		}
	}
}

// What a machine has is not taken away while it runs.
func TestNodesAreHeld(t *testing.T) {
	r, ctx := on(t, "vgpu-a40"), t.Context()
	if err := r.sys.Write("/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", []byte("4")); err != nil {
		t.Fatal(err)
	}
	r.give(request.Request{Type: request.MDev, MDev: "nvidia-560", VM: true})
	if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	mdevs := r.look().MDevs
	if len(mdevs) != 1 {
		t.Fatalf("mediated devices: %+v", mdevs)
	}
	remove := func() error { return r.sys.Write("/sys/bus/mdev/devices/"+mdevs[0].UUID+"/remove", []byte("1")) }
	if err := remove(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removed while the machine runs: %v; want EBUSY", err)
	}
	if err := errors.Join(r.m.Crash(ctx), remove()); err != nil {
		t.Errorf("removed after it ended: %v", err)
	}
}

// A machine that ended with its host finds the host as its boot left it.
func TestStartAfterTheHostWentDown(t *testing.T) {
	r, ctx := start(t), t.Context()
	if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Crash(ctx); err != nil {
		t.Fatal(err)
	}
	next := start(t)
	was := next.look()
	r.sys = next.sys
	if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	next.unchanged(was, "after the second life")
}

// A machine that ended with its host takes nothing from one that came up before it.
func TestWhatTheHostLostIsAnothers(t *testing.T) {
	r, ctx := start(t), t.Context()
	if err := errors.Join(r.m.Start(ctx, target.Host{}, plan.Plan{}), r.m.Crash(ctx)); err != nil {
		t.Fatal(err)
	}
	next := start(t)
	if err := next.m.Start(ctx, target.Host{}, plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	was := next.look()
	r.sys = next.sys
	if err := r.m.Start(ctx, target.Host{}, plan.Plan{}); !errors.Is(err, vfio.ReasonHostChanged) {
		t.Errorf("Start = %v; want %s", err, vfio.ReasonHostChanged)
	}
	next.unchanged(was, "after another wanted it")
}

// The refusals of package vfio come through.
func TestAStartThatTheHostRefuses(t *testing.T) {
	r := start(t)
	m, was := r.m, r.look()
	if no := r.l.Write("/sys/bus/pci/drivers/nvidia/unbind", []byte("0000:0a:00.0")); no != 0 {
		t.Fatal(no)
	}
	err := m.Start(t.Context(), target.Host{}, plan.Plan{})
	if !errors.Is(err, vfio.ReasonHostChanged) || len(refuse.As(err)) == 0 || m.Running() {
		t.Errorf("start: %v; want %s", err, vfio.ReasonHostChanged)
	}
	if no := r.l.Write("/sys/bus/pci/drivers/nvidia/bind", []byte("0000:0a:00.0")); no != 0 {
		t.Fatal(no)
	}
	r.unchanged(was, "after the refusal")
}

func TestNothingIsPlugged(t *testing.T) {
	r := start(t)
	for _, how := range []func(context.Context, target.Host, plan.Plan) error{r.m.Plug, r.m.Unplug} {
		var cannot *target.CannotError
		if err := how(t.Context(), target.Host{}, plan.Plan{}); !errors.As(err, &cannot) {
			t.Errorf("%v; want a *target.CannotError", err)
		}
	}
	if _, err := monitor.On(t.Context(), target.Host{}); !errors.Is(err, target.ErrBroken) {
		t.Errorf("a host that cannot be written to: %v", err)
	}
}

// Of machines that start at once on a host with room for one less, one is refused and
// the others have a vGPU each (mdev-create-race, sriov-alloc): the manager's lock from
// Make to Carry has the refusal come before anything is written.
func TestStartsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name, host, attribute string
		req                   request.Request
		machines, most        int
		refusal               refuse.Reason
	}{
		{"vGPUs", "vgpu-a40", "4", request.Request{Type: request.MDev, MDev: "nvidia-566", VM: true}, 3, 2, vfio.ReasonNoInstances},
		{"virtual functions", "vgpu-l40s", "2", request.Request{Type: request.SRIOV, VM: true}, 5, 4, vfio.ReasonNoFreeVF},
	} {
		r, ctx := on(t, tc.host), t.Context()
		for _, g := range r.l.Model().GPUs {
			if err := r.sys.Sys.Write("/sys/bus/pci/devices/"+g.PCI.BDF.String()+"/sriov_numvfs", []byte(tc.attribute)); err != nil {
				t.Fatal(err)
			}
		}
		was := r.look()
		var lock sync.Mutex
		var wg sync.WaitGroup
		machines, errs := make([]*monitor.VM, tc.machines), make([]error, tc.machines)
		for i := range machines {
			name := fmt.Sprint("vm", i)
			machines[i] = monitor.New("test", name, func(context.Context, target.Host) (target.Sys, error) { return r.l.Sys(), nil })
			wg.Go(func() {
				lock.Lock()
				defer lock.Unlock()
				p, err := vfio.Make(r.l.Sys(), r.l.Model(), []vfio.Ask{{Name: "gpu0", Request: tc.req}}, vfio.Options{Instance: name})
				if err == nil {
					machines[i].Give(p)
					err = machines[i].Start(ctx, target.Host{}, plan.Plan{})
				}
				errs[i] = err
			})
		}
		wg.Wait()
		have, ran := map[string]bool{}, 0
		for i, m := range machines {
			if !m.Running() {
				if !errors.Is(errs[i], tc.refusal) {
					t.Errorf("%s: %v; want %s", tc.name, errs[i], tc.refusal)
				}
				continue
			}
			ran++
			o, err := m.Observe(ctx, observe.Request{})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range o.Nodes {
				if vfio.KindOf(n.Path) != vfio.ControlNode && have[n.Path] {
					t.Errorf("%s: %s is given twice", tc.name, n.Path)
				}
				have[n.Path] = true
			}
		}
		if ran != tc.most {
			t.Errorf("%s: %d run; want %d: %v", tc.name, ran, tc.most, errs)
		}
		for _, m := range machines {
			if err := m.Remove(ctx); err != nil {
				t.Error(err)
			}
		}
		r.unchanged(was, tc.name+": after all are removed")
	}
}
