// Package agent is the part of the targets that needs a process of its own:
// one that holds a private mount namespace, and one that enters the namespace of a
// running container. Both are run as gpurig-probe, a small static program.
//
// They make no decisions; packages target/sandbox and target/lxc tell them what to do.
package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/mountcall"
	"gpurig/runner/observe"
)

// Ready is what Keep writes when the namespace is set up.
const Ready = "ready\n"

// A Setup says what the kept namespace looks like.
type Setup struct {
	// Scratch is a directory that a tmpfs is mounted on. Nothing of it is seen
	// outside of the namespace, and it is gone with it.
	Scratch string
	// Runtime is where a container runtime keeps its state (liblxc its locks); it
	// gets a tmpfs too. Empty: there is none.
	Runtime string
	// Cgroup is the version that programs shall find: "v1" or "v2".
	Cgroup string
}

const cgroupRoot = "/sys/fs/cgroup"

// Keep sets up the mount namespace that it was started in, says so on out, and
// holds it until in ends: the parent is gone then, however it went (F29).
func Keep(s Setup, in io.Reader, out io.Writer) error {
	outlive()
	if err := private(); err != nil {
		return err
	}
	for _, dir := range []string{s.Scratch, s.Runtime} {
		if dir == "" {
			continue
		}
		if err := mount("gpurig", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return err
		}
	}
	if err := visible(s.Scratch); err != nil {
		return err
	}
	if err := cgroups(s.Cgroup); err != nil {
		return err
	}
	if _, err := io.WriteString(out, Ready); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// outlive leaves it to the parent when to end: a Ctrl-C reaches us too, while the
// parent still has containers to take back.
func outlive() { signal.Ignore(unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP) }

// private proves that no mount of this namespace is shared before the first one
// is made (A41).
func private() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	parent, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid()))
	if err != nil {
		return err
	}
	if own == parent {
		return errors.New("the mount namespace is the parent's: nothing is mounted in it")
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		before, _, _ := strings.Cut(line, " - ")
		if strings.Contains(before, " shared:") || strings.Contains(before, " master:") {
			return fmt.Errorf("a mount is still shared: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

// visible mounts a whole /proc and /sys of the kernel below the scratch directory. A
// container with ids of its own may mount these only where one is in sight that nothing
// is mounted over (mount_too_revealing in the kernel's fs/namespace.c), which is not so
// on a machine whose own are covered in part: inside of another container, say, or on an
// entered host, which covers every other one that is mounted there as well.
func visible(scratch string) error {
	for _, fstype := range []string{"proc", "sysfs"} {
		dir := filepath.Join(scratch, "kernel", fstype)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := unseen(fstype, dir); err == nil {
			continue
		} // the kernel is older than 5.14
		if err := mount(fstype, dir, fstype, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return err
		}
	}
	return nil
}

// unseen mounts a file system of the kernel's without an entered host being told.
func unseen(fstype, dir string) error {
	fd, err := mountcall.New(fstype, mountcall.Unseen|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, [2]string{"source", fstype})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype, target, err)
	}
	return nil
}

// cgroups shows one version only, whatever the machine has booted with.
func cgroups(version string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines, err := observe.ParseMountinfo(string(data))
	if err != nil {
		return err
	}
	have := map[string]string{} // file system type by mount point
	for _, m := range lines {
		if m.Target == cgroupRoot || strings.HasPrefix(m.Target, cgroupRoot+"/") {
			have[m.Target] = m.Type
		}
	}
	if version == "v2" {
		return unified(have)
	}
	return legacy(have)
}

func unified(have map[string]string) error {
	if have[cgroupRoot] == "cgroup2" {
		return nil
	}
	if len(have) > 0 {
		if err := unix.Unmount(cgroupRoot, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", cgroupRoot, err)
		}
	}
	return mount("none", cgroupRoot, "cgroup2", 0, "")
}

// legacy leaves the device controller alone, and no empty folder where another
// one was: every further one costs each start two directories, and crun takes a
// folder for a controller.
func legacy(have map[string]string) error {
	const devices = cgroupRoot + "/devices"
	tree := -1
	if have[devices] == "cgroup" {
		fd, err := unix.OpenTree(unix.AT_FDCWD, devices, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return &os.PathError{Op: "open_tree", Path: devices, Err: err}
		}
		defer unix.Close(fd)
		tree = fd
	}
	if len(have) > 0 {
		if err := unix.Unmount(cgroupRoot, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", cgroupRoot, err)
		}
	}
	if err := mount("gpurig", cgroupRoot, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Clean(devices), 0o755); err != nil {
		return err
	}
	if tree < 0 {
		return mount("cgroup", devices, "cgroup", 0, "devices")
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, devices, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the device controller on %s: %w", devices, err)
	}
	return nil
}
