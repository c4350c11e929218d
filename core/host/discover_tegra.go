package host

import (
	"slices"
	"strings"
)

// CSVDir is where Jetson Linux lists the files that containers need.
const CSVDir = "/etc/nvidia-container-runtime/host-files-for-container.d"

// deviceTree is where the kernel shows the firmware's device tree: a link to a
// folder of sysfs, which is the only one that a procfs without it (another
// machine's) leaves to read.
const (
	deviceTree    = "/proc/device-tree"
	deviceTreeSys = "/sys/firmware/devicetree/base"
)

// tegra reads the SoC. A Tegra is a machine whose device tree says so; L4T's
// release file alone (in a container, say) does not make one.
func (d *discovery) tegra() error {
	base := deviceTree
	text, ok, err := d.optional(base + "/compatible")
	if err == nil && !ok {
		base = deviceTreeSys
		text, ok, err = d.optional(base + "/compatible")
	}
	if err != nil || !ok {
		return err
	}
	compatible := strings.Split(strings.TrimRight(text, "\x00\n"), "\x00")
	chip := ""
	for _, c := range compatible {
		if rest, ok := strings.CutPrefix(c, "nvidia,tegra"); ok && chip == "" {
			chip = "tegra" + rest
		}
	}
	if chip == "" {
		return nil
	}
	model, err := d.text(base + "/model")
	if err != nil {
		return err
	}
	t := &Tegra{Chip: chip, Model: strings.TrimRight(model, "\x00\n"), Compatible: compatible}
	if text, ok, err = d.optional("/etc/nv_tegra_release"); err != nil {
		return err
	} else if ok {
		if t.Release, t.Revision, err = ParseTegraRelease(text); err != nil {
			d.problem("release of Jetson Linux", inFile("/etc/nv_tegra_release", err))
		}
	}
	names, err := d.list(CSVDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".csv") {
			t.CSV = append(t.CSV, name)
		}
	}
	slices.Sort(t.CSV)
	d.m.Tegra = t
	return nil
}
