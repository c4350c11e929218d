package catalog

import (
	"fmt"
	"math/big"

	"gpurig/core/host"
)

// A Processors says how the processors of a machine are numbered: Linux counts the first
// threads of all cores, node by node, and then the second ones.
type Processors struct {
	Nodes, Cores, Threads int // NUMA nodes; cores of each; threads of a core
}

// machines are those that are built around a board: DGX A100, DGX B200 and GB200 are
// recorded, the others from data sheets.
var machines = map[string]Processors{
	"a100-sxm4-40gb": {8, 16, 2},
	"h100-sxm5-80gb": {2, 56, 2}, "h200-sxm": {2, 56, 2}, "b200": {2, 56, 2}, "b300": {2, 56, 2},
	"gb200": {2, 72, 1}, "gb300": {2, 72, 1}, "gh200-96gb": {2, 72, 1},
	"mi300x": {2, 96, 2}, "mi325x": {2, 96, 2},
}

// ProcessorsOf returns those of the machine that has these GPUs. One that is not known
// has 32 cores a node and one thread a core.
func ProcessorsOf(gpus []host.GPU) Processors {
	for _, g := range gpus {
		if p, ok := OfGPU(g); ok {
			if m, ok := machines[p.Key]; ok {
				return m
			}
		}
	}
	return Processors{0, 32, 1}
}

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
