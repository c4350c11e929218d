package containercli

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/place"
)

// In a cgroup whose program denies every device, those of the rules can be opened,
// by the access that they have, and no others.
func TestAllowV2(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: device programs are attached to a cgroup")
	}
	at := t.TempDir()
	if err := unix.Mount("none", at, "cgroup2", 0, ""); err != nil {
		t.Skipf("no cgroup v2: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	dir, err := os.MkdirTemp(at, "gpurig-test-")
	if err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	cgroup, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	deny, err := load([]insn{{unix.BPF_ALU64 | unix.BPF_MOV, 0, 0, 0}, {unix.BPF_JMP | unix.BPF_EXIT, 0, 0, 0}})
	if err != nil {
		t.Skipf("this machine does not let root load device programs: %v", err)
	}
	defer unix.Close(deny)
	opens := func() string {
		t.Helper()
		cmd := exec.Command("sh", "-c", `true </dev/null && echo null; true </dev/zero && echo zero; true >/dev/null && echo write; true`)
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
		null, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		cmd.Stdin = null
		out, err := cmd.Output()
		if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(out)), " ")
	}
	if err := allowV2(dir, nil); err != nil {
		t.Errorf("a cgroup without a program: %v", err)
	}
	attach(t, cgroup, deny)
	if got := opens(); got != "" {
		t.Fatalf("the program that denies all lets %q be opened", got)
	}
	null := place.Rule{Type: device.Char, Num: device.Num{Major: 1, Minor: 3}, Access: "r"}
	for _, tc := range []struct {
		rules []place.Rule
		want  string
	}{
		{nil, ""},
		{[]place.Rule{null}, "null"},
		{[]place.Rule{{Type: device.Char, Num: device.Num{Major: 9, Minor: 9}, Access: "rw"}, {Type: device.Char, Num: null.Num, Access: "rw"}}, "null write"},
	} {
		if err := allowV2(dir, tc.rules); err != nil {
			t.Fatal(err)
		}
		if got := opens(); got != tc.want {
			t.Errorf("with %v: %q can be opened, want %q", tc.rules, got, tc.want)
		}
	}
}

func attach(t *testing.T, cgroup *os.File, program int) {
	t.Helper()
	a := attachment{target: uint32(cgroup.Fd()), program: uint32(program), kind: unix.BPF_CGROUP_DEVICE, flags: unix.BPF_F_ALLOW_MULTI}
	if err := a.attach(); err != nil {
		t.Fatal(err)
	}
}
