package host

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpurig/core/device"
	"gpurig/core/pci"
)

// maxProc bounds a text of /proc that is read: the longest known, mig-minors,
// has about 110 KiB.
const maxProc = 512 << 10

// checkText refuses what no driver writes: too much, or not UTF-8.
func checkText(text string) error {
	if len(text) > maxProc {
		return malformed(0, text, "longer than any driver writes")
	}
	if !utf8.ValidString(text) {
		return malformed(0, text, "not UTF-8")
	}
	return nil
}

// ParseProcDevices reads /proc/devices: a section for character and one for
// block devices, a line for each number and name (fs/char_dev.c).
func ParseProcDevices(text string) ([]Major, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	var out []Major
	var kind device.Type
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "Character devices:":
			kind = device.Char
			continue
		case line == "Block devices:":
			kind = device.Block
			continue
		case strings.TrimSpace(line) == "":
			continue
		}
		n, name, ok := strings.Cut(strings.TrimLeft(line, " "), " ")
		major, err := strconv.ParseUint(n, 10, 32)
		switch {
		case kind == "":
			return nil, malformed(number, line, "a line before the first section")
		case !ok || name == "" || err != nil || n[0] == '+':
			return nil, malformed(number, line, "want a number and a name")
		case major > device.MaxMajor:
			return nil, malformed(number, line, "the major is beyond "+strconv.Itoa(device.MaxMajor))
		}
		out = append(out, Major{Major: uint32(major), Name: name, Type: kind})
	}
	return out, nil
}

var versionNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)

// ParseDriverVersion reads /proc/driver/nvidia/version: the version, and
// whether the open kernel modules are loaded. Dates, builders and the number of
// spaces vary and are not looked at.
func ParseDriverVersion(text string) (version string, open bool, err error) {
	if err := checkText(text); err != nil {
		return "", false, err
	}
	first, _, _ := strings.Cut(text, "\n")
	head, ok := strings.CutPrefix(first, "NVRM version:")
	if !ok {
		return "", false, malformed(1, first, "want a line that begins with \"NVRM version:\"")
	}
	_, rest, ok := strings.Cut(head, " Module ")
	if !ok {
		return "", false, malformed(1, first, "no word \"Module\" before the version")
	}
	for _, word := range strings.Fields(rest) {
		if versionNumber.MatchString(word) {
			return word, strings.Contains(head, " Open Kernel Module "), nil
		}
	}
	return "", false, malformed(1, first, "no version")
}

// GPUInfo is what /proc/driver/nvidia/gpus/<address>/information says. A field
// that the driver does not know yet is empty.
type GPUInfo struct {
	Model  string
	UUID   string
	VBIOS  string
	BDF    pci.BDF // zero: no "Bus Location" line
	HasBDF bool
	Minor  int
}

// ParseGPUInfo reads the file "information". Unknown keys are ignored, as new
// drivers add some. A missing or impossible device minor is an error: it names
// the node and must never be guessed.
func ParseGPUInfo(text string) (GPUInfo, error) {
	if err := checkText(text); err != nil {
		return GPUInfo{}, err
	}
	values, err := keyValues(text)
	if err != nil {
		return GPUInfo{}, err
	}
	info := GPUInfo{Model: values["Model"], UUID: known(values["GPU UUID"]), VBIOS: known(values["Video BIOS"])}
	if info.Model == "Unknown" {
		info.Model = ""
	}
	if at, ok := values["Bus Location"]; ok {
		if info.BDF, err = pci.ParseBDF(at); err != nil {
			return GPUInfo{}, malformed(0, at, "bus location is no PCI address")
		}
		info.HasBDF = true
	}
	text, ok := values["Device Minor"]
	minor, err := strconv.ParseUint(text, 10, 31)
	if !ok {
		return GPUInfo{}, malformed(0, "Device Minor", "no such line")
	}
	if err != nil || minor > maxGPUMinor || strings.HasPrefix(text, "+") {
		return GPUInfo{}, malformed(0, text, "device minor is not 0 to 247")
	}
	info.Minor = int(minor)
	return info, nil
}

// maxGPUMinor is the last minor of major 195 that stands for a GPU; 254 and 255
// are modeset and control (nv-chardev-numbers.h).
const maxGPUMinor = 247

// known returns "" for what the driver writes while it does not know better.
func known(s string) string {
	if strings.Contains(s, "?") {
		return ""
	}
	return s
}

// keyValues reads lines of "Key: value", refusing a key that occurs twice.
func keyValues(text string) (map[string]string, error) {
	out := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if !ok {
			return nil, malformed(number, strings.TrimSpace(line), "no colon")
		}
		if _, twice := out[key]; twice {
			return nil, malformed(number, key, "the key occurs here twice")
		}
		out[key] = strings.TrimSpace(value)
	}
	return out, nil
}

// A Capability is one of the driver's capability files: which node it stands
// for and which permission bits that shall have.
type Capability struct {
	Minor uint32
	Mode  uint32 // permission bits
}

// ParseCapability reads a file below /proc/driver/nvidia/capabilities
// (nv-caps.c). Numbers are decimal, the mode too.
func ParseCapability(text string) (Capability, error) {
	if err := checkText(text); err != nil {
		return Capability{}, err
	}
	values, err := keyValues(text)
	if err != nil {
		return Capability{}, err
	}
	var c Capability
	for _, f := range []struct {
		key  string
		to   *uint32
		most uint64
	}{{"DeviceFileMinor", &c.Minor, device.MaxMinor}, {"DeviceFileMode", &c.Mode, 0o777}} {
		text, ok := values[f.key]
		n, err := strconv.ParseUint(text, 10, 32)
		if !ok {
			return Capability{}, malformed(0, f.key, "no such line")
		}
		if err != nil || n > f.most || strings.HasPrefix(text, "+") {
			return Capability{}, malformed(0, f.key+": "+text, "not a number up to "+strconv.FormatUint(f.most, 10))
		}
		*f.to = uint32(n)
	}
	return c, nil
}

// ParseMIGMinors reads /proc/driver/nvidia-caps/mig-minors: capability names
// like "gpu0/gi1/ci0/access", a space, and the minor of the node. Lines may be
// missing; each that is there has exactly two fields, and no minor twice.
func ParseMIGMinors(text string) (map[string]uint32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	out := make(map[string]uint32, strings.Count(text, "\n"))
	taken := make(map[uint32]string, strings.Count(text, "\n"))
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		if line == "" {
			continue
		}
		name, n, ok := strings.Cut(line, " ")
		minor, err := strconv.ParseUint(n, 10, 32)
		if !ok || name == "" || err != nil || minor > device.MaxMinor || n[0] == '+' {
			return nil, malformed(number, line, "want a name, one space and a minor")
		}
		if _, twice := out[name]; twice {
			return nil, malformed(number, name, "the name occurs here twice")
		}
		if other, twice := taken[uint32(minor)]; twice {
			return nil, malformed(number, line, "the minor belongs to "+other)
		}
		out[name], taken[uint32(minor)] = uint32(minor), name
	}
	return out, nil
}

// ParseOSRelease reads the assignments of /etc/os-release (os-release(5)).
// Lines that are none are ignored, as every reader of that file does.
func ParseOSRelease(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		out[key] = value
	}
	return out
}

var tegraRelease = regexp.MustCompile(`^# (R[0-9]+) \(release\), REVISION: ([0-9.]+),`)

// ParseTegraRelease reads the first line of /etc/nv_tegra_release: "R36", "4.0".
func ParseTegraRelease(text string) (release, revision string, err error) {
	if err := checkText(text); err != nil {
		return "", "", err
	}
	first, _, _ := strings.Cut(text, "\n")
	m := tegraRelease.FindStringSubmatch(first)
	if m == nil {
		return "", "", malformed(1, first, "want \"# R36 (release), REVISION: 4.0, …\"")
	}
	return m[1], m[2], nil
}
