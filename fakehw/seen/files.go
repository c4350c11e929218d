package seen

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fixtures/records"
)

// files are the fields of a machine that are read from its tree.
var files = map[string]func(h *Host, arg string) string{
	"exists": func(h *Host, p string) string {
		_, err := h.root.Lstat(p)
		return yes(err == nil)
	},
	"text": (*Host).text,
	"lines": func(h *Host, p string) string {
		text, err := h.root.ReadFile(p)
		if err != nil {
			return absent(err)
		}
		return fmt.Sprint(strings.Count(string(text), "\n"))
	},
	"key":     (*Host).key,
	"lists":   (*Host).lists,
	"count":   (*Host).count,
	"link":    (*Host).link,
	"gpus":    gpusOf(func(g host.GPU) bool { return g.PCI != nil && g.PCI.ID.Vendor == pci.NVIDIA }),
	"amds":    gpusOf(func(g host.GPU) bool { return g.PCI != nil && g.PCI.ID.Vendor == pci.AMD }),
	"serials": (*Host).serials,
	"switches": func(h *Host, what string) string {
		var out []string
		for _, f := range h.model.NVSwitches {
			out = append(out, h.attribute(f.BDF, what))
		}
		return strings.Join(out, " ")
	},
}

func (h *Host) link(p string) string {
	target, err := h.root.Readlink(p)
	if err != nil {
		return absent(err)
	}
	return path.Base(target)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func absent(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return records.Absent
	}
	return err.Error()
}

func (h *Host) text(p string) string {
	text, err := h.root.ReadFile(p)
	if err != nil {
		return absent(err)
	}
	return strings.Trim(string(text), "\x00 \n")
}

// key reads "KEY value" and "KEY: value".
func (h *Host) key(arg string) string {
	p, key, _ := strings.Cut(arg, " ")
	text, err := h.root.ReadFile(p)
	if err != nil {
		return absent(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok && rest != "" && strings.ContainsAny(rest[:1], ": \t=") {
			return strings.TrimSpace(strings.TrimLeft(rest, ": \t="))
		}
	}
	return records.Absent
}

func (h *Host) lists(arg string) string {
	p, name, _ := strings.Cut(arg, " ")
	text, err := h.root.ReadFile(p)
	if err != nil {
		return absent(err)
	}
	return yes(slices.Contains(strings.Fields(string(text)), name))
}

// count counts paths whose last part fits a pattern.
func (h *Host) count(pattern string) string {
	entries, err := h.root.ReadDir(path.Dir(pattern))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	n := 0
	for _, name := range entries {
		if ok, err := path.Match(path.Base(pattern), name); err == nil && ok {
			n++
		}
	}
	return fmt.Sprint(n)
}

// gpusOf says one thing of every GPU of a kind.
func gpusOf(is func(host.GPU) bool) func(*Host, string) string {
	return func(h *Host, what string) string {
		var out []string
		for _, g := range h.model.GPUs {
			if is(g) {
				out = append(out, h.attribute(g.PCI.BDF, what))
			}
		}
		return strings.Join(out, " ")
	}
}

// serials says which GPUs share a serial number, as letters: no record has the numbers.
func (h *Host) serials(string) string {
	var seen, out []string
	for _, g := range h.model.NVIDIAGPUs() {
		d := h.device(h.lib, g)
		if d == nil {
			return records.Absent
		}
		serial, _ := d.GetSerial()
		i := slices.Index(seen, serial)
		if i < 0 {
			i, seen = len(seen), append(seen, serial)
		}
		out = append(out, string(rune('A'+i)))
	}
	return strings.Join(out, " ")
}

// attribute reads a file of a function in sysfs, "at" its address, "group" its
// IOMMU group, "bar2" the size of a window.
func (h *Host) attribute(at pci.BDF, what string) string {
	dir := "/sys/bus/pci/devices/" + at.String()
	switch {
	case what == "at":
		return at.String()
	case what == "group":
		return h.link(dir + "/iommu_group")
	case strings.HasPrefix(what, "bar") && len(what) == 4:
		return h.window(dir+"/resource", int(what[3]-'0'))
	}
	return h.text(dir + "/" + what)
}

// window reads a line of the file "resource": the size, and how it is decoded.
func (h *Host) window(p string, index int) string {
	text, err := h.root.ReadFile(p)
	if err != nil {
		return absent(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var from, to, flags uint64
	if index >= len(lines) {
		return records.Absent
	}
	if _, err := fmt.Sscanf(lines[index], "0x%x 0x%x 0x%x", &from, &to, &flags); err != nil {
		return err.Error()
	}
	const io, mem64, prefetch = 0x100, 0x100000, 0x2000
	switch size := to - from + 1; {
	case flags == 0:
		return "none"
	case flags&io != 0:
		return fmt.Sprintf("%d io", size)
	case flags&mem64 != 0 && flags&prefetch != 0:
		return fmt.Sprintf("%d MiB 64-bit prefetchable", size>>20)
	case flags&mem64 != 0:
		return fmt.Sprintf("%d MiB 64-bit", size>>20)
	default:
		return fmt.Sprintf("%d MiB 32-bit", size>>20)
	}
}
