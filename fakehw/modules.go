package fakehw

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/host"
)

// A module is one line of /proc/modules.
type module struct {
	name    string
	size    int
	users   []string // modules that hold it
	version string   // empty: an in-tree module, which has none
	taint   string   // "POE": proprietary, out of tree, not signed
}

// moduleSizes are plausible; nobody reads more than that they are numbers.
var moduleSizes = map[string]int{
	"nvidia": 56811520, "nvidia_uvm": 4956160, "nvidia_modeset": 1318912, "nvidia_drm": 94208,
	"nvgpu": 2658304, "amdgpu": 19623936, "i915": 4272128, "xe": 2719744, "ast": 90112,
	"snd_hda_intel": 61440, "vfio_pci": 16384,
}

// loaded returns the modules of this host by name.
func (b *builder) loaded() map[string]*module {
	out := map[string]*module{}
	add := func(name string) *module {
		if name == "" {
			return &module{}
		}
		if out[name] == nil {
			out[name] = &module{name: name, size: moduleSizes[name], version: ""}
			if out[name].size == 0 {
				out[name].size = 16384
			}
		}
		return out[name]
	}
	for _, f := range b.all {
		if m := moduleOf(f.Driver); f.Driver != "" && m != "" {
			add(m)
		}
	}
	for _, name := range b.m.Drivers {
		add(moduleOf(name))
	}
	for _, f := range b.around.own {
		if f.Driver == "mlx5_core" {
			add("mlx5_core")
			add("mlx5_ib")
			add("ib_core")
		}
	}
	if d := b.m.Driver; d != nil && d.VGPU == host.VGPUMDev {
		add("mdev")
		add(mdevDriver)
	}
	for _, name := range b.beside() {
		add(name)
	}
	if d := b.m.Driver; d != nil {
		for _, name := range d.Modules {
			m := add(name)
			if !strings.HasPrefix(name, "nvidia") {
				continue
			}
			m.version = d.Version
			if m.taint = "POE"; d.Open {
				m.taint = "OE"
			}
		}
	}
	for _, pair := range [][2]string{{"nvidia", "nvidia_uvm"}, {"nvidia", "nvidia_modeset"}, {"nvidia_modeset", "nvidia_drm"}, {"nvidia", "nvidia_fs"}, {"nvidia", "gdrdrv"},
		{"nvidia", "nvidia_vgpu_vfio"}, {"mdev", "nvidia_vgpu_vfio"}, {"mdev", mdevDriver}} {
		if out[pair[0]] != nil && out[pair[1]] != nil {
			out[pair[0]].users = append(out[pair[0]].users, pair[1])
		}
	}
	return out
}

// modules makes /sys/module and /proc/modules.
func (b *builder) modules() {
	all := b.loaded()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		d := "/sys/module/" + name
		b.attr(d+"/initstate", "live\n")
		b.attr(d+"/refcnt", fmt.Sprintf("%d\n", len(m.users)))
		b.attr(d+"/coresize", fmt.Sprintf("%d\n", m.size))
		if m.version != "" {
			b.attr(d+"/version", m.version+"\n")
			b.attr(d+"/srcversion", strings.ToUpper(uuid(0, name, m.version)[:8])+"D1E8B2C94F60A37\n")
		}
		taint := strings.TrimSuffix(m.taint, "E")
		b.attr(d+"/taint", m.taint+"\n")
		b.dir(d + "/holders")
		b.dir(d + "/parameters")
		for _, u := range m.users {
			b.link(d+"/holders/"+u, "/sys/module/"+u)
		}
		users := "-"
		if len(m.users) > 0 {
			users = strings.Join(m.users, ",") + ","
		}
		fmt.Fprintf(&list, "%s %d %d %s Live 0x0000000000000000", name, m.size, len(m.users), users)
		if taint != "" {
			fmt.Fprintf(&list, " (%s)", m.taint)
		}
		list.WriteByte('\n')
	}
	if all["nvidia_drm"] != nil {
		b.attr("/sys/module/nvidia_drm/parameters/modeset", "Y\n")
	}
	// Every kernel that can load firmware has it; empty, since nobody adds a folder
	// to those that it searches (Documentation/driver-api/firmware/fw_search_path.rst).
	b.file("/sys/module/firmware_class/parameters/path", "\n", 0o644)
	b.attr("/proc/modules", list.String())
}
