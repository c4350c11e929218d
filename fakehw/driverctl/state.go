package driverctl

import (
	"slices"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/nvmlfake"
)

// A State is what commands change: the host, and what NVIDIA's driver keeps
// besides. GPUs are named by their address, which nothing here changes.
type State struct {
	Model       host.Model
	PendingMIG  []pci.BDF     // GPUs whose MIG mode changes with their next reset, by address
	Persistence []Persistence // persistence modes that were set, by address; others are as the host started
}

// A Persistence is the persistence mode of one GPU.
type Persistence struct {
	GPU pci.BDF
	On  bool
}

// NVML returns opts with what a State says of the library beyond the model; the
// two make the state file (nvmllib.StateWith).
func (s State) NVML(opts nvmlfake.Options) nvmlfake.Options {
	opts.PendingMIG, opts.Persistence = nil, nil
	for _, g := range s.Model.NVIDIAGPUs() {
		if g.PCI == nil {
			continue
		}
		if s.pending(g.PCI.BDF) {
			opts.PendingMIG = append(opts.PendingMIG, g.Index)
		}
		for _, p := range s.Persistence {
			if p.GPU == g.PCI.BDF {
				if opts.Persistence == nil {
					opts.Persistence = map[int]bool{}
				}
				opts.Persistence[g.Index] = p.On
			}
		}
	}
	return opts
}

func (s State) pending(at pci.BDF) bool { return slices.Contains(s.PendingMIG, at) }

// withPending returns s with another answer to pending; s keeps its own.
func (s State) withPending(at pci.BDF, on bool) State {
	s.PendingMIG = slices.DeleteFunc(slices.Clone(s.PendingMIG), func(o pci.BDF) bool { return o == at })
	if on {
		s.PendingMIG = append(s.PendingMIG, at)
		slices.SortFunc(s.PendingMIG, pci.BDF.Compare)
	}
	if len(s.PendingMIG) == 0 {
		s.PendingMIG = nil
	}
	return s
}

func (s State) withPersistence(at pci.BDF, on bool) State {
	s.Persistence = slices.DeleteFunc(slices.Clone(s.Persistence), func(o Persistence) bool { return o.GPU == at })
	s.Persistence = append(s.Persistence, Persistence{GPU: at, On: on})
	slices.SortFunc(s.Persistence, func(a, b Persistence) int { return a.GPU.Compare(b.GPU) })
	return s
}

// A Caller is who asks: ids as the machine has them, 0 its root.
type Caller struct {
	UID, GID uint32
	PID      int // 0: not known
}

// Conditions are what the driver looks at besides its own state.
type Conditions struct {
	Caller Caller
	// InUse reports whether a process, other than the caller's, holds the node
	// on this path open: "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21". Nil:
	// none is open.
	InUse func(node string) bool
}

func (c Conditions) inUse(node string) bool { return c.InUse != nil && c.InUse(node) }
