package runner_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"gpurig/core/passthrough"
	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/vfio"
	"gpurig/fakehw/live"
	"gpurig/fakehw/nvmlfake"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// A badTarget makes virtual machines that do something wrong.
type badTarget struct {
	*sim.Sim
	name  string                                       // empty: the simulation's
	plan  func(p *vfio.Plan)                           // before it is carried out
	seen  func(o *observe.Observation)                 // by the monitor
	host  func(h *observe.Host)                        // as it is looked at
	stop  func(m target.VM, ctx context.Context) error // in place of Stop
	start func(m target.VM, ctx context.Context) error // before Start
}

func (b *badTarget) Name() string { return cmp.Or(b.name, b.Sim.Name()) }

func (b *badTarget) VM(ctx context.Context, c target.Config) (target.VM, error) {
	m, err := b.Sim.VM(ctx, c)
	return &badMachine{m, b}, err
}

type badMachine struct {
	target.VM
	b *badTarget
}

func (m *badMachine) Give(p vfio.Plan) {
	p.Devices, p.Writes, p.Undo = slices.Clone(p.Devices), slices.Clone(p.Writes), slices.Clone(p.Undo)
	if m.b.plan != nil {
		m.b.plan(&p)
	}
	m.VM.Give(p)
}

func (m *badMachine) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	if m.b.start != nil {
		return m.b.start(m.VM, ctx)
	}
	return m.VM.Start(ctx, h, p)
}

func (m *badMachine) Observe(ctx context.Context, r observe.Request) (observe.Observation, error) {
	o, err := m.VM.Observe(ctx, r)
	if m.b.seen != nil {
		m.b.seen(&o)
	}
	return o, err
}

func (m *badMachine) LookAtHost(ctx context.Context, h target.Host) (observe.Host, error) {
	o, err := m.VM.LookAtHost(ctx, h)
	if m.b.host != nil && err == nil {
		m.b.host(&o)
	}
	return o, err
}

func (m *badMachine) Stop(ctx context.Context) error {
	if m.b.stop != nil {
		return m.b.stop(m.VM, ctx)
	}
	return m.VM.Stop(ctx)
}

const machineScenario = `
host: workstation
containers: {vm1: {vm: true, devices: {gpu0: {pci: "0000:0a:00.0"}}}}
steps:
  - start: vm1
    expect:
      vm1:
        only-nodes: [/dev/vfio/vfio, /dev/vfio/14]
        plan: {devices: ["0000:0a:00.0", "0000:0a:00.1"], ports: {"0000:0a:00.1": "0.1"}, writes: ["*/unbind", "*/drivers_probe"], lines: ["-device vfio-pci,*"]}
        host: {functions: {"0000:0a:00.1": {driver: vfio-pci}}}
  - stop: vm1
expect: {vm1: {running: false, host: {unchanged: true}}}
`

// without takes the audio function out of a plan.
func without(p *vfio.Plan) {
	const audio = "0000:0a:00.1"
	p.Devices = p.Devices[:1]
	gone := func(w vfio.Write) bool { return strings.Contains(w.Path+w.Text, audio) }
	p.Writes, p.Undo = slices.DeleteFunc(p.Writes, gone), slices.DeleteFunc(p.Undo, gone)
}

// What a target does wrong with virtual machines is found, and where.
func TestWhatIsWrongWithAVirtualMachine(t *testing.T) {
	for _, tc := range []struct {
		name          string
		bad           badTarget
		station, what string // empty: nothing is wrong
		got           string
	}{
		{name: "nothing"},
		{"the companion stays with the host", badTarget{plan: without}, "mounts", "refusal", "0000:0a:00.1"},
		{"a node is not opened", badTarget{seen: func(o *observe.Observation) { o.Nodes[0].Open = observe.Denied }}, "inside", "/dev/vfio/14", "denied"},
		{"a node is missing", badTarget{seen: func(o *observe.Observation) { o.Nodes = o.Nodes[1:] }}, "inside", "/dev/vfio/14", "/dev/vfio/vfio"},
		{"the monitor has the driver's node", badTarget{seen: func(o *observe.Observation) {
			o.Nodes = append(o.Nodes, observe.Node{Path: "/dev/nvidia0", Type: "c", Open: observe.Allowed})
		}}, "inside", "/dev/nvidia0", "node"},
		{"the driver has a function still", badTarget{host: func(h *observe.Host) { h.Function(audio).Driver = "snd_hda_intel" }}, "host", "0000:0a:00.1", "snd_hda_intel"},
		{"nothing is returned", badTarget{stop: func(m target.VM, ctx context.Context) error { return m.Crash(ctx) }}, "host", "host functions 0000:0a:00.0", "vfio-pci"},
		{"the machine does not start", badTarget{start: func(target.VM, context.Context) error {
			return vfio.ReasonHostChanged
		}}, "mounts", "refusal", string(vfio.ReasonHostChanged)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var err error
			if tc.bad.Sim, err = sim.New(nil); err != nil {
				t.Fatal(err)
			}
			r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{&tc.bad}, Specs: &fakeSpecs{}, Hosts: runner.Profiles{}}, parse(t, machineScenario))
			if err != nil {
				t.Fatal(err)
			}
			x := r.Results[0]
			if tc.station == "" {
				if x.Verdict != reports.Pass {
					t.Errorf("%+v", x)
				}
				return
			}
			found := slices.ContainsFunc(x.Findings, func(f reports.Finding) bool {
				return f.Station == tc.station && f.What == tc.what && strings.Contains(f.Got, tc.got)
			})
			if x.Verdict != reports.Fail || !found {
				t.Errorf("%s: %s %+v; want %s %q with %q", x.Verdict, x.Reason, x.Findings, tc.station, tc.what, tc.got)
			}
		})
	}
}

var audio = pci.BDF{Bus: 0x0a, Function: 1}

// Two targets that leave the host in two states are told apart.
func TestHostsAreComparedAcrossTargets(t *testing.T) {
	honest, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	liar := &badTarget{Sim: honest, host: func(h *observe.Host) { h.Function(pci.BDF{Bus: 3}).Override = "vfio-pci" }}
	r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{honest, liar}, Specs: &fakeSpecs{}, Hosts: runner.Profiles{}}, parse(t, machineScenario))
	if err != nil {
		t.Fatal(err)
	}
	across := slices.ContainsFunc(r.Results[1].Findings, func(f reports.Finding) bool {
		return f.Station == "across" && f.What == "host functions 0000:03:00.0" && strings.Contains(f.Got, "override vfio-pci")
	})
	if r.Results[0].Verdict != reports.Pass || !across {
		t.Errorf("%+v", r.Results)
	}
}

// A target that makes no virtual machines judges what is refused, and skips the rest.
func TestATargetWithoutVirtualMachines(t *testing.T) {
	refused := "host: t4-server\ncontainers: {vm1: {vm: true, devices: {gpu0: {pci: \"0000:3b:00.0\"}}}}\nexpect: {vm1: {refused: no-iommu}}"
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}}}, append(parse(t, machineScenario), parse(t, refused)...))
	if r.Totals.Pass != 1 || r.Totals.Skip != 1 || !slices.ContainsFunc(r.Results, func(x reports.Result) bool { return strings.Contains(x.Reason, "it makes no virtual machines") }) {
		t.Errorf("%+v", r.Results)
	}
}

// On the machine at hand a GPU that somebody has open is refused, and the machine is
// as it was afterwards; who comes next finds it so.
func TestVirtualMachinesOnHardware(t *testing.T) {
	const text = "host: workstation\nneeds: {gpus: \">=1\", vendor: nvidia, vfio: true}\ncontainers: {vm1: {vm: true, devices: {gpu0: {pci: <first.pci>}}}}\n"
	running := parse(t, text+"expect: {vm1: {running: true, host: {functions: {<first.pci>: {driver: vfio-pci}}}}}")
	busy := parse(t, text+"expect: {vm1: {refused: device-in-use, says: [Xorg], host: {unchanged: true}}}")
	h := hardware(t, "workstation")
	m, err := h.Host.Model()
	if err != nil {
		t.Fatal(err)
	}
	l, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := map[string][]string{}
	h.Sys, h.Open = l.Sys(), func() map[string][]string { return open }
	h.Reopen = func() *passthrough.Host {
		return passthrough.New(l.Sys(), nvmlfake.New(l.Model(), nvmlfake.Options{}), passthrough.HostOptions{})
	}
	h.Host = h.Reopen()
	v := &badTarget{name: "vfio"}
	if v.Sim, err = sim.New(nil); err != nil {
		t.Fatal(err)
	}
	was := l.Tree().Sum()
	for _, tc := range []struct {
		name     string
		variants []scenarios.Variant
		open     map[string][]string
	}{
		{"first", running, nil},
		{"somebody has it", busy, map[string][]string{"/dev/nvidia0": {"Xorg (pid 812)"}}},
		{"again", running, nil},
	} {
		open = tc.open
		r, err := runner.Run(t.Context(), runner.Options{Hardware: h, Targets: []target.Target{v}}, runner.OnHardware(tc.variants))
		if err != nil {
			t.Fatal(err)
		}
		if r.Totals.Pass != 1 || l.Tree().Sum() != was {
			t.Errorf("%s: %+v; the machine is as it was: %v", tc.name, r.Results, l.Tree().Sum() == was)
		}
	}
	m.Drivers = nil
	if l, err = live.New(m, live.Options{}); err != nil {
		t.Fatal(err)
	}
	h.Host = h.Reopen()
	r, err := runner.Run(t.Context(), runner.Options{Hardware: h, Targets: []target.Target{v}}, runner.OnHardware(running))
	if err != nil || r.Totals.Skip != 1 || !strings.Contains(r.Results[0].Reason, "needs vfio-pci") {
		t.Errorf("without vfio-pci: %+v, %v", r.Results, err)
	}
}

// A write that would wait for who has the device open would do so for good.
func TestAWriteThatWouldWaitIsBroken(t *testing.T) {
	s, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{s}, Specs: &fakeSpecs{}, Hosts: runner.Profiles{}}, parse(t, `
host: workstation
containers: {vm1: {vm: true, devices: {gpu0: {pci: "0000:0a:00.0"}}}}
steps: [{start: vm1}, {change: {write: {/sys/bus/pci/drivers/vfio-pci/unbind: "0000:0a:00.0"}}}]
expect: {vm1: {running: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Totals.Broken != 1 || !strings.Contains(r.Results[0].Reason, "vfio-pci/unbind: the write waits until nobody has the device open") {
		t.Errorf("results: %+v; want broken by a write that waits", r.Results)
	}
}
