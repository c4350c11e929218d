package driverfs

import (
	"fmt"
	"path"
	"strings"
)

// data makes firmware and configuration. Bodies are short and their key order
// is unverified; readers want the library name in them.
func (in *installer) data() {
	in.firmware()
	in.icds()
	in.x11()
	v, share := in.u.Version, in.at.share
	in.file(share+"/nvidia/nvoptix.bin", "nvoptix "+v+"\n", 0o644)
	in.file(share+"/nvidia/nvidia-application-profiles-"+v+"-rc", "{}\n", 0o644)
	in.file(share+"/nvidia/nvidia-application-profiles-"+v+"-key-documentation", "application profiles of "+v+"\n", 0o644)
	if in.m.Arch == "x86_64" {
		in.wine()
	}
	if in.fabric() {
		in.fabricManager()
	}
	if in.branch >= 570 {
		in.fileList()
	}
	if in.at.visible != in.at.lib { // NixOS: the links that programs look through
		base := path.Dir(in.at.visible)
		in.mirror(in.at.lib, in.at.visible)
		in.mirror(in.at.share, base+"/share")
		in.mirror(in.at.etc, base+"/etc")
		in.mirror(in.at.firmware+"/"+v, "/run/current-system/firmware/nvidia/"+v)
	}
}

// firmware makes the GSP images. They come for all families, whatever the GPU.
func (in *installer) firmware() {
	names := []string{"gsp_ga10x.bin", "gsp_tu10x.bin"}
	if in.branch == 525 {
		names = append(names, "gsp_ad10x.bin")
	}
	for _, name := range names {
		in.file(in.at.firmware+"/"+in.u.Version+"/"+name, name+" "+in.u.Version+"\n", 0o644)
	}
	if in.m.OS.ID == "debian" { // the reference measurements of confidential computing
		in.file(in.at.share+"/nvidia/rim/"+in.u.Version+"/RIM_GH100PROD.swidtag", "<SoftwareIdentity/>\n", 0o644)
	}
}

// icds makes the files by which loaders of OpenCL, EGL and Vulkan find the
// driver.
func (in *installer) icds() {
	share := in.at.share
	in.file(in.at.etc+"/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n", 0o644)
	in.file(share+"/glvnd/egl_vendor.d/10_nvidia.json", icdJSON("1.0.0", "libEGL_nvidia.so.0", ""), 0o644)
	icd := "nvidia_icd.json"
	if !in.at.debian {
		icd = "nvidia_icd." + in.m.Arch + ".json"
	}
	in.file(share+"/vulkan/icd.d/"+icd, icdJSON("1.0.1", "libGLX_nvidia.so.0", in.vulkan()), 0o644)
	in.file(share+"/vulkan/implicit_layer.d/nvidia_layers.json", layersJSON(in.vulkan()), 0o644)
	if in.branch >= 570 && in.m.Arch == "x86_64" {
		in.file(share+"/vulkansc/icd.d/nvidia_icd."+in.m.Arch+".json", icdJSON("1.0.1", "libnvidia-vksc-core.so.1", "1.0.10"), 0o644)
	}
	prefix := map[string]string{"wayland": "10", "gbm": "15", "xcb": "20", "xlib": "20"}
	for _, l := range in.eglPlatforms() {
		p := share + "/egl/egl_external_platform.d/" + prefix[l.name] + "_nvidia_" + l.name + ".json"
		in.file(p, icdJSON("1.0.0", "libnvidia-egl-"+l.name+".so.1", ""), 0o644)
	}
}

// vulkan returns the API version in the ICD file; unverified.
func (in *installer) vulkan() string {
	switch {
	case in.branch >= 580:
		return "1.4.312"
	case in.branch >= 570:
		return "1.4.303"
	case in.branch >= 550:
		return "1.3.277"
	}
	return "1.3.242"
}

func icdJSON(format, library, api string) string {
	if api != "" {
		api = fmt.Sprintf(",\n        \"api_version\" : %q", api)
	}
	return fmt.Sprintf("{\n    \"file_format_version\" : %q,\n    \"ICD\": {\n        \"library_path\": %q%s\n    }\n}\n", format, library, api)
}

func layersJSON(api string) string {
	return fmt.Sprintf(`{
    "file_format_version" : "1.0.0",
    "layer": {
        "name": "VK_LAYER_NV_optimus",
        "type": "INSTANCE",
        "library_path": "libGLX_nvidia.so.0",
        "api_version" : %q,
        "implementation_version" : "1"
    }
}
`, api)
}

// x11 makes the X server's configuration: Debian's family has the snippet of
// NVIDIA's installer, RPM packages name it otherwise.
func (in *installer) x11() {
	text := `Section "OutputClass"
    Identifier "nvidia"
    MatchDriver "nvidia-drm"
    Driver "nvidia"
    ModulePath "` + in.at.glx + `"
EndSection
`
	if in.at.debian {
		in.file(in.at.share+"/X11/xorg.conf.d/nvidia-drm-outputclass.conf", text, 0o644)
	} else {
		in.file(in.at.etc+"/X11/xorg.conf.d/10-nvidia.conf", text, 0o644)
	}
}

// wine makes the libraries for Windows programs.
func (in *installer) wine() {
	names := []string{"_nvngx.dll", "nvngx.dll"}
	if in.branch >= 570 {
		names = append(names, "nvngx_dlssg.dll")
	}
	for _, name := range names {
		in.file(in.at.lib+"/nvidia/wine/"+name, "MZ "+name+" "+in.u.Version+"\n", 0o644)
	}
}

// fabricManager makes the data of the Fabric Manager package.
func (in *installer) fabricManager() {
	dir := in.at.share + "/nvidia/nvswitch/"
	in.file(dir+"fabricmanager.cfg", "DAEMONIZE=1\nFABRIC_MODE=0\nUNIX_SOCKET_PATH=/run/nvidia-fabricmanager/socket\n", 0o644)
	for _, name := range []string{"dgx2_hgx2", "dgxa100_hgxa100", "dgxh100_hgxh100", "dgxh800_hgxh800"} {
		in.file(dir+name+"_topology", name+" "+in.u.Version+"\n", 0o644)
	}
}

// fileList makes the driver's own list of its files, for libnvidia-sandboxutils.
// Its form is unverified.
func (in *installer) fileList() {
	names, err := in.t.ReadDir(in.root + in.at.lib)
	in.do(err)
	var files []string
	for _, name := range names {
		if strings.HasSuffix(name, ".so."+in.u.Version) {
			files = append(files, fmt.Sprintf("    {\"path\": %q}", in.at.lib+"/"+name))
		}
	}
	in.file(in.at.share+"/nvidia/files.d/sandboxutils-filelist.json",
		fmt.Sprintf("{\n  \"version\": %q,\n  \"files\": [\n%s\n  ]\n}\n", in.u.Version, strings.Join(files, ",\n")), 0o644)
}

// daemons makes what running services leave: sockets, pid files, pipes.
func (in *installer) daemons() {
	if in.u.Persist {
		in.dir("/run/nvidia-persistenced")
		// The daemon clears its umask, so everybody may connect.
		in.do(in.t.Socket(in.root+"/run/nvidia-persistenced/socket", 0o777))
		in.file("/run/nvidia-persistenced/nvidia-persistenced.pid", "812\n", 0o644)
	}
	if in.u.Fabric {
		in.dir("/run/nvidia-fabricmanager")
		in.do(in.t.Socket(in.root+"/run/nvidia-fabricmanager/socket", 0o700))
		if len(in.m.NVSwitches) == 0 { // switches that are no PCI functions have a subnet manager beside it
			in.do(in.t.Socket(in.root+"/run/nvidia-fabricmanager/fm_sm_ipc.socket", 0o700))
		}
	}
	if in.u.MPS {
		const pipes = "/tmp/nvidia-mps"
		in.dir(pipes)
		in.do(in.t.Fifo(in.root+pipes+"/control", 0o666))
		in.do(in.t.Fifo(in.root+pipes+"/log", 0o666))
		in.file(pipes+"/control_lock", "", 0o666)
		in.file(pipes+"/nvidia-cuda-mps-control.pid", "1043\n", 0o644)
	}
	if in.imex() { // paths are unverified
		in.dir("/run/nvidia-imex")
		in.file("/etc/nvidia-imex/config.cfg", "SERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n", 0o644)
		in.file("/etc/nvidia-imex/nodes_config.cfg", "192.0.2.1\n192.0.2.2\n", 0o644)
	}
}
