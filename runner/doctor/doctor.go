// Package doctor finds out by trying what this machine can run, and says how
// to enable the rest. It leaves no changes behind.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/lxc"
	"gpurig/core/host"
	"gpurig/fakehw/cachedir"
	"gpurig/fakehw/live"
	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/qemu"
	"gpurig/scenarios"
)

// A State is one of three answers.
type State string

// The answers: yes, no, and could not find out.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// A Check is one ability of the machine.
type Check struct {
	Name   string `json:"name"`           // "lxc"
	For    string `json:"for"`            // what needs it
	State  State  `json:"state"`          //
	Detail string `json:"detail"`         // version found, or what is in the way
	Hint   string `json:"hint,omitempty"` // how to make it able, one sentence
	// Has is what the machine has of what scenarios of hardware need; nil: the check is
	// of something else, or could not find out.
	Has *scenarios.Supply `json:"has,omitempty"`
}

// Examine makes all checks, in a fixed order.
func Examine(ctx context.Context) []Check {
	return []Check{
		simulator(),
		generation(),
		machine(ctx),
		mounting(),
		root(),
		ofLXC(program(ctx, "lxc", "real LXC containers", "lxc-start", []string{"--version"}, "apt-get install lxc")),
		program(ctx, "idmap", "idmapped containers", "newuidmap", nil, "apt-get install uidmap"),
		program(ctx, "runc", "containers of OCI runtimes", "runc", []string{"--version"}, "apt-get install runc"),
		program(ctx, "crun", "the tests of OCI runtimes", "crun", []string{"--version"}, "apt-get install crun"),
		program(ctx, "lxd", "containers of LXD", lxdapi.LXD.Daemon(), []string{"--version"}, "apt-get install lxd"),
		program(ctx, "incus", "containers of Incus", lxdapi.Incus.Daemon(), []string{"--version"}, "apt-get install incus-base, on Debian 12 from bookworm-backports"),
		program(ctx, "docker", "containers of Docker", "dockerd", []string{"--version"}, "apt-get install docker.io"),
		program(ctx, "podman", "containers of Podman", "podman", []string{"--version"}, "apt-get install podman"),
		vm(ctx),
		beside("cdi-hook"),
		landlock(),
		seccomp(),
		beside("gpurig-probe"),
		beside("gpurig-smoke"),
		cgroup(1),
		cgroup(2),
		file("busybox", "the images of real containers", "/bin/busybox", "apt-get install busybox-static"),
		musl(),
		gpu(),
	}
}

func simulator() Check {
	return Check{Name: "sim", For: "simulated containers", State: Yes, Detail: "needs no privilege"}
}

func generation() Check {
	c := Check{Name: "spec-generation", For: "CDI Specs of hosts that have no golden Spec", State: Yes, Detail: "in a private namespace"}
	if err := mntns.Able(); err != nil {
		c.State, c.Detail = No, oneLine(err)
		var e *mntns.Error
		if errors.As(err, &e) {
			c.Hint = e.Hint
		}
	}
	return c
}

// machine enters the smallest host to see whether any can be.
func machine(ctx context.Context) Check {
	c := Check{Name: "machine", For: "gpurig host enter, host mount with a command, and as root target vfio", State: Yes, Detail: "a fake machine was entered"}
	if os.Geteuid() != 0 {
		c.Detail += ", whose nodes are seen and cannot be opened"
	}
	if _, err := os.Stat("/proc/modules"); err != nil {
		c.Detail += "; no host has /proc/modules here, as this kernel has none"
	}
	err := enter(ctx)
	var e *fakemachine.Error
	if errors.As(err, &e) {
		c.Hint = e.Hint
	}
	if err != nil {
		c.State, c.Detail = No, oneLine(err)
	}
	return c
}

func enter(ctx context.Context) error {
	p, err := profiles.Load("no-gpu")
	if err != nil {
		return err
	}
	m, err := p.Model()
	if err != nil {
		return err
	}
	h, err := live.New(m, live.Options{})
	if err != nil {
		return err
	}
	_, err = fakemachine.Enter(ctx, h, fakemachine.Options{Command: []string{"/bin/true"}, Warn: io.Discard})
	return err
}

// mounting looks for what a mount for more than one command takes.
func mounting() Check {
	c := Check{Name: "mount", For: "gpurig host mount without a command", State: Yes, Detail: "/dev/fuse"}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		c.State, c.Detail, c.Hint = No, oneLine(err), "as root: modprobe fuse; in a container, let it have /dev/fuse"
		return c
	}
	f.Close()
	if os.Geteuid() != 0 {
		p, err := exec.LookPath("fusermount3")
		if c.Detail = p; err != nil {
			c.State, c.Detail, c.Hint = No, "fusermount3 is not installed", "as root: apt-get install fuse3"
		}
	}
	return c
}

func root() Check {
	c := Check{Name: "root", For: "real containers", State: Yes, Detail: "running as root"}
	if os.Geteuid() != 0 {
		c.State, c.Detail, c.Hint = No, fmt.Sprintf("running as user %d", os.Geteuid()), "run gpurig as root, or with sudo"
	}
	return c
}

func program(ctx context.Context, name, use, prog string, version []string, install string) Check {
	c := Check{Name: name, For: use, State: Yes}
	p, err := exec.LookPath(prog)
	if err != nil {
		c.State, c.Detail, c.Hint = No, prog+" is not installed", "as root: "+install
		return c
	}
	c.Detail = p
	if version != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, p, version...).Output()
		if err != nil {
			c.State, c.Detail = Unknown, fmt.Sprintf("%s does not answer: %s", p, oneLine(err))
			return c
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		c.Detail = p + ", version " + strings.TrimPrefix(strings.TrimPrefix(first, name+" version "), "Docker version ")
	}
	return c
}

// vm looks for what target qemu boots virtual machines of.
func vm(ctx context.Context) Check {
	c := Check{Name: "qemu", For: "virtual machines that boot, by emulation", State: Yes}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p, err := qemu.Find(ctx, "")
	if c.Detail = p.String(); err != nil {
		c.State, c.Detail = No, oneLine(err)
		if e, ok := errors.AsType[*target.CannotError](err); ok {
			c.Detail, c.Hint = e.Why, e.Hint
		}
	}
	return c
}

// ofLXC says what an LXC cannot have.
func ofLXC(c Check) Check {
	_, text, _ := strings.Cut(c.Detail, ", version ")
	if v, err := lxc.ParseVersion(text); err == nil && !v.CgroupV1() {
		c.For = "real LXC containers, with cgroup v2 only"
		c.Hint = "scenarios with cgroup v1 are skipped on it; a machine that mounts v1 starts its containers only where v2 is mounted for them, as the targets do"
	}
	return c
}

func beside(name string) Check {
	p, err := cachedir.Beside(name)
	c := Check{Name: name, For: "real containers", State: Yes, Detail: p}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.State, c.Detail, c.Hint = No, p+" is not there", "make build"
	case err != nil:
		c.State, c.Detail, c.Hint = No, err.Error(), "install gpurig again, or make build"
	}
	return c
}

func file(name, use, p, install string) Check {
	c := Check{Name: name, For: use, State: Yes, Detail: p}
	if _, err := os.Stat(p); err != nil {
		c.State, c.Detail, c.Hint = No, p+" is not there", install
	}
	return c
}

// landlock and seccomp are limits that cdi-hook gives itself where it can.
func landlock() Check {
	const version = 1 // asks for it in place of making a ruleset
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	return limit("landlock", fmt.Sprintf("version %d", n), errno, "boot a kernel of 5.13 or later with landlock in its lsm= list")
}

func seccomp() Check {
	action, actionAvailable := uint32(unix.SECCOMP_RET_ERRNO), uintptr(2)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, actionAvailable, 0, uintptr(unsafe.Pointer(&action)))
	return limit("seccomp", "system call filters", errno, "boot a kernel with CONFIG_SECCOMP_FILTER")
}

func limit(name, detail string, errno syscall.Errno, hint string) Check {
	c := Check{Name: name, For: "a limit that cdi-hook gives itself; it works without", State: Yes, Detail: detail}
	if errno != 0 {
		c.State, c.Detail, c.Hint = No, errno.Error(), hint
	}
	return c
}

func musl() Check {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return file("musl", "images with musl in place of glibc", "/lib/ld-musl-"+arch+".so.1", "apt-get install musl")
}

// cgroup says whether containers can be given device rules of that version: as
// the machine is mounted, or in a private mount namespace.
func cgroup(version int) Check {
	c := Check{Name: fmt.Sprintf("cgroup-v%d", version), For: fmt.Sprintf("containers with cgroup v%d device rules", version), State: Yes}
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err != nil {
		c.State, c.Detail = Unknown, "/sys/fs/cgroup: "+err.Error()
		return c
	}
	unified := st.Type == unix.CGROUP2_SUPER_MAGIC
	switch {
	case version == 2 && unified:
		c.Detail = "mounted at /sys/fs/cgroup"
	case version == 2:
		c.Detail = "mounted in a private mount namespace for each run"
		if os.Geteuid() != 0 {
			c.State, c.Detail, c.Hint = No, "this machine mounts cgroup v1, and only root can mount v2 beside it", "run gpurig as root"
		}
	case unified:
		c.State, c.Detail, c.Hint = No, "this machine mounts cgroup v2 only", "boot with systemd.unified_cgroup_hierarchy=0 if v1 is wanted"
	default:
		if _, err := os.Stat("/sys/fs/cgroup/devices"); err != nil {
			c.State, c.Detail = No, "no devices controller at /sys/fs/cgroup/devices"
		} else {
			c.Detail = "mounted at /sys/fs/cgroup/devices"
		}
	}
	return c
}

// Hardware says what scenarios of hardware find on a machine of that model.
func Hardware(m host.Model) Check {
	has := scenarios.SupplyOf(m)
	c := Check{Name: "hardware", For: "scenarios on real hardware, by what they need", State: Yes, Detail: has.String(), Has: &has}
	if len(has.GPUs) == 0 {
		c.State, c.Detail = No, strings.TrimSuffix("no GPU that can be used, "+c.Detail, ", ")
	}
	return c
}

// gpu looks for hardware, opening nothing.
func gpu() Check {
	c := Check{Name: "gpu", For: "scenarios on real hardware", State: No, Detail: "no display function below /sys/bus/pci/devices has a driver"}
	names, err := filepath.Glob("/sys/bus/pci/devices/*/class")
	if err != nil {
		c.State, c.Detail = Unknown, err.Error()
		return c
	}
	var found []string
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil || !strings.HasPrefix(string(data), "0x03") {
			continue
		}
		if driver, err := os.Readlink(filepath.Join(filepath.Dir(n), "driver")); err == nil {
			found = append(found, filepath.Base(filepath.Dir(n))+" "+filepath.Base(driver))
		}
	}
	if len(found) > 0 {
		c.State, c.Detail = Yes, strings.Join(found, ", ")
	}
	return c
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
