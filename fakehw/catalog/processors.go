package catalog

import (
	"fmt"
	"math/big"
)

// A Processors says how the processors of a machine are numbered: Linux counts the first
// threads of all cores, node by node, and then the second ones.
type Processors struct {
	Nodes, Cores, Threads int // NUMA nodes; cores of each; threads of a core
	Sockets               int
	// Paired is how many cores of a desktop's have two threads that are counted one
	// behind the other; the others have one. Cores and Threads are then CPUs and 1.
	Paired int
	Model  CPU
}

// A CPU is one model of processor, as /proc/cpuinfo has it.
type CPU struct {
	Name                    string // empty: 64-bit Arm
	Family, Model, Stepping int    // of Arm: part, variant, revision
	MHz                     int    // the base clock
	L1d, L1i, L2, L3        int    // KiB; L3 for Share cores
	Share                   int
}

// Models, with family, model and caches from their data sheets.
var (
	epyc7742  = CPU{"AMD EPYC 7742 64-Core Processor", 23, 49, 0, 2250, 32, 32, 512, 16384, 4}
	epyc9654  = CPU{"AMD EPYC 9654 96-Core Processor", 25, 17, 1, 2400, 32, 32, 1024, 32768, 8}
	xeon8480c = CPU{"Intel(R) Xeon(R) Platinum 8480C", 6, 143, 8, 2000, 48, 32, 2048, 107520, 56}
	xeon8570  = CPU{"INTEL(R) XEON(R) PLATINUM 8570", 6, 207, 2, 2100, 48, 32, 2048, 307200, 56}
	xeon6338  = CPU{"Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 6, 106, 6, 2000, 48, 32, 1280, 49152, 32}
	core14900 = CPU{"Intel(R) Core(TM) i9-14900K", 6, 183, 1, 3200, 48, 32, 2048, 36864, 24}
	grace     = CPU{"", 0xd4f, 0, 0, 3400, 64, 64, 1024, 116736, 72}
	a78ae     = CPU{"", 0xd42, 0, 1, 2201, 64, 64, 256, 2048, 4}
	v3ae      = CPU{"", 0xd83, 0, 1, 2601, 64, 64, 1024, 16384, 14}
)

// Vendor is how an x86 processor calls its maker; empty: Arm.
func (c CPU) Vendor() string {
	switch {
	case c.Name == "":
		return ""
	case c.Name[0] == 'A':
		return "AuthenticAMD"
	}
	return "GenuineIntel"
}

// Count is the number of CPUs that Linux counts.
func (p Processors) Count() int { return p.Nodes * p.Cores * p.Threads }

// Core says which core of the machine a CPU is a thread of, and which CPUs are.
func (p Processors) Core(cpu int) (core int, threads []int) {
	switch {
	case cpu < 2*p.Paired:
		return cpu / 2, []int{cpu &^ 1, cpu | 1}
	case p.Paired > 0:
		return cpu - p.Paired, []int{cpu}
	}
	all := p.Nodes * p.Cores
	for t := range p.Threads {
		threads = append(threads, t*all+cpu%all)
	}
	return cpu % all, threads
}

// Node is the NUMA node of a CPU.
func (p Processors) Node(cpu int) int { return cpu / p.Cores % p.Nodes }

// Socket is the package that a CPU is in.
func (p Processors) Socket(cpu int) int { return p.Node(cpu) * p.Sockets / p.Nodes }

// List returns the CPUs of a node as sysfs lists them: "0-55,112-167".
func (p Processors) List(node int) string {
	out := fmt.Sprintf("%d-%d", node*p.Cores, (node+1)*p.Cores-1)
	for t := 1; t < p.Threads; t++ {
		first := (t*p.Nodes + node) * p.Cores
		out += fmt.Sprintf(",%d-%d", first, first+p.Cores-1)
	}
	return out
}

// Mask is List as bits.
func (p Processors) Mask(node int) *big.Int {
	out := new(big.Int)
	for t := range p.Threads {
		for c := range p.Cores {
			out.SetBit(out, (t*p.Nodes+node)*p.Cores+c, 1)
		}
	}
	return out
}
