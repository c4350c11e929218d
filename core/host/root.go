package host

import (
	"io/fs"

	"gpurig/core/device"
)

// A Root is a read-only view of a host: its /sys, /dev and /proc and the driver
// files, under absolute, clean paths.
//
// It says more than fs.FS on purpose: sysfs is made of symbolic links and /dev
// of device numbers, and an fs.FS need carry neither.
//
// No method follows a link in the last component. Links in directories are
// followed inside the root, as chroot(2) would. A missing path is an error that
// errors.Is fs.ErrNotExist.
type Root interface {
	Lstat(path string) (Info, error)       // type, mode, owner, number; no link followed
	Readlink(path string) (string, error)  // the link's text, unresolved
	ReadFile(path string) ([]byte, error)  // whole content, one read; follows links
	ReadDir(path string) ([]string, error) // names, sorted; follows links
}

// An Info is what lstat(2) says of one path.
type Info struct {
	Mode fs.FileMode // type and Bits
	UID  uint32
	GID  uint32
	Size int64
	Num  device.Num // of a device node; else the zero Num
}

// Bits are what chmod(2) sets of a mode: permissions, setuid, setgid and sticky.
const Bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

var unixBits = [...]struct {
	mode fs.FileMode
	unix uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

// UnixBits returns the Bits of a mode as system calls and listings have them: 01777
// of a usual /tmp.
func UnixBits(mode fs.FileMode) uint32 {
	out := uint32(mode.Perm())
	for _, b := range unixBits {
		if mode&b.mode != 0 {
			out |= b.unix
		}
	}
	return out
}

// ModeBits is UnixBits the other way; what is beyond 07777 is left out.
func ModeBits(unix uint32) fs.FileMode {
	out := fs.FileMode(unix) & fs.ModePerm
	for _, b := range unixBits {
		if unix&b.unix != 0 {
			out |= b.mode
		}
	}
	return out
}

// IsLink reports whether the path is a symbolic link.
func (i Info) IsLink() bool { return i.Mode&fs.ModeSymlink != 0 }

// IsDevice reports whether the path is a character or block device node.
func (i Info) IsDevice() bool { return i.Mode&fs.ModeDevice != 0 }

// DeviceType returns the type of a device node.
func (i Info) DeviceType() device.Type {
	if i.Mode&fs.ModeCharDevice != 0 {
		return device.Char
	}
	return device.Block
}
