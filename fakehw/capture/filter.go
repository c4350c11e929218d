package capture

import (
	"bytes"
	"slices"
	"strings"

	"gpurig/fakehw"
)

// filters keep of a file what has to do with GPUs, or is nobody's secret.
var filters = map[string]func(c *collector, data []byte) []byte{
	"/proc/cmdline": (*collector).cmdline,
	"/proc/modules": (*collector).moduleList,
	migMinors:       (*collector).migMinors,
}

// harmless are parameters of the kernel's command line whose values are kept.
// Others may be names of machines and networks, or keys.
var harmless = []string{
	"BOOT_IMAGE", "root", "rootfstype", "rootflags", "init", "initrd", "console", "earlycon", "video", "efi", "acpi", "cma", "crashkernel",
	"iommu", "intel_iommu", "amd_iommu", "arm-smmu", "swiotlb", "pci", "pcie_aspm", "pcie_ports", "numa_balancing", "mitigations", "module_blacklist",
	"modprobe.blacklist", "rd.driver.blacklist", "hugepages", "hugepagesz", "default_hugepagesz", "transparent_hugepage", "isolcpus",
	"systemd.unified_cgroup_hierarchy", "cgroup_no_v1", "cgroup_enable", "cgroup_disable", "nomodeset", "selinux", "apparmor", "security", "lsm", "panic", "loglevel",
}

// flags are words of the command line that are kept.
var flags = []string{"ro", "rw", "quiet", "splash", "debug", "single", "nomodeset", "nosmt", "nokaslr", "nohz", "noapic", "nointremap", "ignore_loglevel"}

// cmdline keeps the flags and parameters that say something of the machine, and
// those of GPU drivers; of others only that there were some. What comes after
// "--" is for the first process.
func (c *collector) cmdline(data []byte) []byte {
	var out []string
	words := strings.Split(strings.TrimSuffix(string(data), "\n"), " ")
	dropped := 0
	for i, word := range words {
		if word == "--" {
			dropped += len(words) - i - 1
			break
		}
		if knownParameter(word) {
			out = append(out, word)
		} else {
			dropped++
		}
	}
	if dropped > 0 {
		c.notes.add("left out: %d words of the kernel's command line", dropped)
	}
	text := strings.Join(out, " ")
	if bytes.HasSuffix(data, []byte("\n")) {
		text += "\n"
	}
	return []byte(text)
}

func knownParameter(word string) bool {
	key, _, has := strings.Cut(word, "=")
	if !has {
		return word == "" || slices.Contains(flags, word)
	}
	if module, _, dotted := strings.Cut(key, "."); dotted {
		module = strings.ReplaceAll(module, "-", "_")
		if gpuModule(module) || slices.Contains([]string{"iommu", "kvm", "pci", "arm_smmu"}, module) {
			return true
		}
	}
	return slices.Contains(harmless, key)
}

// moduleList keeps the lines of GPU drivers, without addresses.
func (c *collector) moduleList(data []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, " ")
		if !gpuModule(name) {
			continue
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		for i, w := range words {
			if strings.HasPrefix(w, "0x") {
				words[i] = "0x0000000000000000"
			}
		}
		out.WriteString(strings.Join(words, " ") + "\n")
	}
	return []byte(out.String())
}

const migMinors = "/proc/driver/nvidia-caps/mig-minors"

// migMinors keeps the lines of GPUs that are there: the driver lists all that
// could ever be, in 110 KiB. Replay adds the others again.
func (c *collector) migMinors(data []byte) []byte {
	present := map[string]bool{}
	for _, name := range c.list("/proc/driver/nvidia/capabilities") {
		present[name] = true // "gpu0"
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		top, _, below := strings.Cut(line, "/")
		if !below || present[top] {
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}

// allMinors adds to the recorded lines of mig-minors those of GPUs that were not
// there, from the driver's fixed table: a GPU can get another minor.
func allMinors(kept []byte) []byte {
	out := bytes.Clone(kept)
	known := map[string]bool{}
	for line := range strings.Lines(string(kept)) {
		top, _, _ := strings.Cut(line, "/")
		known[top] = true
	}
	for line := range strings.Lines(string(fakehw.MIGMinors())) {
		if top, _, below := strings.Cut(line, "/"); below && !known[top] {
			out = append(out, line...)
		}
	}
	return out
}
