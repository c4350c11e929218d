package fakehw

import (
	"fmt"
	"strings"

	"gpurig/fakehw/catalog"
)

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
	facts := catalog.L4T(t.Release)
	b.file("/etc/nv_tegra_release", fmt.Sprintf("# %s (release), REVISION: %s, GCID: %s, BOARD: generic, EABI: aarch64, DATE: %s\n",
		t.Release, t.Revision, facts.GCID, facts.Date), 0o644)
	for _, g := range b.m.GPUs {
		if g.Platform != "" {
			b.platformGPU(g.Platform, t.Chip)
		} else if t.Chip == "tegra264" && driven(g) { // the clocks of its graphics and video parts
			dir := b.functions[g.PCI.BDF.String()].dir
			b.devfreq(dir, "gpu-gpc-0", 315000000, 1575000000)
			b.devfreq(dir, "gpu-nvd-0", 315000000, 1692000000)
		}
	}
}

// devfreq makes a clock of the device in dir that follows its load, in Hz; the lowest and
// the highest are unverified.
func (b *builder) devfreq(dir, name string, lowest, highest int) {
	at := dir + "/devfreq/" + name
	for file, hz := range map[string]int{"cur_freq": lowest, "target_freq": lowest, "min_freq": lowest, "max_freq": highest} {
		b.attr(at+"/"+file, fmt.Sprintf("%d\n", hz))
	}
	b.attr(at+"/available_frequencies", fmt.Sprintf("%d %d\n", lowest, highest))
	b.attr(at+"/available_governors", "nvhost_podgov userspace performance simple_ondemand\n")
	b.attr(at+"/name", name+"\n")
	b.file(at+"/governor", "nvhost_podgov\n", 0o644)
	b.link(at+"/device", dir)
	b.link("/sys/class/devfreq/"+name, at)
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
	b.attr(node+"/name", "gpu\x00")
	b.attr(node+"/status", "okay\x00")
	b.link(d+"/of_node", node)
	uevent := "OF_NAME=gpu\nOF_FULLNAME=/bus@0/gpu@" + address + "\nOF_COMPATIBLE_0=nvidia," + gpu + "\nOF_COMPATIBLE_N=1\nMODALIAS=of:NgpuT(null)Cnvidia," + gpu + "\n"
	if !hasModule(b.m, "nvgpu") {
		b.file(d+"/uevent", uevent, 0o644)
		return
	}
	b.file(d+"/uevent", "DRIVER=gk20a\n"+uevent, 0o644)
	b.driver("platform", "gk20a", name, d)
	b.file(d+"/load", "0\n", 0o444)
	b.devfreq(d, name, 306000000, 1300500000)
	b.link("/sys/devices/gpu.0", d)
}
