package vfio

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// What this package reads of sysfs. A text from there is data of a stranger: each
// is parsed before it becomes part of a path or of a write.

const (
	busDevices = "/sys/bus/pci/devices/"
	busDrivers = "/sys/bus/pci/drivers/"
	drivers    = "/sys/bus/pci/drivers_probe"
	mdevs      = "/sys/bus/mdev/devices/"
	groups     = "/sys/kernel/iommu_groups/"
)

func at(b pci.BDF) string { return busDevices + b.String() }

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENODEV)
}

// isName reports whether s can be the name of a driver or of a vGPU type.
func isName(s string) bool {
	ok := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r)
	}
	return len(s) <= 128 && strings.Trim(s, ".") != "" && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
}

// badText refuses what cannot be in sysfs.
func badText(p, text string) error {
	if len(text) > 80 {
		text = text[:80]
	}
	return refuse.New(ReasonBadHost, p, "%s is not what the kernel writes there", strconv.QuoteToASCII(text)).
		WithHint("Look at the file; a bind mount or a broken driver may be in the way.")
}

// attribute reads a text that may be missing, without its newline.
func attribute(r host.Root, p string) (text string, ok bool, err error) {
	data, err := r.ReadFile(p)
	if missing(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", p, err)
	}
	return strings.TrimSuffix(string(data), "\n"), true, nil
}

// number reads an attribute that is a number from 0 and may be missing.
func number(r host.Root, p string) (n int, ok bool, err error) {
	text, ok, err := attribute(r, p)
	if err != nil || !ok {
		return 0, false, err
	}
	if n, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || n < 0 {
		return 0, false, badText(p, text)
	}
	return n, true, nil
}

// linkName returns the last part of a link that may be missing.
func linkName(r host.Root, p string) (name string, ok bool, err error) {
	target, err := r.Readlink(p)
	if missing(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read link %s: %w", p, err)
	}
	return path.Base(target), true, nil
}

// list reads a directory that may be missing.
func list(r host.Root, p string) ([]string, error) {
	names, err := r.ReadDir(p)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p, err)
	}
	return names, nil
}

// bootOf returns the name of the host's present boot, empty where it has none.
func bootOf(r host.Root) (string, error) {
	const p = "/proc/sys/kernel/random/boot_id"
	id, _, err := attribute(r, p)
	if err == nil && id != "" && !isUUID(id) {
		err = badText(p, id)
	}
	return id, err
}

// driverOf returns the driver of a function, empty for none; there says whether
// there is such a function.
func driverOf(r host.Root, b pci.BDF) (name string, there bool, err error) {
	if there, err = host.Exists(r, at(b)); err != nil || !there {
		return "", false, err
	}
	name, ok, err := linkName(r, at(b)+"/driver")
	if err == nil && ok && !isName(name) {
		err = badText(at(b)+"/driver", name)
	}
	return name, true, err
}

// overrideOf returns the only driver that may have a function, empty for any.
func overrideOf(r host.Root, b pci.BDF) (string, error) {
	p := at(b) + "/driver_override"
	text, _, err := attribute(r, p)
	if err != nil || text == "" || text == "(null)" {
		return "", err
	}
	if !isName(text) {
		return "", badText(p, text)
	}
	return text, nil
}

// IsDriver reports whether a driver of this name gives its devices to user space:
// vfio-pci and the drivers for single devices that are made of it.
func IsDriver(driver string) bool {
	return strings.HasSuffix(driver, "vfio-pci") || strings.HasSuffix(driver, "vfio_pci")
}
