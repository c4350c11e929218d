package driverfs

// vgpuManager makes the package of the vGPU manager
// (NVIDIA-Linux-x86_64-VERSION-vgpu-kvm.run): NVML, what makes vGPUs, and firmware.
// There is no CUDA library, nothing for graphics, and of the modules neither
// nvidia_uvm nor nvidia_modeset, so that containers on such a host get nvidia-smi.
//
// The files are those that packagers take out of 535.247.02, 550.144.02 and
// 570.148.06 (recipes of nvidia-vgpu-16-utils and nvidia-vgpu-18-utils for Arch
// Linux, and a NixOS module for hosts), but for units and manuals, as of every
// driver here.
func (in *installer) vgpuManager() {
	for _, l := range []lib{
		{name: "libnvidia-ml", soname: "1", dev: debian},
		{name: "libnvidia-vgpu"},
		{name: "libnvidia-vgxcfg"},
	} {
		in.driverLibrary(l)
	}
	v, bin := in.u.Version, in.at.bin
	for _, name := range []string{"nvidia-smi", "nvidia-debugdump", "nvidia-modprobe", "nvidia-vgpud", "nvidia-vgpu-mgr", "nvidia-xid-logd"} {
		in.program(bin+"/"+name, v)
	}
	in.file(bin+"/nvidia-bug-report.sh", "#!/bin/sh\necho 'nvidia-bug-report.sh "+v+"'\n", 0o755)
	in.file("/usr/lib/nvidia/sriov-manage", "#!/bin/bash\n", 0o755) // a stand-in, as the libraries are
	in.file(in.at.share+"/nvidia/vgpu/vgpuConfig.xml", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<vgpuconfig version=\"1.0\"/>\n", 0o644)
	in.firmware()
	// Two services come with it: nvidia-vgpud registers the types and ends,
	// nvidia-vgpu-mgr stays, and its unit takes this folder away when it stops.
	in.dir("/run/nvidia-vgpu-mgr")
}
