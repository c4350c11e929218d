package runner

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// processorLevel is the x86-64 level of this machine, 1 to 4, as the psABI has it and
// glibc takes glibc-hwcaps by; 0: it is no x86-64.
func processorLevel() int {
	x := &cpu.X86
	switch {
	case runtime.GOARCH != "amd64":
		return 0
	case !(x.HasSSE3 && x.HasSSSE3 && x.HasSSE41 && x.HasSSE42 && x.HasPOPCNT):
		return 1
	case !(x.HasAVX && x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasFMA && x.HasOSXSAVE):
		return 2
	case !(x.HasAVX512F && x.HasAVX512BW && x.HasAVX512CD && x.HasAVX512DQ && x.HasAVX512VL):
		return 3
	}
	return 4
}
