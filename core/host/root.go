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
	Mode fs.FileMode // type and permission bits
	UID  uint32
	GID  uint32
	Size int64
	Num  device.Num // of a device node; else the zero Num
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
