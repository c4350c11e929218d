package fakehw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
)

// drm makes the DRM class: cards, render nodes, connectors, by-path links.
func (b *builder) drm() {
	used := map[string]bool{}
	for _, g := range b.m.GPUs {
		if g.PCI == nil || g.Card < 0 && g.Render < 0 {
			continue
		}
		f := b.functions[g.PCI.BDF.String()]
		p, _ := productOf(g)
		b.drmDevice(f.dir, "pci-"+f.bdf, g.Card, g.Render, p.Connectors)
		used[fmt.Sprintf("card%d", g.Card)], used[fmt.Sprintf("renderD%d", g.Render)] = true, true
		for _, p := range g.Partitions {
			b.partition(p)
		}
	}
	b.socDRM(used)
	if _, err := b.t.Lstat("/sys/class/drm"); err == nil {
		b.attr("/sys/class/drm/version", "drm 1.1.0 20060810\n")
	}
}

// partition makes the platform device of a partition of one of AMD's GPUs: amdgpu_xcp_N,
// counted over all GPUs (amdgpu_xcp_drm_dev_alloc in drivers/gpu/drm/amd/amdxcp).
func (b *builder) partition(p host.Partition) {
	name := fmt.Sprintf("amdgpu_xcp_%d", b.partitions)
	b.partitions++
	dir := "/sys/devices/platform/" + name
	b.link("/sys/bus/platform/devices/"+name, dir)
	b.link(dir+"/subsystem", "/sys/bus/platform")
	b.drmDevice(dir, "platform-"+name, p.Card, p.Render, nil)
}

// drmDevice makes one device's card and render node; -1 for none.
func (b *builder) drmDevice(dir, byPath string, card, render int, connectors []string) {
	if card >= 0 {
		name := fmt.Sprintf("card%d", card)
		b.drmNode(dir, name, card)
		b.byPath(byPath+"-card", name)
		at := dir + "/drm/" + name
		for i, c := range connectors {
			conn := at + "/" + name + "-" + c
			status := "disconnected\n"
			if i == 0 {
				status = "connected\n"
			}
			b.file(conn+"/status", status, 0o644)
			b.attr(conn+"/enabled", "disabled\n")
			b.attr(conn+"/dpms", "Off\n")
			b.attr(conn+"/modes", "")
			b.attr(conn+"/edid", "")
			b.link(conn+"/device", at)
			b.link(conn+"/subsystem", "/sys/class/drm")
			b.link("/sys/class/drm/"+name+"-"+c, conn)
		}
	}
	if render >= 0 {
		name := fmt.Sprintf("renderD%d", render)
		b.drmNode(dir, name, render)
		b.byPath(byPath+"-render", name)
	}
}

// byPath makes udev's link, where there is a node for it to lead to.
func (b *builder) byPath(name, node string) {
	if hasNode(b.m, "/dev/dri/"+node) {
		b.do(b.t.Symlink("/dev/dri/by-path/"+name, "../"+node))
	}
}

func (b *builder) drmNode(dir, name string, minor int) {
	at := dir + "/drm/" + name
	b.attr(at+"/dev", fmt.Sprintf("%d:%d\n", majorDRM, minor))
	b.file(at+"/uevent", fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", majorDRM, minor, name), 0o644)
	b.link(at+"/device", dir)
	b.link(at+"/subsystem", "/sys/class/drm")
	b.link("/sys/class/drm/"+name, at)
	b.link(fmt.Sprintf("/sys/dev/char/%d:%d", majorDRM, minor), at)
}

// socDRM makes the DRM devices of an SoC that are no GPU: the cards in the
// model's nodes that no GPU has. Their platform addresses are unverified.
func (b *builder) socDRM(used map[string]bool) {
	if b.m.Tegra == nil {
		return
	}
	cards, renders := orphans(b.m, "card", used), orphans(b.m, "renderD", used)
	names := []string{"13e00000.host1x", "13800000.display"}
	drivers := []string{"tegra-host1x", "tegra-display"}
	if b.m.Tegra.Chip == "tegra264" {
		names = []string{"8181200000.host1x", "8808c00000.display"}
	}
	for i, name := range names {
		card, render := at(cards, i), at(renders, i)
		if card < 0 && render < 0 {
			continue
		}
		dir := "/sys/devices/platform/bus@0/" + name
		b.link("/sys/bus/platform/devices/"+name, dir)
		b.link(dir+"/subsystem", "/sys/bus/platform")
		b.driver("platform", drivers[i], name, dir)
		b.drmDevice(dir, "platform-"+name, card, render, nil)
	}
}

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return -1
}

// orphans returns the numbers of DRM nodes that are not in used, ascending.
func orphans(m *host.Model, prefix string, used map[string]bool) []int {
	var out []int
	for _, n := range m.Nodes {
		name, ok := strings.CutPrefix(n.Path, "/dev/dri/")
		if !ok || used[name] || n.Type != device.Char {
			continue
		}
		rest, ok := strings.CutPrefix(name, prefix)
		if number, err := strconv.Atoi(rest); ok && err == nil {
			out = append(out, number)
		}
	}
	slices.Sort(out)
	return out
}
