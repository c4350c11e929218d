package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"gpurig/core/cdi"
	"gpurig/core/cdi/amd"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/runner/verdict"
)

// A SpecMaker finds the CDI Specs of one host that devices can come from: those
// on its disk, and those that are generated for it when they are asked for.
type SpecMaker struct {
	Model  host.Model
	OnDisk []cdi.Source
	// Root shows the host's files. It is asked only for kinds that are not
	// NVIDIA's.
	Root func() (host.Root, error)
	// NVIDIA makes a Spec in one of the modes of package nvidia.
	NVIDIA func(ctx context.Context, mode string) (*nvidia.Result, error)
}

// modes are the generator's modes by the kind of the Specs that they make.
var modes = map[string]string{
	"nvidia.com/gpu": "auto", "nvidia.com/mig": "auto", "nvidia.com/igpu": "auto",
	"nvidia.com/imex-channel": "imex", "nvidia.com/nvswitch": "nvswitch", "nvidia.com/gds": "gds",
	"nvidia.com/gdrcopy": "gdrcopy", "nvidia.com/mofed": "mofed", "nvidia.com/mig-caps": "mig-caps",
	"management.nvidia.com/gpu": "management",
	amd.Kind:                    amd.Kind,
}

// csv is the mode for the GPU of a system on chip, also where a card is beside
// it that "auto" could go for.
const csv = "csv"

// Gather returns the Specs on disk and generates those of the kinds that are
// asked for. A generator's refusal is a warning where a Spec on disk has the
// kind; else it is in the error, a *refuse.Error or several joined. Warnings
// come with an error too.
func (s SpecMaker) Gather(ctx context.Context, asked []request.Selection) ([]cdi.Source, []verdict.Warning, error) {
	integrated := slices.ContainsFunc(asked, func(x request.Selection) bool { return x.Integrated })
	g := gathering{maker: s, sources: slices.Clip(s.OnDisk), done: map[string]bool{}}
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

// All returns the Specs on disk and every Spec that can be generated for the
// host. A kind of which the host has no device is no error, and a refusal of
// anything but the GPUs themselves is a warning.
func (s SpecMaker) All(ctx context.Context) ([]cdi.Source, []verdict.Warning, error) {
	g := gathering{maker: s, sources: slices.Clip(s.OnDisk), done: map[string]bool{}}
	nvidias := s.Model.Driver != nil || s.Model.Tegra != nil
	kinds := slices.Sorted(maps.Keys(modes))
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, kind := range kinds {
		mode := modes[kind]
		if mode != amd.Kind && !nvidias || mode == "management" && s.Model.Tegra != nil {
			continue // what manages cards knows no system on chip
		}
		if err := g.add(ctx, kind, mode); err != nil {
			return nil, g.warnings, err
		}
		if rank(kind) > 0 {
			for _, e := range g.refusals {
				if e.Reason != nvidia.ReasonNoDevices {
					g.warn(e.Reason, kind+": "+e.Error())
				}
			}
			g.refusals = nil
		} else if len(g.refusals) > 0 {
			return nil, g.warnings, refuse.Join(g.refusals...)
		}
	}
	return g.sources, g.warnings, nil
}

// rank puts the GPUs first: what is wrong with them is wrong with the others too.
func rank(kind string) int {
	if modes[kind] == "auto" || modes[kind] == amd.Kind {
		return 0
	}
	return 1
}

// A gathering is what has been found so far.
type gathering struct {
	maker    SpecMaker
	sources  []cdi.Source
	warnings []verdict.Warning
	refusals []*refuse.Error
	done     map[string]bool // modes
}

// add makes the Spec of a mode, once. The error is no refusal.
func (g *gathering) add(ctx context.Context, kind, mode string) error {
	if mode == "" || g.done[mode] {
		return nil
	}
	g.done[mode] = true
	made, err := g.make(ctx, mode)
	refusals := refuse.As(err)
	switch {
	case err != nil && len(refusals) == 0:
		return err
	case err != nil && slices.ContainsFunc(g.maker.OnDisk, func(s cdi.Source) bool { return s.Spec.Kind == kind }):
		for _, r := range refusals {
			g.warn(r.Reason, r.Error())
		}
	case err != nil:
		g.refusals = append(g.refusals, refusals...)
	case made.Spec != nil:
		g.sources = append(g.sources, made)
		for _, x := range cdi.WithheldWarnings(made.Spec.Kind, made.Withheld) {
			g.warn(x.Reason, x.Error())
		}
	}
	return nil
}

func (g *gathering) warn(reason refuse.Reason, text string) {
	g.warnings = append(g.warnings, verdict.Warning{Reason: string(reason), Text: text})
}

// make makes one Spec; the Source has none where the host has no device for it.
func (g *gathering) make(ctx context.Context, mode string) (cdi.Source, error) {
	if mode == amd.Kind {
		root, err := g.maker.Root()
		if err != nil {
			return cdi.Source{}, err
		}
		r, err := amd.Generate(root, g.maker.Model)
		if err != nil || r == nil {
			return cdi.Source{}, err
		}
		return hostSource(cdi.FromHost(r.Spec), r.Withheld), nil
	}
	r, err := g.maker.NVIDIA(ctx, mode)
	if err != nil {
		return cdi.Source{}, err
	}
	for _, x := range r.Warnings {
		g.warn(x.Reason, x.String())
	}
	return hostSource(cdi.FromHost(r.Spec), r.Withheld), nil
}

func hostSource(s cdi.Source, withheld map[string]*refuse.Error) cdi.Source {
	s.Withheld = withheld
	return s
}
