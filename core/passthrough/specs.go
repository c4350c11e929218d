package passthrough

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/cdi/drm"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/cdi/pgpu"
	"gpurig/core/refuse"
	"gpurig/core/request"
)

// modes are the generator's modes by the kind of the Specs that they make.
var modes = map[string]string{
	"nvidia.com/gpu": "auto", "nvidia.com/mig": "auto", "nvidia.com/igpu": "auto",
	"nvidia.com/imex-channel": "imex", "nvidia.com/nvswitch": "nvswitch", "nvidia.com/gds": "gds",
	"nvidia.com/gdrcopy": "gdrcopy", "nvidia.com/mofed": "mofed", "nvidia.com/mig-caps": "mig-caps",
	"management.nvidia.com/gpu": "management",
	"amd.com/gpu":               "amd.com/gpu", "intel.com/gpu": "intel.com/gpu", // see package drm
}

// csv is the mode for the GPU of a system on chip, also where a card is beside
// it that "auto" could go for.
const csv = "csv"

// gather returns the Specs on disk and generates those of the kinds that are
// asked for. A generator's refusal is a warning where a Spec on disk has the
// kind; else it is in the error. Warnings come with an error too.
func (h *Host) gather(ctx context.Context, asked []request.Selection) ([]cdi.Source, []Warning, error) {
	g := h.gathering()
	integrated := slices.ContainsFunc(asked, func(x request.Selection) bool { return x.Integrated })
	for _, x := range asked {
		for _, n := range x.Names {
			mode := modes[n.Kind()]
			if mode == "auto" && integrated {
				mode = csv
			}
			if err := g.add(ctx, n.Kind(), mode); err != nil {
				return nil, g.warnings, err
			}
		}
	}
	return g.sources, g.warnings, refuse.Join(g.refusals...)
}

// Specs returns the Specs on disk and every Spec that can be generated for the
// host, those of GPUs for virtual machines too. A kind of which the host has no device is no error, and a refusal of
// anything but the GPUs themselves is a warning. Warnings come with an error too;
// refusals in that are *refuse.Error.
func (h *Host) Specs(ctx context.Context) ([]cdi.Source, []Warning, error) {
	m, err := h.Model()
	if err != nil {
		return nil, nil, err
	}
	g := h.gathering()
	nvidias := m.Driver != nil || m.Tegra != nil
	kinds := slices.SortedFunc(maps.Keys(modes), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, kind := range kinds {
		mode := modes[kind]
		if mode != kind && !nvidias || mode == "management" && m.Tegra != nil {
			continue // what manages cards knows no system on chip
		}
		if err := g.add(ctx, kind, mode); err != nil {
			return nil, g.warnings, err
		}
		if rank(kind) > 0 {
			for _, e := range g.refusals {
				if e.Reason != nvidia.ReasonNoDevices {
					g.warn(e.Reason, kind+": "+e.Error(), e.Hint)
				}
			}
			g.refusals = nil
		} else if len(g.refusals) > 0 {
			return nil, g.warnings, refuse.Join(g.refusals...)
		}
	}
	for _, vendor := range []string{cdi.NVIDIA, pgpu.AMD} {
		r, err := pgpu.Generate(h.root, m, pgpu.Options{Vendor: vendor})
		refusals := refuse.As(err)
		if err != nil && len(refusals) == 0 {
			return nil, g.warnings, err
		}
		if r != nil {
			g.sources = append(g.sources, cdi.FromHost(r.Spec))
			refusals = r.Withheld
		}
		for _, e := range refusals {
			if e.Reason != pgpu.ReasonNotHeld {
				g.warn(e.Reason, e.Error(), e.Hint)
			}
		}
	}
	return g.sources, g.warnings, nil
}

// rank puts the GPUs first: what is wrong with them is wrong with the others too.
func rank(kind string) int {
	if modes[kind] == "auto" || modes[kind] == kind {
		return 0
	}
	return 1
}

// A gathering is what has been found so far.
type gathering struct {
	host     *Host
	sources  []cdi.Source
	warnings []Warning
	refusals []*refuse.Error
	done     map[string]bool // modes
}

// gathering begins with what is on disk.
func (h *Host) gathering() *gathering {
	disk := h.onDisk()
	g := &gathering{host: h, sources: slices.Clip(disk.sources), done: map[string]bool{}}
	for _, p := range disk.problems {
		g.warn(p.Reason, p.String(), p.Hint)
	}
	return g
}

// add makes the Spec of a mode, once. The error is no refusal.
func (g *gathering) add(ctx context.Context, kind, mode string) error {
	if mode == "" || g.done[mode] {
		return nil
	}
	g.done[mode] = true
	made, err := g.spec(ctx, mode)
	refusals := refuse.As(err)
	switch {
	case err != nil && len(refusals) == 0:
		return err
	case err != nil && len(g.host.files(kind)) > 0:
		for _, e := range refusals {
			g.warn(e.Reason, fmt.Sprintf("%s devices are taken from %s, since none can be generated: %v", kind, strings.Join(g.host.files(kind), " and "), e), e.Hint)
		}
	case err != nil:
		g.refusals = append(g.refusals, refusals...)
	case made.Spec != nil:
		g.sources = append(g.sources, made)
		for _, e := range cdi.WithheldWarnings(made.Spec.Kind, made.Withheld) {
			g.warn(e.Reason, e.Error(), e.Hint)
		}
	}
	return nil
}

// files are the Spec files of a kind.
func (h *Host) files(kind string) (out []string) {
	for _, s := range h.onDisk().sources {
		if s.Spec.Kind == kind {
			out = append(out, s.Where)
		}
	}
	return out
}

func (g *gathering) warn(reason refuse.Reason, text, hint string) {
	g.warnings = append(g.warnings, Warning{Reason: reason, Text: text, Hint: hint})
}

// spec makes one Spec; the Source has none where the host has no device for it.
func (g *gathering) spec(ctx context.Context, mode string) (cdi.Source, error) {
	for _, v := range drm.Vendors() {
		if v.Kind == mode {
			return g.host.DRM(v)
		}
	}
	r, err := g.host.specs.Get(ctx, mode, func() (*nvidia.Result, error) {
		return g.host.Generate(ctx, nvidia.Options{Mode: mode})
	})
	if err != nil {
		return cdi.Source{}, err
	}
	for _, x := range r.Warnings {
		g.warn(x.Reason, x.String(), "")
	}
	s := cdi.FromHost(r.Spec)
	s.Withheld = r.Withheld
	return s, nil
}

// DRM makes the Spec of a vendor's GPUs; a host without any has none in its Source.
func (h *Host) DRM(v drm.Vendor) (cdi.Source, error) {
	m, err := h.Model()
	if err != nil {
		return cdi.Source{}, err
	}
	r, err := drm.Generate(h.root, m, v)
	if err != nil || r == nil {
		return cdi.Source{}, err
	}
	s := cdi.FromHost(r.Spec)
	s.Withheld = r.Withheld
	return s, nil
}
