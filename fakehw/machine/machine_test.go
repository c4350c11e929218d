package machine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/live"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/profiles"
)

func TestMain(m *testing.M) {
	machine.Init()
	if len(os.Args) > 2 && os.Args[1] == enterer {
		os.Exit(enter(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) == 3 && os.Args[1] == operator {
		operate(os.Args[2])
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == mounter {
		if err := mountAnew(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// enterer makes the test program one that enters a host: for tests of what
// happens to it, and of who it may be.
const enterer = "--enter"

func enter(profile string, command []string) int {
	p, err := profiles.Load(profile)
	if err != nil {
		panic(err)
	}
	m, err := p.Model()
	if err != nil {
		panic(err)
	}
	h, err := live.New(m, live.Options{})
	if err != nil {
		panic(err)
	}
	out, err := machine.Enter(context.Background(), h, machine.Options{Name: profile, Command: command})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if e, ok := errors.AsType[*machine.Error](err); ok && e.Hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", e.Hint)
		}
		return max(out.Exit, 1)
	}
	return out.Exit
}

func TestACommandFindsTheHost(t *testing.T) {
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		h := machinetest.Host(t, "dgx-a100")
		got := machinetest.Shell(t, h, o, `
			cat /sys/bus/pci/devices/0000:07:00.0/vendor
			basename $(readlink -f /sys/bus/pci/devices/0000:07:00.0/driver)
			stat -c '%F %t:%T %a' /dev/nvidia7
			head -1 /proc/driver/nvidia/version
			test ! -e /proc/modules || grep -q '^nvidia ' /proc/modules
			grep -c ' nvidia' /proc/devices
			grep -ow iommu=pt /proc/cmdline
			ls /lib/firmware/nvidia/
			/sbin/ldconfig -p | grep -ow 'libnvidia-ml.so.1 (libc6,x86-64)'
			test -d /sys/class/net/lo && test -d /sys/block && test -d /sys/module/kernel && test -d /sys/fs/cgroup && echo the rest`)
		want := `0x10de
nvidia
character special file c3:7 666
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 19:41:24 UTC 2023
`
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "iommu=pt\n535.113.01\nlibnvidia-ml.so.1 (libc6,x86-64)\nthe rest\n") {
			t.Errorf("inside: %s\nwant it to begin with %s", got, want)
		}
	})
}

// The machine has one /sys, and each file system below it once, as any machine
// has: programs look for the place of their cgroups in the table of mounts.
func TestTheTableOfMountsHasOneSys(t *testing.T) {
	machinetest.RequireNodes(t) // a user namespace cannot unmount what it was given
	const list = `awk '$5 ~ "^/sys(/|$)" {print $5}' /proc/self/mountinfo | sort`
	outside, err := exec.Command("sh", "-c", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := machinetest.Shell(t, machinetest.Host(t, "t4-server"), machine.Options{}, list); got != string(outside) {
		t.Errorf("mounts inside:\n%s\noutside:\n%s", got, outside)
	}
}

func TestExitCodes(t *testing.T) {
	machinetest.Require(t)
	h := machinetest.Host(t, "no-gpu")
	for _, tc := range []struct {
		name    string
		command []string
		want    int
		start   bool
	}{
		{name: "success", command: []string{"true"}},
		{name: "its own", command: []string{"sh", "-c", "exit 42"}, want: 42},
		{name: "a signal", command: []string{"sh", "-c", "kill -KILL $$"}, want: 137},
		{name: "not found", command: []string{"/no/such/command"}, want: 127, start: true},
		{name: "not in PATH", command: []string{"no-such-command"}, want: 127, start: true},
		{name: "not executable", command: []string{"/etc/passwd"}, want: 126, start: true},
		{name: "a directory", command: []string{"/etc"}, want: 126, start: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := machine.Enter(t.Context(), h, machine.Options{Command: tc.command})
			if out.Exit != tc.want || errors.Is(err, machine.ErrStart) != tc.start || (err != nil) != tc.start {
				t.Errorf("Enter(%q) = %d, %v; want %d", tc.command, out.Exit, err, tc.want)
			}
		})
	}
}

// What makes a live file may look at the host, and sees each change of it; one
// that happens while the machine is set up is in it, too.
func TestLiveFilesFollowTheHost(t *testing.T) {
	machinetest.Require(t)
	h := machinetest.Host(t, "dgx-a100")
	o := machine.Options{Live: map[string]func(host.Model) []byte{"gpus": func(m host.Model) []byte {
		now := h.Model() // takes the host's lock
		return fmt.Appendf(nil, "%d %d\n", len(m.GPUs), len(now.GPUs))
	}}}
	before := h.Model()
	if got := machinetest.Shell(t, h, o, `cat /run/gpurig/gpus; echo 1 > /sys/bus/pci/devices/0000:07:00.0/remove; cat /run/gpurig/gpus; ls /dev/nvidia0 2>&1 || true`); got !=
		fmt.Sprintf("%d %[1]d\n%d %[2]d\nls: cannot access '/dev/nvidia0': No such file or directory\n", len(before.GPUs), len(before.GPUs)-1) {
		t.Errorf("inside: %s", got)
	}
	if n := len(h.Model().GPUs); n != len(before.GPUs)-1 {
		t.Errorf("%d GPUs are left", n)
	}
}
