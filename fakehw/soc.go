package fakehw

import (
	"fmt"
	"strings"

	"gpurig/fakehw/catalog"
)

// l4t are facts of Jetson Linux releases that a model does not carry. GCIDs and
// dates of R36 are unverified.
var l4t = map[string]struct{ gcid, date string }{
	"R35": {"32827747", "Sun Mar 19 15:19:21 UTC 2023"},
	"R36": {"38968081", "Wed Jan  8 01:49:37 UTC 2025"},
	"R38": {"41844464", "Fri Aug 22 00:55:42 UTC 2025"},
	"R39": {"45755727", "Mon Jun  1 09:28:48 PM UTC 2026"},
}

// tegra makes the SoC: device tree, soc0, the integrated GPU as a platform
// device, and the release file.
func (b *builder) tegra() {
	t := b.m.Tegra
	if t == nil {
		return
	}
	base := "/sys/firmware/devicetree/base"
	b.attr(base+"/model", t.Model+"\x00")
	b.attr(base+"/compatible", strings.Join(t.Compatible, "\x00")+"\x00")
	b.do(b.t.Symlink("/proc/device-tree", base))
	board, _ := catalog.BoardByModel(t.Model)
	b.attr("/sys/devices/soc0/family", "Tegra\n")
	b.attr("/sys/devices/soc0/machine", t.Model+"\n")
	b.attr("/sys/devices/soc0/soc_id", fmt.Sprintf("%d\n", board.SoCID))
	b.attr("/sys/devices/soc0/revision", "A01\n")
	b.link("/sys/bus/soc/devices/soc0", "/sys/devices/soc0")
	facts := l4t[t.Release]
	b.file("/etc/nv_tegra_release", fmt.Sprintf("# %s (release), REVISION: %s, GCID: %s, BOARD: generic, EABI: aarch64, DATE: %s\n",
		t.Release, t.Revision, facts.gcid, facts.date), 0o644)
	for _, g := range b.m.GPUs {
		if g.Platform != "" {
			b.platformGPU(g.Platform, t.Chip)
		}
	}
}

func (b *builder) platformGPU(name, chip string) {
	d := "/sys/devices/platform/bus@0/" + name
	gpu := "ga10b"
	if chip == "tegra194" {
		gpu = "gv11b"
	}
	b.link("/sys/bus/platform/devices/"+name, d)
	b.link(d+"/subsystem", "/sys/bus/platform")
	address, _, _ := strings.Cut(name, ".")
	b.attr(d+"/modalias", "of:NgpuT(null)Cnvidia,"+gpu+"\n")
	node := "/sys/firmware/devicetree/base/bus@0/gpu@" + address
	b.attr(node+"/compatible", "nvidia,"+gpu+"\x00")
	b.link(d+"/of_node", node)
	if !hasModule(b.m, "nvgpu") {
		b.file(d+"/uevent", "OF_NAME=gpu\nOF_COMPATIBLE_0=nvidia,"+gpu+"\nOF_COMPATIBLE_N=1\n", 0o644)
		return
	}
	b.file(d+"/uevent", "DRIVER=gk20a\nOF_NAME=gpu\nOF_COMPATIBLE_0=nvidia,"+gpu+"\nOF_COMPATIBLE_N=1\n", 0o644)
	b.driver("platform", "gk20a", name, d)
	b.file(d+"/load", "0\n", 0o444)
	freq := d + "/devfreq/" + name
	b.file(freq+"/cur_freq", "306000000\n", 0o444)
	b.file(freq+"/governor", "nvhost_podgov\n", 0o644)
	b.link(freq+"/device", d)
	b.link("/sys/class/devfreq/"+name, freq)
	b.link("/sys/devices/gpu.0", d)
}
