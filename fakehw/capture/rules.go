package capture

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"gpurig/core/host"
	"gpurig/fixtures/hosts"
)

// all records everything that matters, and nothing of the rest.
func (c *collector) all() {
	c.system()
	c.kernel()
	c.functions()
	c.display()
	c.modules()
	c.nodes()
	c.soc()
	for _, root := range driverRoots {
		if _, info, ok := c.take(root + "/"); ok && info.Mode.IsDir() {
			c.userspace(root)
		}
	}
	c.store()
	c.listed()
	c.caches()
}

// store records what stands beside the real libcuda where links lead to it, as
// on NixOS: generators look there for the rest of the driver.
func (c *collector) store() {
	for p, e := range c.snapshot("/") {
		if e.Kind == hosts.Library && strings.HasPrefix(path.Base(p), "libcuda.so") {
			for _, name := range driverFiles {
				c.whole(escape(path.Dir(p)) + "/" + name)
			}
		}
	}
}

// driverRoots are where a driver's files may be rooted; see host.Discover.
var driverRoots = []string{"", "/run/nvidia/driver", "/var/lib/snapd/hostfs"}

// system records what distribution this is, and how its file system is laid out.
func (c *collector) system() {
	for _, p := range []string{
		"/sys", "/proc", "/dev", "/etc", "/run", "/tmp", "/var", "/var/run", "/usr/bin", "/usr/sbin", "/usr/lib", "/etc/os-release",
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx",
		"/dev/pts", "/dev/shm", "/dev/mqueue", "/run/udev/data",
	} {
		c.take(p)
	}
	// Links to /proc/self: what they lead to is the recorder's own affair.
	for _, p := range []string{"/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		c.look(p)
	}
}

// kernel records what the kernel and the driver say in /proc.
func (c *collector) kernel() {
	for _, p := range []string{
		"/proc/sys/kernel/osrelease", "/proc/sys/kernel/arch", "/proc/cmdline", "/proc/devices", "/proc/misc", "/proc/modules",
	} {
		c.take(p)
	}
	c.whole("/proc/driver/nvidia", "/proc/driver/nvidia-*")
}

// modules records the drivers of GPUs and what stands beside them.
func (c *collector) modules() {
	c.take("/sys/module")
	c.take("/sys/module/firmware_class/parameters/path") // where else firmware is
	for _, name := range c.list("/sys/module") {
		m := "/sys/module/" + name
		if _, linked := c.entries[m]; !linked && !gpuModule(name) {
			continue // neither a GPU's driver nor that of a function beside one
		}
		c.take(m)
		c.glob(m+"/coresize", m+"/initstate", m+"/refcnt", m+"/srcversion", m+"/taint", m+"/version", m+"/holders", m+"/parameters",
			m+"/holders/*", m+"/drivers/*", m+"/parameters/*")
	}
}

// gpuModule reports whether a kernel module drives GPUs, shows them, passes them
// on, or drives the network that they talk over (nvcdi's mode mofed).
func gpuModule(name string) bool {
	for _, prefix := range []string{"nvidia", "nvgpu", "nouveau", "nova", "amdgpu", "amdkfd", "radeon", "vfio", "iommufd", "mdev", "ast", "mgag200", "gdrdrv", "ib_", "mlx", "rdma_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "i915" || name == "xe" || name == "drm"
}

// nodes records the device nodes of GPUs, by what core/host takes for one.
func (c *collector) nodes() {
	for _, name := range c.list("/dev") {
		if host.IsGPUNode(name) {
			c.whole("/dev/" + escape(name))
		}
	}
	for p, e := range c.snapshot("/dev/") {
		if e.Kind == "char" || e.Kind == "block" {
			at := number(e)
			c.take("/dev/" + string(e.Kind) + "/" + at)
			if dev := "/sys/dev/" + string(e.Kind) + "/" + at; p != "" && c.linksInto(dev, "/drm/") {
				c.take(dev)
			}
		}
	}
}

// userspace records NVIDIA's libraries, tools and configuration below a driver
// root, and how the loader finds libraries there.
func (c *collector) userspace(root string) {
	for _, p := range []string{"/bin", "/lib", "/sbin", "/lib64", "/etc/os-release", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.cache", "/usr/local/lib", "/var/run",
		"/sbin/ldconfig", "/sbin/ldconfig.real", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
		"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"} {
		c.take(root + p)
	}
	c.glob(root + "/etc/ld.so.conf.d/*.conf")
	folders := libraryFolders
	if u, cached, err := host.FindUserspace(c.r, root+"/"); err == nil && u != nil { // in /opt, say, by the loader's cache
		folders = slices.Clone(folders)
		for _, dir := range append(cached, u.LibDir) {
			folders = append(folders, escape(dir))
		}
	}
	for _, dir := range folders {
		for _, name := range driverFiles {
			c.whole(root + dir + "/" + name)
		}
	}
	for _, p := range []string{
		"/usr/bin/nvidia-*", "/usr/sbin/nvidia-*", "/usr/bin/nv-fabricmanager", "/usr/bin/nvswitch-audit", "/run/current-system/sw/bin/nvidia-*",
		"/lib/firmware/nvidia/[0-9]*.[0-9]*", "/lib/firmware/tegra*", "/run/current-system/firmware/nvidia/[0-9]*.[0-9]*", "/run/opengl-driver",
		"/usr/share/nvidia", "/etc/OpenCL/vendors/nvidia.icd", "/etc/nvidia-container-runtime",
		"/etc/modprobe.d/*nvidia*", "/etc/modprobe.d/*nouveau*", "/usr/lib/modprobe.d/*nvidia*",
		"/etc/cdi/*", "/run/cdi/*", "/etc/nv_tegra_release", "/etc/cufile.json",
		"/run/nvidia-persistenced", "/run/nvidia-fabricmanager", "/run/nvidia-imex", "/run/nvidia-vgpu-mgr", "/etc/nvidia-imex", "/tmp/nvidia-mps",
	} {
		c.whole(root + p)
	}
	for _, dir := range []string{"/usr/share", "/etc"} {
		for _, sub := range []string{"glvnd/egl_vendor.d", "vulkan/icd.d", "vulkan/implicit_layer.d", "vulkansc/icd.d", "egl/egl_external_platform.d", "X11/xorg.conf.d"} {
			c.glob(root + dir + "/" + sub + "/*nvidia*")
		}
	}
}

// libraryFolders are where distributions put NVIDIA's libraries.
var libraryFolders = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/i386-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib32",
	"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
}

// driverFiles are what of a library folder belongs to the driver.
var driverFiles = []string{
	"libcuda.so*", "libcudadebugger.so*", "libnvidia-*", "libnvcuvid.so*", "libnvoptix.so*", "libnvcuextend.so*",
	"libGLX_nvidia.so*", "libEGL_nvidia.so*", "libGLESv1_CM_nvidia.so*", "libGLESv2_nvidia.so*", "libglxserver_nvidia.so*",
	"vdpau/libvdpau_nvidia.so*", "gbm/nvidia-drm_gbm.so", "gbm/tegra*", "nvidia", "tegra", "tegra-egl",
	"xorg/modules/drivers/nvidia_drv.so", "xorg/modules/extensions/libglxserver_nvidia.so*",
}

// listed records what the CSV files of Jetson Linux name.
func (c *collector) listed() {
	for p, e := range c.snapshot(host.CSVDir + "/") {
		if path.Ext(p) != ".csv" {
			continue
		}
		for line := range strings.Lines(string(e.Data)) {
			kind, name, ok := strings.Cut(strings.TrimSpace(line), ",")
			name = strings.TrimSpace(name)
			if !ok || !path.IsAbs(name) || !utf8.ValidString(name) {
				continue
			}
			if strings.TrimSpace(kind) == "dir" {
				c.whole(name)
			} else {
				c.glob(name)
			}
		}
	}
}
