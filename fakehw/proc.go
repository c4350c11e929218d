package fakehw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// Lines of /proc/devices that every machine has.
var standardMajors = []host.Major{
	{Major: 1, Name: "mem", Type: device.Char},
	{Major: 4, Name: "tty", Type: device.Char},
	{Major: 5, Name: "/dev/console", Type: device.Char},
	{Major: 5, Name: "/dev/ptmx", Type: device.Char},
	{Major: 5, Name: "/dev/tty", Type: device.Char},
	{Major: 10, Name: "misc", Type: device.Char},
	{Major: 13, Name: "input", Type: device.Char},
	{Major: 29, Name: "fb", Type: device.Char},
	{Major: 136, Name: "pts", Type: device.Char},
	{Major: 7, Name: "loop", Type: device.Block},
	{Major: 259, Name: "blkext", Type: device.Block},
}

// proc makes the files of /proc that are no driver's own.
func (b *builder) proc() {
	b.attr("/proc/devices", procDevices(b.m.Majors))
	b.attr("/proc/cmdline", b.m.Cmdline+"\n")
	b.attr("/proc/sys/kernel/osrelease", b.m.Kernel+"\n")
	// The kernel tells its architecture since 6.1; before, the loader's name does.
	if atLeast(b.m.Kernel, 6, 1) {
		b.attr("/proc/sys/kernel/arch", b.m.Arch+"\n")
	} else if b.m.Arch == "aarch64" {
		b.file("/lib/ld-linux-aarch64.so.1", "", 0o755)
	} else {
		b.file("/lib64/ld-linux-x86-64.so.2", "", 0o755)
	}
}

// atLeast compares the version of a kernel or a driver, "6.8.0-45" or "535.113.01".
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err1 := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}

// procDevices prints /proc/devices: by type, then number (fs/char_dev.c).
func procDevices(majors []host.Major) string {
	all := slices.Clone(majors)
	for _, s := range standardMajors {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, compareMajors)
	var s strings.Builder
	for _, kind := range []device.Type{device.Char, device.Block} {
		if kind == device.Block {
			s.WriteString("\nBlock devices:\n")
		} else {
			s.WriteString("Character devices:\n")
		}
		for _, x := range all {
			if x.Type == kind {
				fmt.Fprintf(&s, "%3d %s\n", x.Major, x.Name)
			}
		}
	}
	return s.String()
}

// osRelease makes /etc/os-release.
func (b *builder) osRelease() {
	o := b.m.OS
	name := o.ID
	if known, err := catalog.FindOS(o.ID); err == nil {
		name = known.Name
	}
	b.file("/etc/os-release", fmt.Sprintf("PRETTY_NAME=\"%s %s\"\nNAME=\"%s\"\nVERSION_ID=\"%s\"\nID=%s\n",
		name, o.VersionID, name, o.VersionID, o.ID), 0o644)
}
