package machine_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// operator makes the test program one that does to a file what programs do to
// files, and prints the errno of each. Nothing is changed where it succeeds.
const operator = "--operate"

func operate(file string) {
	dir := filepath.Dir(file)
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		panic(err)
	}
	with := func(flags int, f func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Open(file, flags|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return f(fd)
		}
	}
	nothing := func(int) error { return nil }
	name := dir + "/gpurig-new"
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"open to read", with(unix.O_RDONLY, nothing)},
		{"open to write", with(unix.O_WRONLY, nothing)},
		{"open to truncate", with(unix.O_WRONLY|unix.O_TRUNC, nothing)},
		{"open to append", with(unix.O_WRONLY|unix.O_APPEND, nothing)},
		{"open with O_DIRECT", with(unix.O_RDONLY|unix.O_DIRECT, nothing)},
		{"open with O_DIRECTORY", with(unix.O_RDONLY|unix.O_DIRECTORY, nothing)},
		{"open with O_EXCL", with(unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, nothing)},
		{"open an unnamed file", func() error { _, err := unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE, 0o600); return err }},
		{"create", func() error { _, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT, 0o600); return err }},
		{"create a name of 255 bytes", func() error {
			_, err := unix.Open(dir+"/"+strings.Repeat("a", 255), unix.O_RDWR|unix.O_CREAT, 0o600)
			return err
		}},
		{"a name of 256 bytes", func() error { return unix.Stat(dir+"/"+strings.Repeat("a", 256), &unix.Stat_t{}) }},
		{"a path of 4096 bytes", func() error { return unix.Stat(dir+strings.Repeat("/.", 2100), &unix.Stat_t{}) }},
		{"below the file", func() error { return unix.Stat(file+"/x", &unix.Stat_t{}) }},
		{"read far behind the end", with(unix.O_RDONLY, func(fd int) error { _, err := unix.Pread(fd, make([]byte, 9), 1<<40); return err })},
		{"map and share", with(unix.O_RDWR, func(fd int) error {
			_, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			return err
		})},
		{"truncate", func() error { return unix.Truncate(file, 0) }},
		{"make longer", func() error { return unix.Truncate(file, 9999) }},
		{"change the mode", func() error { return unix.Chmod(file, st.Mode&0o7777) }},
		{"change the owner", func() error { return unix.Chown(file, int(st.Uid), int(st.Gid)) }},
		{"unlink", func() error { return unix.Unlink(file) }},
		{"rmdir", func() error { return unix.Rmdir(dir) }},
		{"rename", func() error { return unix.Rename(file, name) }},
		{"rename to elsewhere", func() error { return unix.Rename(file, "/gpurig-new") }},
		{"link", func() error { return unix.Link(file, name) }},
		{"symlink", func() error { return unix.Symlink("x", name) }},
		{"mkdir", func() error { return unix.Mkdir(name, 0o700) }},
		{"mkdir of what is there", func() error { return unix.Mkdir(file, 0o700) }},
		{"mknod", func() error { return unix.Mknod(name, unix.S_IFCHR|0o600, 1<<8|3) }},
		{"mkfifo", func() error { return unix.Mkfifo(name, 0o600) }},
		{"lock", with(unix.O_RDONLY, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })},
		{"watch", func() error {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err == nil {
				defer unix.Close(fd)
				_, err = unix.InotifyAddWatch(fd, file, unix.IN_MODIFY)
			}
			return err
		}},
		{"ioctl of a terminal", with(unix.O_RDONLY, func(fd int) error { _, err := unix.IoctlGetTermios(fd, unix.TCGETS); return err })},
		{"ioctl of a file system", with(unix.O_RDONLY, func(fd int) error { _, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); return err })},
		{"sync", with(unix.O_RDONLY, unix.Fsync)},
		{"sync data", with(unix.O_WRONLY, unix.Fdatasync)},
		{"seek to the end", with(unix.O_RDONLY, func(fd int) error { _, err := unix.Seek(fd, 0, unix.SEEK_END); return err })},
		{"seek before the start", with(unix.O_RDONLY, func(fd int) error { _, err := unix.Seek(fd, -1, unix.SEEK_SET); return err })},
		{"run", func() error { return unix.Exec(file, []string{"x"}, nil) }},
		{"chdir", func() error { return unix.Chdir(file) }},
		{"readlink", func() error { _, err := unix.Readlink(file, make([]byte, 9)); return err }},
		{"access to run", func() error { return unix.Access(file, unix.X_OK) }},
	} {
		err := op.do()
		text := "done"
		if no, ok := errors.AsType[unix.Errno](err); ok {
			text = unix.ErrnoName(no)
		} else if err != nil {
			text = err.Error()
		}
		fmt.Printf("%s: %s\n", op.name, text)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(file, &fs); err != nil {
		panic(err)
	}
	fmt.Printf("size %d, %d blocks of %d, names of %d\n", st.Size, st.Blocks, fs.Bsize, fs.Namelen)
}

// What a program cannot do to a file of the kernel's it cannot do to one of a
// machine, and is told so in the same words. The real files are those of the kernel
// that runs this.
func TestFilesRefuseWhatThoseOfTheKernelRefuse(t *testing.T) {
	machinetest.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: what an attribute refuses to others is mode and owner")
	}
	const gpu = "/sys/bus/pci/devices/0000:07:00.0/"
	for _, tc := range []struct {
		name, real, fake string
		// What FUSE cannot refuse in the kernel's words, or what is not modelled.
		but string
	}{
		{name: "an attribute", real: "/sys/class/net/lo/mtu", fake: gpu + "driver_override"},
		{name: "an attribute that is read", real: "/sys/class/net/lo/ifindex", fake: gpu + "vendor"},
		{name: "a real attribute in a machine", real: "/sys/class/net/lo/mtu", fake: "/sys/class/net/lo/mtu", but: "change the mode, change the owner"}, // A41
		{name: "a file of procfs", real: "/proc/filesystems", fake: "/proc/devices", but: "map and share, seek to the end, change the mode, change the owner"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			exe := self(t)
			real, err := exec.Command(exe, operator, tc.real).Output()
			if err != nil {
				t.Fatal(err)
			}
			fake := machinetest.Shell(t, machinetest.Host(t, "dgx-a100"), machine.Options{}, exe+" "+operator+" "+tc.fake)
			have := strings.Split(fake, "\n")
			for i, line := range strings.Split(string(real), "\n") {
				what, _, _ := strings.Cut(line, ":")
				if i >= len(have) || have[i] != line && !(what != "" && strings.Contains(tc.but, what)) {
					t.Errorf("real: %s\nfake: %q", line, have[min(i, len(have)):min(i+1, len(have))])
				}
			}
		})
	}
}
