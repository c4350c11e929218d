// Package smi has the programs of NVIDIA's driver that query and change a host:
// nvidia-smi and nvidia-modprobe, small C programs that are compiled when
// they are needed, and sriov-manage, a script.
//
// nvidia-smi loads libnvidia-ml.so.1 as the real one does and knows only
// what that answers. The exception is a GPU reset, for which NVML has no call: it uses
// the host's control channel (package control). Output follows the driver's
// branch: the tables of 525, 535, 550, 570 and 580 differ, and -q -x prints the elements
// that captures of real machines have. Processes are never
// listed: what programs do on a fake GPU is not known.
//
// Names, tables, messages and exit codes are those of public output and of
// https://docs.nvidia.com/deploy/nvidia-smi and
// https://docs.nvidia.com/datacenter/tesla/mig-user-guide; what could not be
// compared with either is marked in csrc as unverified.
package smi

import (
	"context"
	"embed"

	"gpurig/fakehw/clib"
	"gpurig/fakehw/nvmllib"
)

// Where a driver installs them.
const (
	Path            = "/usr/bin/nvidia-smi"
	ModprobePath    = "/usr/bin/nvidia-modprobe"
	SRIOVManagePath = "/usr/lib/nvidia/sriov-manage"
)

var (
	//go:embed csrc/*.c csrc/*.h
	sources embed.FS
	//go:embed modprobe/*.c
	modprobe embed.FS
	//go:embed sriov-manage
	manage []byte
)

// Build compiles nvidia-smi, once per content, and returns its path; see
// clib.Program. An empty dir is gpurig/smi in the user's cache folder. Without a
// C compiler the error is a clib.ErrNoCompiler.
func Build(ctx context.Context, dir string) (string, error) { return program().Build(ctx, dir) }

// BuildModprobe is Build of nvidia-modprobe.
func BuildModprobe(ctx context.Context, dir string) (string, error) {
	return clib.Program{
		Name:    "nvidia-modprobe",
		Cache:   "modprobe",
		Sources: []clib.Sources{{FS: modprobe, Pattern: "modprobe/*"}, nvmllib.Channel()},
	}.Build(ctx, dir)
}

func program() clib.Program {
	return clib.Program{
		Name:    "nvidia-smi",
		Cache:   "smi",
		Sources: []clib.Sources{{FS: sources, Pattern: "csrc/*"}, nvmllib.Channel()},
		Flags:   []string{"-Wno-format-truncation"}, // cells are cut to their width on purpose
		Libs:    []string{"-ldl"},
	}
}

// SRIOVManage returns the text of sriov-manage, an executable shell script that
// makes and removes the virtual functions of GPUs.
func SRIOVManage() []byte { return append([]byte(nil), manage...) }
