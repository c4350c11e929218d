package runner

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"io/fs"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/runner/specgen"
	"gpurig/scenarios"
)

// apply carries out one change: on the model where the model knows such a
// thing, else on the files made of it.
func apply(m *hostState, c scenarios.Change) (host.Model, []specgen.FileChange, error) {
	model, err := applyModel(m.sound, c)
	if c.Write != nil {
		model, err = applyWrite(m, c.Write)
	}
	if err != nil {
		return host.Model{}, nil, err
	}
	files := slices.Clip(m.files)
	for _, p := range c.Remove {
		files = append(files, specgen.FileChange{Path: p, Remove: true})
	}
	for _, p := range slices.Sorted(maps.Keys(c.Files)) {
		content := c.Files[p]
		files = append(files, specgen.FileChange{Path: p, File: &content})
	}
	for _, p := range slices.Sorted(maps.Keys(c.Links)) {
		files = append(files, specgen.FileChange{Path: p, Link: c.Links[p]})
	}
	for _, p := range slices.Sorted(maps.Keys(c.Modes)) {
		bits, err := strconv.ParseUint(c.Modes[p], 8, 9)
		if err != nil {
			return host.Model{}, nil, err
		}
		mode := fs.FileMode(bits)
		files = append(files, specgen.FileChange{Path: p, Mode: &mode})
	}
	return model, files, nil
}

// applyWrite returns what becomes of a host that is written to.
func applyWrite(m *hostState, what map[string]string) (host.Model, error) {
	l, err := m.request().Live()
	if err != nil {
		return host.Model{}, err
	}
	if err := writeTo(l, what); err != nil {
		return host.Model{}, err
	}
	return l.Sound(), nil
}

func applyModel(m host.Model, c scenarios.Change) (host.Model, error) {
	switch {
	case c.Driver != "":
		return fakehw.WithDriver(m, c.Driver)
	case c.DriverUser != "":
		return fakehw.WithUserspace(m, c.DriverUser)
	case c.Unload:
		return fakehw.Unloaded(m), nil
	case c.Majors != nil:
		return fakehw.WithMajors(m, c.Majors)
	case c.Drivers != nil:
		return fakehw.WithDrivers(m, device.Char, c.Drivers)
	case c.BlockDrivers != nil:
		return fakehw.WithDrivers(m, device.Block, c.BlockDrivers)
	case c.MIG != nil:
		return fakehw.WithMIG(m, c.MIG.GPU, c.MIG.Profiles, c.MIG.Off)
	case c.RemoveGPU != nil:
		return fakehw.WithoutGPU(m, *c.RemoveGPU)
	case c.Minors != nil:
		return fakehw.WithMinors(m, c.Minors)
	}
	var err error
	for _, p := range c.RemoveNodes {
		if m, err = removeNodes(m, p); err != nil {
			return host.Model{}, err
		}
	}
	for _, n := range c.Nodes {
		if m, err = changeNode(m, n); err != nil {
			return host.Model{}, err
		}
	}
	return m, nil
}

// removeNodes removes one node, or those that match a pattern.
func removeNodes(m host.Model, pattern string) (host.Model, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return fakehw.WithoutNode(m, pattern)
	}
	found := false
	for _, n := range m.Nodes {
		if ok, err := path.Match(pattern, n.Path); err == nil && ok {
			var rerr error
			if m, rerr = fakehw.WithoutNode(m, n.Path); rerr != nil {
				return host.Model{}, rerr
			}
			found = true
		}
	}
	if !found {
		return host.Model{}, fmt.Errorf("remove nodes %s: %w: the host has no such node", pattern, fakehw.ErrImpossible)
	}
	return m, nil
}

// changeNode changes what is given of a node, or makes a new one, which needs a
// number.
func changeNode(m host.Model, c scenarios.NodeChange) (host.Model, error) {
	n := device.Node{Path: c.Path, Type: device.Char, Mode: 0o666}
	at := slices.IndexFunc(m.Nodes, func(x device.Node) bool { return x.Path == c.Path })
	if at >= 0 {
		n = m.Nodes[at]
	} else if c.Number == "" {
		return host.Model{}, fmt.Errorf("node %s: %w: there is none, and a new one needs a number", c.Path, fakehw.ErrImpossible)
	}
	if c.Type != "" {
		n.Type = device.Type(c.Type)
	}
	if c.Number != "" {
		num, err := device.ParseNum(c.Number)
		if err != nil {
			return host.Model{}, fmt.Errorf("node %s: %w", c.Path, err)
		}
		n.Num = num
	}
	if c.Mode != "" {
		mode, err := strconv.ParseUint(c.Mode, 8, 9)
		if err != nil {
			return host.Model{}, fmt.Errorf("node %s: mode %q: %w", c.Path, c.Mode, err)
		}
		n.Mode = fs.FileMode(mode)
	}
	if c.UID != nil {
		n.UID = *c.UID
	}
	if c.GID != nil {
		n.GID = *c.GID
	}
	return fakehw.WithNode(m, n)
}

func rebooted(m host.Model) host.Model { return fakehw.Rebooted(m) }

// outliveReboot drops the changes below file systems that are empty after a
// boot.
func outliveReboot(files []specgen.FileChange) []specgen.FileChange {
	var out []specgen.FileChange
	for _, f := range files {
		volatile := false
		for _, top := range []string{"/run/", "/var/run/", "/dev/", "/proc/", "/sys/", "/tmp/"} {
			volatile = volatile || strings.HasPrefix(f.Path, top)
		}
		if !volatile {
			out = append(out, f)
		}
	}
	return out
}
