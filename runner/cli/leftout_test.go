package cli

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"gpurig/fakehw/disk"
)

// What could not be made of a tree is a line for each reason, not for each file.
func TestWhatWasLeftOutIsOneLineForEachReason(t *testing.T) {
	got := leftOut([]disk.Missing{
		{Path: "/dev/nvidia0", What: "char 195:0", Err: disk.ErrNotAsked},
		{Path: "/dev/nvidiactl", What: "char 195:255", Err: disk.ErrNotAsked},
		{Path: "/dev/odd", What: "char 1:2", Err: syscall.ENOSPC},
		{Path: "/etc", What: "owner 0:0", Err: syscall.EPERM},
		{Path: "/run", What: "owner 0:0", Err: &os.SyscallError{Syscall: "fchownat", Err: syscall.EPERM}},
		{Path: "/usr", What: "owner 0:0", Err: syscall.EPERM},
	})
	want := []string{
		"2 device nodes, such as /dev/nvidia0 (char 195:0): that takes root",
		"/dev/odd: char 1:2: no space left on device",
		"3 owners, such as /etc (owner 0:0): that takes root",
	}
	if !slices.Equal(got, want) {
		t.Errorf("leftOut() = %q, want %q", got, want)
	}
}
