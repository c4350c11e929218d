package runner

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

// A Stock is what a machine has before anything runs on it.
type Stock struct {
	GPUs []string // each GPU, a line: "0000:65:00.0 Tesla T4, driver nvidia, NVML 0, /dev/nvidia0"
	// Degraded is what is lost or broken of what the machine has, a line each. Scenarios
	// do not find it: they take the GPUs that are left.
	Degraded []string
}

// Stock compares the functions on the bus with what the driver, NVML and /dev have of
// them.
func (h *Hardware) Stock() (Stock, error) {
	m, err := h.Host.Model()
	if err != nil {
		return Stock{}, err
	}
	var s Stock
	bad := func(format string, args ...any) { s.Degraded = append(s.Degraded, fmt.Sprintf(format, args...)) }
	if h.Problem != "" {
		bad("%s", h.Problem)
	}
	for _, g := range m.GPUs {
		name, driver := g.Platform, "nvidia"
		if g.PCI != nil {
			name, driver = g.PCI.BDF.String(), g.PCI.Driver
			if !slices.Contains([]uint16{pci.NVIDIA, pci.AMD, pci.Intel}, g.PCI.ID.Vendor) {
				continue // a board's console
			}
		}
		line := []string{strings.TrimSpace(name + " " + g.Name)}
		if driver == "" {
			bad("%s: no driver has it", name)
		} else {
			line = append(line, "driver "+driver)
		}
		if g.Problem != "" {
			bad("%s: %s", name, g.Problem)
		}
		if g.Index >= 0 {
			line = append(line, fmt.Sprintf("NVML %d", g.Index))
		} else if driver == "nvidia" && g.PCI != nil && h.Problem == "" {
			bad("%s: NVIDIA's driver has it, and NVML does not name it: it is lost or does not answer", name)
		}
		for _, node := range nodesOf(g) {
			line = append(line, node)
			if !slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Path == node }) {
				bad("%s: it has no node %s", name, node)
			}
		}
		s.GPUs = append(s.GPUs, strings.Join(line, ", "))
	}
	for _, p := range m.Problems {
		if p.What != host.Library { // which Problem has
			bad("%s: %s", p.What, p.Text)
		}
	}
	return s, nil
}

// nodesOf are the device nodes that a GPU's numbers stand for.
func nodesOf(g host.GPU) []string {
	var out []string
	for _, n := range []struct {
		format string
		number int
	}{{"/dev/nvidia%d", g.Minor}, {"/dev/dri/card%d", g.Card}, {"/dev/dri/renderD%d", g.Render}} {
		if n.number >= 0 && !(g.PCI == nil && n.number == g.Minor) {
			out = append(out, fmt.Sprintf(n.format, n.number))
		}
	}
	return out
}
