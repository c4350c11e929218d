package driverfs

// A library of the driver. Its file is NAME.so.V, V the driver's version,
// unless it says otherwise.
type lib struct {
	name   string // "libcuda"
	soname string // end of the SONAME link: "1"; empty: no link, the SONAME is the file's name
	dev    dev
	since  int    // first branch that has it; zero: all
	until  int    // last branch that has it; zero: still there
	arch   string // only there; empty: everywhere
	sub    string // folder below the library folder
	plain  bool   // the file itself has the SONAME as its name
	only   func(*installer) bool
}

// dev says who ships the development link NAME.so.
type dev int

const (
	none dev = iota
	every
	debian
)

// drivers are the libraries of the driver package, by purpose. Since and until
// are by the RPM file lists of 535, 550, 570, 580 and 610.
var drivers = []lib{
	// compute
	{name: "libcuda", soname: "1", dev: every},
	{name: "libcudadebugger", soname: "1"},
	{name: "libnvidia-nvvm", soname: "4", dev: debian},
	{name: "libnvidia-nvvm70", soname: "4", dev: debian, since: 580, plain: true},
	{name: "libnvidia-opencl", soname: "1"},
	{name: "libnvidia-ptxjitcompiler", soname: "1", dev: debian},
	{name: "libnvidia-gpucomp", since: 545},
	{name: "libnvidia-pkcs11", arch: "x86_64"},
	{name: "libnvidia-pkcs11-openssl3", arch: "x86_64"},
	{name: "libnvidia-tileiras", since: 595},
	{name: "libnvcuextend", soname: "1", since: 610},
	// utility
	{name: "libnvidia-ml", soname: "1", dev: debian},
	{name: "libnvidia-cfg", soname: "1"},
	{name: "libnvidia-sandboxutils", soname: "1", since: 570},
	{name: "libnvidia-nscq", soname: "2", only: (*installer).fabric},
	// video
	{name: "libnvcuvid", soname: "1", dev: every},
	{name: "libnvidia-encode", soname: "1", dev: every},
	{name: "libnvidia-opticalflow", soname: "1"},
	{name: "libvdpau_nvidia", soname: "1", dev: every, arch: "x86_64", sub: "vdpau"},
	// display and graphics
	{name: "libnvidia-fbc", soname: "1", arch: "x86_64"},
	{name: "libnvidia-ngx", soname: "1"},
	{name: "libnvoptix", soname: "1"},
	{name: "libGLX_nvidia", soname: "0"},
	{name: "libEGL_nvidia", soname: "0"},
	{name: "libGLESv1_CM_nvidia", soname: "1"},
	{name: "libGLESv2_nvidia", soname: "2"},
	{name: "libnvidia-eglcore"},
	{name: "libnvidia-glcore"},
	{name: "libnvidia-glsi"},
	{name: "libnvidia-glvkspirv"},
	{name: "libnvidia-tls"},
	{name: "libnvidia-rtcore"},
	{name: "libnvidia-present", since: 580},
	{name: "libnvidia-vksc-core", soname: "1", since: 570, arch: "x86_64"},
	{name: "libnvidia-allocator", soname: "1"},
	{name: "libnvidia-api", soname: "1", plain: true},
	{name: "libnvidia-vulkan-producer", dev: every, until: 549},
}

func (in *installer) fabric() bool { return len(in.m.NVSwitches) > 0 || in.u.Fabric }

// ships reports whether this release has the library on this machine.
func (in *installer) ships(l lib) bool {
	return in.branch >= l.since && (l.until == 0 || in.branch <= l.until) &&
		(l.arch == "" || l.arch == in.m.Arch) && (l.only == nil || l.only(in))
}

func (in *installer) libraries() {
	for _, l := range drivers {
		if in.ships(l) {
			in.driverLibrary(l)
		}
	}
	for _, l := range in.eglPlatforms() {
		in.platformLibrary(l.name, l.version)
	}
	in.modules()
}

func (in *installer) driverLibrary(l lib) {
	dir := in.at.lib
	if l.sub != "" {
		dir += "/" + l.sub
	}
	so := l.name + ".so"
	file, soname := so+"."+in.u.Version, so+"."+in.u.Version
	if l.soname != "" {
		soname = so + "." + l.soname
	}
	if l.plain {
		file = soname
	}
	in.library(dir+"/"+file, so, in.u.Version, soname)
	if soname != file {
		in.link(dir+"/"+soname, file)
	}
	switch { // RPM packages lead their few development links straight to the file
	case in.at.debian && l.dev != none:
		in.link(dir+"/"+so, soname)
	case l.dev == every:
		in.link(dir+"/"+so, file)
	}
}

// eglPlatforms are libraries with versions of their own. Those of 550 to 580
// are unverified but for gbm of 535 and 580.
func (in *installer) eglPlatforms() []struct{ name, version string } {
	type list = []struct{ name, version string }
	switch {
	case in.branch >= 580:
		return list{{"gbm", "1.1.2"}, {"wayland", "1.1.20"}, {"xcb", "1.0.3"}, {"xlib", "1.0.3"}}
	case in.branch >= 570:
		return list{{"gbm", "1.1.2"}, {"wayland", "1.1.18"}, {"xcb", "1.0.1"}, {"xlib", "1.0.1"}}
	case in.branch >= 550:
		return list{{"gbm", "1.1.1"}, {"wayland", "1.1.13"}}
	}
	return list{{"gbm", "1.1.0"}, {"wayland", "1.1.12"}}
}

func (in *installer) platformLibrary(name, version string) {
	so := "libnvidia-egl-" + name + ".so"
	file := so + "." + version
	in.library(in.at.lib+"/"+file, so, version, so+".1")
	in.link(in.at.lib+"/"+so+".1", file)
}

// modules makes what programs load by path: the GBM backend and the X server's
// driver and extension.
func (in *installer) modules() {
	in.link(in.at.lib+"/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1")
	in.library(in.at.x11+"/nvidia_drv.so", "nvidia_drv.so", in.u.Version, "")
	glx := "libglxserver_nvidia.so"
	in.library(in.at.glx+"/"+glx+"."+in.u.Version, glx, in.u.Version, glx)
	in.link(in.at.glx+"/"+glx, glx+"."+in.u.Version)
}

// mirror makes a folder of links to everything in another one, as NixOS does
// with the driver's store path.
func (in *installer) mirror(from, to string) {
	names, err := in.t.ReadDir(in.root + from)
	in.do(err)
	for _, name := range names {
		info, err := in.t.Lstat(in.root + from + "/" + name)
		in.do(err)
		if info.Mode.IsDir() {
			if name != "firmware" && name != "xorg" { // found by other ways
				in.mirror(from+"/"+name, to+"/"+name)
			}
			continue
		}
		in.link(to+"/"+name, from+"/"+name)
	}
}
