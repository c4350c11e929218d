package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/policy"
)

// miscMajor is the major that many small drivers share; /proc/misc tells them
// apart by minor.
const miscMajor = 10

// drivers reads /proc/devices and /proc/misc once.
func (l *look) drivers() error {
	if l.majors != nil || l.procs != nil {
		return l.procs
	}
	data, err := l.root.ReadFile("/proc/devices")
	if err != nil {
		l.procs = fmt.Errorf("read /proc/devices: %w", err)
		return l.procs
	}
	if l.majors, l.blocks, err = majors(string(data)); err != nil {
		l.majors, l.blocks, l.procs = nil, nil, err
		return err
	}
	// A kernel without misc devices has no such file; then major 10 has no names.
	if data, err = l.root.ReadFile("/proc/misc"); err == nil {
		l.misc = miscMinors(string(data))
	}
	return nil
}

// majors reads /proc/devices: one "major name" a line, character devices first,
// then block devices; a major may be there several times under different names.
func majors(text string) (chars, blocks map[uint32][]string, err error) {
	chars, blocks = map[uint32][]string{}, map[uint32][]string{}
	var section map[uint32][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "Character devices:":
			section = chars
		case line == "Block devices:":
			section = blocks
		case section != nil && line != "":
			number, name, ok := strings.Cut(line, " ")
			major, err := strconv.ParseUint(number, 10, 32)
			if !ok || err != nil || major > device.MaxMajor {
				return nil, nil, fmt.Errorf("/proc/devices: line %s is not a major and a name", quote(line))
			}
			section[uint32(major)] = append(section[uint32(major)], strings.TrimSpace(name))
		}
	}
	return chars, blocks, nil
}

// miscMinors reads /proc/misc: one "minor name" a line. Other lines are skipped.
func miscMinors(text string) map[uint32]string {
	minors := map[uint32]string{}
	for line := range strings.Lines(text) {
		number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if minor, err := strconv.ParseUint(number, 10, 32); ok && err == nil {
			minors[uint32(minor)] = strings.TrimSpace(name)
		}
	}
	return minors
}

// nullCopy is a copy of /dev/null under another name, as Jetson's
// /dev/v4l2-nvdec is. Nothing can be done with it.
var nullCopy = device.Num{Major: 1, Minor: 3}

// allowed reports whether the policy gives containers the device n, and by
// which names the host knows it.
func (l *look) allowed(pol policy.Policy, t device.Type, n device.Num) (names []string, ok bool, err error) {
	if t == device.Char && n == nullCopy {
		return []string{"null"}, true, nil
	}
	if err := l.drivers(); err != nil {
		return nil, false, err
	}
	if t == device.Block {
		names = l.blocks[n.Major]
		return names, slices.ContainsFunc(names, func(name string) bool { _, ok := pol.Block(name); return ok }), nil
	}
	if n.Major == miscMajor {
		name := l.misc[n.Minor]
		if name == "" {
			return nil, false, nil
		}
		_, ok := pol.Misc(name, l.isTegra())
		return []string{name}, ok, nil
	}
	names = l.majors[n.Major]
	for _, name := range names {
		if _, ok := pol.Driver(name, l.isTegra()); ok {
			return names, true, nil
		}
	}
	return names, false, nil
}
