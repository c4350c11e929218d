package driverfs

import (
	"io/fs"
	"path"
)

// tools makes the programs. Those of the IMEX, Fabric Manager and DCGM packages
// come with the hardware that needs them.
func (in *installer) tools() {
	list := []string{
		"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
		"nvidia-modprobe", "nvidia-settings", "nvidia-xconfig", "nvidia-bug-report.sh", "nvidia-ngx-updater", "nvidia-powerd",
	}
	if in.branch >= 570 && in.m.Arch == "x86_64" {
		list = append(list, "nvidia-pcc")
	}
	if in.branch < 610 {
		list = append(list, "nvidia-sleep.sh")
	}
	if in.fabric() {
		list = append(list, "nv-fabricmanager", "nvswitch-audit")
	}
	if in.imex() {
		list = append(list, "nvidia-imex", "nvidia-imex-ctl")
	}
	for _, name := range list {
		p := in.at.bin + "/" + name
		if path.Ext(name) == ".sh" {
			in.file(p, "#!/bin/sh\necho '"+name+" "+in.u.Version+"'\n", 0o755)
		} else {
			in.program(p, in.u.Version)
		}
		if name == "nvidia-modprobe" && !in.nix() { // it makes nodes for users; a store has no setuid files
			in.do(in.t.Chmod(in.root+p, 0o755|fs.ModeSetuid))
		}
		if in.nix() {
			in.link("/run/current-system/sw/bin/"+name, p)
		}
	}
}

// IMEXChannels is the folder of the nodes of IMEX channels.
const IMEXChannels = "/dev/nvidia-caps-imex-channels"

// imex reports whether the machine is a member of an IMEX domain.
func (in *installer) imex() bool {
	for _, n := range in.m.Nodes {
		if path.Dir(n.Path) == IMEXChannels {
			return true
		}
	}
	return false
}
