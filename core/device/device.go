// Package device has types for Linux device nodes: numbers, node types and the
// nodes themselves. It opens no file.
package device

import (
	"encoding"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A Num is a kernel device number, major:minor.
//
// The zero Num means "not known". That is safe because Linux keeps major 0 for
// unnamed devices, while minor 0 is an ordinary minor (/dev/dri/card0 is 226:0):
// ask Known, never compare Minor with 0.
type Num struct{ Major, Minor uint32 }

// Limits of a Linux dev_t as user space can use it (include/linux/kdev_t.h: 12
// bits of major, 20 bits of minor).
const (
	MaxMajor = 1<<12 - 1
	MaxMinor = 1<<20 - 1
)

var (
	_ encoding.TextMarshaler   = Num{}
	_ encoding.TextUnmarshaler = (*Num)(nil)
)

// Known reports whether n is a real device number.
func (n Num) Known() bool { return n.Major != 0 }

// String returns "195:0".
func (n Num) String() string {
	var room [21]byte
	out := strconv.AppendUint(room[:0], uint64(n.Major), 10)
	return string(strconv.AppendUint(append(out, ':'), uint64(n.Minor), 10))
}

// MarshalText writes "195:0".
func (n Num) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads "195:0" within the limits of dev_t.
func (n *Num) UnmarshalText(t []byte) error {
	v, err := ParseNum(string(t))
	if err == nil {
		*n = v
	}
	return err
}

// ParseNum reads "195:0". Major and minor must be within MaxMajor and MaxMinor.
func ParseNum(s string) (Num, error) {
	a, b, ok := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(a, 10, 32)
	minor, err2 := strconv.ParseUint(b, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return Num{}, fmt.Errorf("device number %q: want major:minor, two decimal numbers", s)
	}
	if major > MaxMajor || minor > MaxMinor {
		return Num{}, fmt.Errorf("device number %q: the major is at most %d, the minor at most %d", s, MaxMajor, MaxMinor)
	}
	return Num{Major: uint32(major), Minor: uint32(minor)}, nil
}

// A Type is 'c' or 'b', as mknod(1) and CDI write it.
type Type string

// The two types of device node. CDI's "u" is a Char.
const (
	Char  Type = "c"
	Block Type = "b"
)

// A Node is one device node with all that stat(2) says of it.
type Node struct {
	Path string      `json:"path" yaml:"path"` // absolute, clean
	Type Type        `json:"type" yaml:"type"`
	Num  Num         `json:"number" yaml:"number"`
	Mode fs.FileMode `json:"mode" yaml:"mode"` // permission bits only
	UID  uint32      `json:"uid" yaml:"uid"`
	GID  uint32      `json:"gid" yaml:"gid"`
}
