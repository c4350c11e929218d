// Package monitor does what a virtual machine monitor and its manager do with GPUs:
// it carries the plan out on the host, opens the nodes of the devices,
// keeps them open while the machine runs, and returns the devices. No
// machine boots; its devices are derived from what the monitor has open, and what it
// would see from the plan and the host's files.
//
// Targets sim and vfio provide the host, in memory or not; target qemu boots the machine.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/hookspec"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/vfio"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// At finds the host that a monitor runs on.
type At func(ctx context.Context, h target.Host) (target.Sys, error)

// A VM is one virtual machine as its monitor has it.
type VM struct {
	name, target string
	at           At

	given   vfio.Plan
	on      target.Sys // where had is carried out; nil: nowhere
	had     vfio.Plan  // by the last start, until it is returned
	open    []io.Closer
	nodes   []observe.Node
	args    []string
	sees    []observe.GuestFunction
	running bool
	removed bool
}

var _ target.VM = (*VM)(nil)

// New returns a machine of the target of that name, which does not run.
func New(targetName, name string, at At) *VM {
	return &VM{name: name, target: targetName, at: at}
}

// Give is part of target.Machine.
func (m *VM) Give(p vfio.Plan) { m.given = p }

// Start is part of target.Container. The refusals are those of package vfio.
func (m *VM) Start(ctx context.Context, h target.Host, _ plan.Plan) error {
	if err := target.Startable(m.running, m.removed); err != nil {
		return err
	}
	on, err := m.at(ctx, h)
	if err != nil {
		return err
	}
	if err := vfio.Carry(ctx, on, m.given); err != nil {
		return err
	}
	m.on, m.had = on, m.given
	if err := m.take(on); err != nil {
		return errors.Join(err, m.back(ctx))
	}
	m.running = true
	return nil
}

// take opens the nodes of all devices, each once, and writes down what the monitor
// is told.
func (m *VM) take(on target.Sys) error {
	var all []vfio.Nodes
	var paths []string
	for _, d := range m.had.Devices {
		n, err := d.Nodes(on)
		if err != nil {
			return err
		}
		all = append(all, n)
		paths = append(paths, n.Control, n.Device)
	}
	m.args = vfio.Arguments(m.had, all)
	var err error
	if m.sees, err = expected(on, m.had.Devices); err != nil {
		return err
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		info, err := on.Lstat(p)
		if err != nil {
			return err
		}
		n := observe.Node{Path: p, Type: info.DeviceType(), Num: info.Num, Mode: info.Mode.Perm(), UID: info.UID, GID: info.GID}
		f, err := on.Open(p)
		switch {
		case err == nil:
			n.Open = observe.Allowed
			m.open = append(m.open, f)
		case errors.Is(err, syscall.EPERM):
			n.Open = observe.Denied
		case errors.Is(err, syscall.EACCES):
			n.Open = observe.NoMode
		default:
			return err
		}
		m.nodes = append(m.nodes, n)
	}
	return nil
}

// expected is what a machine with the devices sees below its root ports: functions as
// the host has them, with the prefetchable windows of 64 bits from 4 GiB on. What a
// vGPU looks like only its driver knows, so that there is none of it.
func expected(on host.Root, devices []vfio.Device) ([]observe.GuestFunction, error) {
	var out []observe.GuestFunction
	for _, d := range devices {
		if d.Type != "" {
			continue
		}
		f, err := observe.ReadFunction(on, d.BDF)
		if err != nil {
			return nil, err
		}
		f.Port, f.BDF = d.Port, pci.BDF{Function: uint8(d.Slot)}
		for i := range f.Windows {
			if f.Windows[i].Start = 1; f.Windows[i].Prefetchable64() {
				f.Windows[i].Start = observe.Above4G
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// Given is what the running machine's QEMU is told, and the devices that are in it, in
// order; on is the host that they are of.
func (m *VM) Given() (arguments []string, devices []vfio.Device, on host.Root) {
	return m.args, m.had.Devices, m.on
}

// back closes what is open and returns what the host has of it still.
func (m *VM) back(ctx context.Context) error {
	err := m.close()
	if m.on != nil {
		err = errors.Join(err, vfio.Return(ctx, m.on, m.had))
		m.on, m.had = nil, vfio.Plan{}
	}
	return err
}

func (m *VM) close() error {
	var errs []error
	for _, f := range m.open {
		errs = append(errs, f.Close())
	}
	m.open, m.nodes, m.args, m.sees, m.running = nil, nil, nil, nil, false
	return errors.Join(errs...)
}

// Plug is part of target.Container.
func (m *VM) Plug(context.Context, target.Host, plan.Plan) error {
	return &target.CannotError{Target: m.target, Why: "nothing is plugged into a running virtual machine", Hint: "start it with the device"}
}

// Unplug is part of target.Container.
func (m *VM) Unplug(context.Context, target.Host, plan.Plan) error {
	return &target.CannotError{Target: m.target, Why: "nothing is pulled out of a running virtual machine", Hint: "stop it"}
}

// Observe is part of target.Container: the nodes are those that the monitor has.
func (m *VM) Observe(context.Context, observe.Request) (observe.Observation, error) {
	if !m.running {
		return observe.Observation{}, target.ErrNotRunning
	}
	return observe.Observation{Nodes: slices.Clone(m.nodes), Functions: slices.Clone(m.sees)}, nil
}

// LookAtHost is part of target.Machine.
func (m *VM) LookAtHost(ctx context.Context, h target.Host) (observe.Host, error) {
	on, err := m.at(ctx, h)
	if err != nil {
		return observe.Host{}, err
	}
	if l, ok := on.(interface{ LookHost() (observe.Host, error) }); ok {
		return l.LookHost() // a shorter way
	}
	return observe.LookHost(on)
}

// Stop is part of target.Container.
func (m *VM) Stop(ctx context.Context) error {
	if !m.running {
		return target.ErrNotRunning
	}
	return m.back(ctx)
}

// Crash is part of target.Container: the host goes down with the machine, and nothing
// is returned.
func (m *VM) Crash(context.Context) error {
	if !m.running {
		return target.ErrNotRunning
	}
	m.on, m.had = nil, vfio.Plan{}
	return m.close()
}

// Warnings is part of target.Container: no hook runs.
func (m *VM) Warnings() ([]hookspec.Warning, error) { return nil, nil }

// Running is part of target.Container.
func (m *VM) Running() bool { return m.running }

// Configuration is part of target.Container: QEMU's arguments, each flag on a line
// with its value.
func (m *VM) Configuration() string {
	var b strings.Builder
	for pair := range slices.Chunk(m.args, 2) {
		fmt.Fprintln(&b, strings.Join(pair, " "))
	}
	return b.String()
}

// Remove is part of target.Container.
func (m *VM) Remove(ctx context.Context) error {
	m.removed = true
	return m.back(ctx)
}

// On is the At of a host that is written to as it stands.
func On(_ context.Context, h target.Host) (target.Sys, error) {
	if h.Sys == nil {
		return nil, fmt.Errorf("the host cannot be written to: %w", target.ErrBroken)
	}
	return h.Sys, nil
}
