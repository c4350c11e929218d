package driverctl

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
)

// Apply returns what s is after c, and the driver's answer. It refuses what the
// driver refuses, with the code that the NVML call returns, and s is then what
// it was. The State given is not changed.
//
// SetVFs and MakeNodes are answered NOT_SUPPORTED: they are about more than a
// State has, and the live host answers them before it asks here.
func Apply(s State, c Command, on Conditions) (State, Reply) {
	g, refusal := find(s.Model, c)
	if refusal.Code != nvml.SUCCESS {
		return s, refusal
	}
	a := applying{state: s, gpu: g, cmd: c, on: on}
	a.product, a.known = catalog.OfGPU(g)
	switch c.Verb {
	case SetMIGMode:
		return a.migMode()
	case CreateGI:
		return a.createGI()
	case CreateCI:
		return a.createCI()
	case DestroyGI:
		return a.destroyGI()
	case DestroyCI:
		return a.destroyCI()
	case Reset:
		return a.reset()
	case SetPersistence:
		return a.persistence()
	}
	return s, Refuse(nvml.ERROR_INVALID_ARGUMENT, "unknown verb %q", string(c.Verb))
}

// applying is one command while it is carried out.
type applying struct {
	state   State
	gpu     host.GPU
	product catalog.Product
	known   bool // the catalogue has product
	cmd     Command
	on      Conditions
}

// find returns the GPU that c is about.
func find(m host.Model, c Command) (host.GPU, Reply) {
	switch {
	case c.Verb == SetVFs:
		return host.GPU{}, Refuse(nvml.ERROR_NOT_SUPPORTED, "%s has no virtual functions", c.PF)
	case c.Verb == MakeNodes:
		return host.GPU{}, Refuse(nvml.ERROR_NOT_SUPPORTED, "nodes are not made here")
	case m.Driver == nil:
		return host.GPU{}, Refuse(nvml.ERROR_DRIVER_NOT_LOADED, "the driver is not loaded")
	case m.Userspace != nil && m.Userspace.Version != m.Driver.Version:
		return host.GPU{}, Refuse(nvml.ERROR_LIB_RM_VERSION_MISMATCH, "the libraries are of %s, the driver is %s", m.Userspace.Version, m.Driver.Version)
	}
	for _, g := range m.NVIDIAGPUs() {
		if c.GPU.Index >= 0 && g.Index != c.GPU.Index || c.GPU.Index < 0 && (g.PCI == nil || g.PCI.BDF != c.GPU.BDF) {
			continue
		}
		if g.PCI == nil {
			return host.GPU{}, Refuse(nvml.ERROR_NOT_SUPPORTED, "GPU %s is part of the SoC", c.GPU)
		}
		return g, OK()
	}
	if c.GPU.Index >= 0 {
		return host.GPU{}, Refuse(nvml.ERROR_INVALID_ARGUMENT, "there is no GPU %s", c.GPU)
	}
	return host.GPU{}, Refuse(nvml.ERROR_GPU_IS_LOST, "there is no GPU at %s", c.GPU)
}

func (a *applying) refuse(code nvml.Return, format string, args ...any) (State, Reply) {
	return a.state, Refuse(code, "GPU %d: %s", a.gpu.Index, fmt.Sprintf(format, args...))
}

// root reports whether the caller is the machine's administrator, for whom alone
// modes are and a reset is.
func (a *applying) root() bool { return a.on.Caller.UID == 0 }

// mayConfigure reports whether the caller may make and destroy instances: root,
// and whoever can read the node of the capability mig/config, by its owner,
// group and mode. A caller's further groups are not known here and not counted.
func (a *applying) mayConfigure() bool {
	if a.root() {
		return true
	}
	for _, n := range a.state.Model.Nodes {
		if n.Path == "/dev/nvidia-caps/nvidia-cap1" {
			switch who := a.on.Caller; {
			case n.UID == who.UID:
				return n.Mode&0o400 != 0
			case n.GID == who.GID:
				return n.Mode&0o040 != 0
			}
			return n.Mode&0o004 != 0
		}
	}
	return false
}

func (a *applying) node() string { return fmt.Sprintf("/dev/nvidia%d", a.gpu.Minor) }

// capable reports whether the GPU knows MIG.
func (a *applying) capable() bool { return a.gpu.MIG != nil || a.known && len(a.product.MIG) > 0 }

// migMode sets the mode. On Ampere it needs a reset, which the driver tries at
// once: while somebody uses the GPU the mode stays pending, and the call
// succeeds with an activation status that says why. From Hopper on there is no
// reset (MIG user guide, "Enable MIG Mode"); that a GPU in use refuses there is
// unverified, as is that instances keep the mode from being turned off.
func (a *applying) migMode() (State, Reply) {
	at, now, want := a.gpu.PCI.BDF, a.gpu.MIG != nil, a.cmd.On
	switch {
	case !a.root():
		return a.refuse(nvml.ERROR_NO_PERMISSION, "only root sets the MIG mode")
	case !a.capable():
		return a.refuse(nvml.ERROR_NOT_SUPPORTED, "%s has no MIG", a.gpu.Name)
	case now == want:
		return a.state.withPending(at, false), OK(bit(now), bit(now), 0)
	case now && len(a.gpu.MIG.Instances) > 0:
		return a.refuse(nvml.ERROR_IN_USE, "it has %d GPU instances", len(a.gpu.MIG.Instances))
	}
	if a.on.inUse(a.node()) {
		if !a.product.Persistent {
			return a.refuse(nvml.ERROR_IN_USE, "%s is open", a.node())
		}
		return a.state.withPending(at, true), OK(bit(now), bit(want), int(nvml.ERROR_IN_USE))
	}
	return a.withMode(want, OK(bit(want), bit(want), 0))
}

// withMode is the mode on or off, with no instances and nothing pending.
func (a *applying) withMode(on bool, r Reply) (State, Reply) {
	m, err := fakehw.WithMIG(a.state.Model, a.gpu.Index, nil, !on)
	if err != nil {
		return a.refuse(nvml.ERROR_UNKNOWN, "%v", err)
	}
	s := a.state.withPending(a.gpu.PCI.BDF, false)
	s.Model = m
	return s, r
}

// reset makes a pending mode current; instances do not outlive it.
func (a *applying) reset() (State, Reply) {
	switch {
	case !a.root():
		return a.refuse(nvml.ERROR_NO_PERMISSION, "only root resets a GPU")
	case a.on.inUse(a.node()):
		return a.refuse(nvml.ERROR_IN_USE, "%s is open", a.node())
	case !a.capable():
		return a.state, OK()
	}
	return a.withMode((a.gpu.MIG != nil) != a.state.pending(a.gpu.PCI.BDF), OK())
}

func (a *applying) persistence() (State, Reply) {
	if !a.root() {
		return a.refuse(nvml.ERROR_NO_PERMISSION, "only root sets the persistence mode")
	}
	return a.state.withPersistence(a.gpu.PCI.BDF, a.cmd.On), OK()
}

// instance returns the place of a GPU instance id, -1 if there is none.
func (a *applying) instance() int {
	return slices.IndexFunc(a.gpu.MIG.Instances, func(gi host.GPUInstance) bool { return gi.ID == a.cmd.GI })
}
