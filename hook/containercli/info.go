package containercli

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/legacy"
	"gpurig/core/passthrough"
	"gpurig/core/policy/policyfile"
	"gpurig/core/show"
)

// load has NVIDIA's own program load the driver's modules and make its nodes, as
// far as this host has it and lets it.
func (c *call) load(ctx context.Context) {
	out, err := exec.CommandContext(ctx, "nvidia-modprobe", "-c", "0", "-u").CombinedOutput()
	c.logf("nvidia-modprobe -c 0 -u: %v %s", err, out)
}

// brands are those that NVIDIA's program knows, by what NVML calls them.
var brands = map[nvml.BrandType]string{
	nvml.BRAND_QUADRO: "Quadro", nvml.BRAND_TESLA: "Tesla", nvml.BRAND_NVS: "NVS", nvml.BRAND_GRID: "GRID", nvml.BRAND_GEFORCE: "GeForce",
}

// brand returns a GPU's brand by its UUID; empty: the driver does not tell.
func (c *call) brand(uuid string) string {
	if c.lib.Init() != nvml.SUCCESS {
		return ""
	}
	defer c.lib.Shutdown()
	d, ret := c.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return ""
	}
	b, ret := d.GetBrand()
	if ret != nvml.SUCCESS {
		return ""
	}
	if name := brands[b]; name != "" {
		return name
	}
	return "Unknown"
}

// info prints the driver and its GPUs, in the words that NVIDIA's program uses.
func (c *call) info() error {
	m, err := c.host.Model()
	if err != nil {
		return err
	}
	gpus := m.NVIDIAGPUs()
	if m.Driver == nil || m.Driver.CUDA == "" && len(gpus) == 0 {
		return errNoDriver
	}
	var b strings.Builder
	if c.csv {
		show.Fprintf(&b, "NVRM version,CUDA version\n%s,%s\n\nDevice Index,Device Minor,Model,Brand,GPU UUID,Bus Location,Architecture\n", m.Driver.Version, m.Driver.CUDA)
	} else {
		show.Fprintf(&b, "%-15s %s\n%-15s %s\n", "NVRM version:", m.Driver.Version, "CUDA version:", m.Driver.CUDA)
	}
	for _, g := range gpus {
		at := ""
		if g.PCI != nil {
			at = fmt.Sprintf("%08x:%02x:%02x.%x", g.PCI.BDF.Domain, g.PCI.BDF.Bus, g.PCI.BDF.Device, g.PCI.BDF.Function)
		}
		values := []any{g.Index, g.Minor, g.Name, c.brand(g.UUID), g.UUID, at, g.ComputeCap}
		if c.csv {
			show.Fprintf(&b, "%d,%d,%s,%s,%s,%s,%s\n", values...)
			continue
		}
		b.WriteString("\n")
		for i, name := range []string{"Device Index:", "Device Minor:", "Model:", "Brand:", "GPU UUID:", "Bus Location:", "Architecture:"} {
			show.Fprintf(&b, "%-15s %v\n", name, values[i])
		}
	}
	_, err = io.WriteString(c.out, b.String())
	return err
}

// plan plans the request on this host, in its own policy.
func (c *call) plan(ctx context.Context) (passthrough.Result, error) {
	rules, err := policyfile.System(c.host.Root())
	if err != nil {
		return passthrough.Result{}, err
	}
	res, err := legacy.Plan(ctx, c.host, c.request, nil, c.brand, passthrough.Options{Policy: rules})
	for _, w := range res.Warnings {
		c.logf("warning: %s", w)
	}
	if err == nil && c.request.Has(legacy.Compat32) {
		c.logf("--compat32: no 32-bit libraries are passed")
	}
	return res, err
}

// list prints the host's files that configure would mount.
func (c *call) list(ctx context.Context) error {
	asked := len(c.request.Devices) > 0
	c.request.Capabilities = append(c.request.Capabilities, legacy.Capabilities...)
	res, err := c.plan(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, n := range res.Plan.Nodes {
		if asked || c.request.MIGConfig || c.request.MIGMonitor {
			show.Fprintln(&b, n.Source)
		}
	}
	for _, m := range res.Plan.Mounts {
		if c.lists(m.Target) {
			show.Fprintln(&b, m.Source)
		}
	}
	_, err = io.WriteString(c.out, b.String())
	return err
}

// lists reports whether a file is of a kind that list is to print.
func (c *call) lists(target string) bool {
	switch {
	case strings.Contains(target, "/firmware/"):
		return c.firmware
	case strings.Contains(target, ".so"):
		return c.libraries
	case strings.Contains(target, "/bin/") || strings.Contains(target, "/sbin/"):
		return c.binaries
	case isSocket(target):
		return c.sockets
	}
	return false
}
