package image

import (
	"errors"
	"io/fs"

	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
)

// Folders and the loader of Debian on x86-64.
const (
	tuple   = "x86_64-linux-gnu"
	libDir  = "/usr/lib/" + tuple
	busybox = "/bin/busybox" // Debian package busybox-static

	// Ldconfig is where images of glibc have the program that makes their cache.
	Ldconfig = "/sbin/ldconfig"
)

// applets are the busybox programs that an image names, so that its scripts and
// people who look around find what they expect.
var applets = []string{"sh", "ls", "cat", "mount", "sleep", "true", "id", "stat", "readlink"}

// base is what every system root has: mount points for the kernel's file
// systems, accounts, a place for state. They have to be in the image, as LXC
// makes none of them in a read-only root.
func base(b *builder, name string) {
	b.dir("/dev", "/proc", "/sys", "/tmp", "/run", "/etc", "/root", "/var", "/var/lib", "/var/tmp")
	b.do(b.t.Chmod("/tmp", 0o777))
	b.do(b.t.Chmod("/root", 0o700))
	b.file("/etc/os-release", "ID="+name+"\nPRETTY_NAME=\"gpurig "+name+" image\"\n")
	b.file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
	b.file("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:104:\nnogroup:x:65534:\n")
	b.file("/etc/hostname", name+"\n")
}

func shell(b *builder) {
	b.program("/bin/busybox", busybox)
	for _, a := range applets {
		b.link("/bin/"+a, "busybox")
	}
}

// glibcMerged has /bin, /lib, /lib64 and /sbin as links into /usr, as Debian
// since 12, Ubuntu since 23.10 and Fedora since 17.
func glibcMerged(b *builder) {
	b.dir("/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", libDir, "/usr/share", "/usr/local/lib")
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		b.link("/"+d, "usr/"+d)
	}
	glibc(b, "/usr/lib/"+tuple)
	b.link("/usr/lib64/ld-linux-x86-64.so.2", "../lib/"+tuple+"/ld-linux-x86-64.so.2")
	cache(b)
}

// glibcUnmerged is Debian's layout before the merge: the C library in /lib,
// everything else in /usr/lib.
func glibcUnmerged(b *builder) {
	b.dir("/bin", "/sbin", "/lib", "/lib64", "/lib/"+tuple,
		"/usr", "/usr/bin", "/usr/sbin", "/usr/lib", libDir, "/usr/share", "/usr/local/lib")
	glibc(b, "/lib/"+tuple)
	b.link("/lib64/ld-linux-x86-64.so.2", "/lib/"+tuple+"/ld-linux-x86-64.so.2")
	cache(b)
}

// glibc puts loader and C library into dir.
func glibc(b *builder, dir string) {
	base(b, "glibc")
	shell(b)
	b.program(dir+"/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")
	for _, name := range []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"} {
		b.program(dir+"/"+name, "/lib/"+tuple+"/"+name)
	}
	ldconfig(b)
	searched(b)
}

// ldconfig puts the machine's into the image: where a script stands in for it, the
// program itself.
func ldconfig(b *builder) {
	src := "/sbin/ldconfig.real"
	if _, err := b.set.read(src); errors.Is(err, fs.ErrNotExist) {
		src = Ldconfig
	}
	b.program(Ldconfig, src)
}

// searched says which folders the loader's cache is made of.
func searched(b *builder) {
	b.dir("/etc/ld.so.conf.d")
	b.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
	b.file("/etc/ld.so.conf.d/"+tuple+".conf", "/usr/local/lib/"+tuple+"\n/lib/"+tuple+"\n/usr/lib/"+tuple+"\n")
}

// cache writes the loader cache that installing the libraries would have made.
func cache(b *builder) {
	view := cacheView{b.t}
	folders, _ := ldcache.Conf(view)
	b.do(b.t.WriteFile(ldcache.File, ldcache.Build(view, folders).Cache.Marshal(), 0o644))
}

// cacheView shows a tree to package ldcache.
type cacheView struct{ *tree.Tree }

// Lstat is part of ldcache.View.
func (v cacheView) Lstat(p string) (ldcache.Info, error) {
	i, err := v.Tree.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}

// musl is Alpine's layout: one libc in /lib, no cache, no path file.
func musl(b *builder) {
	base(b, "musl")
	b.dir("/bin", "/sbin", "/lib", "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/lib", "/usr/share")
	shell(b)
	b.program("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1")
	b.link("/lib/libc.musl-x86_64.so.1", "ld-musl-x86_64.so.1")
}

// none has neither loader nor shell, as images that hold one static program.
func none(b *builder) {
	base(b, "none")
	b.dir("/bin", "/usr", "/usr/bin", "/usr/share")
}

// Versions in the way of a newer driver.
const (
	staleVersion = "470.256.02"
	emptyVersion = "535.183.01"
)

// staleLibs is what containers look like that got a driver by copying, years
// ago: libraries and links of an old version, and the empty files that bind
// mounts of another one were put on and left behind.
func staleLibs(b *builder) {
	glibcMerged(b)
	for _, name := range []string{"libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "libnvidia-opencl.so"} {
		b.library(libDir, name, staleVersion)
		b.link(libDir+"/"+name+".1", name+"."+staleVersion)
		b.do(b.t.WriteFile(libDir+"/"+name+"."+emptyVersion, []byte{}, 0o644))
	}
	b.link(libDir+"/libcuda.so", "libcuda.so.1")
	b.file("/usr/bin/nvidia-smi", "")
	b.dir("/usr/lib/firmware/nvidia/" + emptyVersion)
	b.file("/usr/lib/firmware/nvidia/"+emptyVersion+"/gsp_tu10x.bin", "")
	cache(b)
}

// mesaLinks has Mesa's files and links where NVIDIA's driver puts its own.
func mesaLinks(b *builder) {
	glibcMerged(b)
	for _, name := range []string{"libGLX_mesa.so.0", "libEGL_mesa.so.0"} {
		b.library(libDir, name, "0.0")
		b.link(libDir+"/"+name, name+".0.0")
	}
	b.link(libDir+"/libGLX_indirect.so.0", "libGLX_mesa.so.0")
	b.dir(libDir + "/gbm")
	b.do(b.t.WriteFile(libDir+"/gbm/dri_gbm.so", marker("dri_gbm.so"), 0o644))
	b.link(libDir+"/gbm/nvidia-drm_gbm.so", "dri_gbm.so")
	b.dir("/usr/share/glvnd/egl_vendor.d")
	b.file("/usr/share/glvnd/egl_vendor.d/50_mesa.json",
		`{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_mesa.so.0"}}`+"\n")
	cache(b)
}
