package driverfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/elfgen"
	"gpurig/fakehw/tree"
)

// Install puts the system files and the driver of m into t: nothing of NVIDIA's
// if m.Userspace and m.Tegra are nil. It adds to what is in t, and m is not
// changed. The same model gives the same files.
//
// The error names the file that could not be made.
func Install(t *tree.Tree, m host.Model) error {
	in := &installer{t: t, m: &m}
	in.system("")
	if u := m.Userspace; u != nil {
		in.u = *u
		in.root = strings.TrimRight(u.DriverRoot, "/")
		if in.root != "" {
			in.system(in.root)
		}
		in.branch = catalog.BranchNumber(u.Version)
		in.place()
		switch {
		case in.u.VGPU:
			in.vgpuManager()
		case !in.integratedOnly():
			in.libraries()
			in.tools()
			in.data()
		}
		in.daemons()
	}
	if m.Tegra != nil {
		in.tegra()
	}
	in.cache("")
	if in.root != "" {
		in.cache(in.root)
	}
	if in.err != nil {
		return fmt.Errorf("install driver files: %w", in.err)
	}
	return nil
}

// An installer fills one tree. Its methods do nothing after the first error.
type installer struct {
	t      *tree.Tree
	m      *host.Model
	u      host.Userspace // zero: none
	root   string         // driver root without a trailing slash; empty: the machine's own
	branch int            // 550 of "550.163.01"
	at     places
	err    error
}

func (in *installer) do(err error) {
	if in.err == nil {
		in.err = err
	}
}

// file makes a file below the driver root.
func (in *installer) file(p, data string, perm fs.FileMode) {
	if in.err == nil {
		in.err = in.t.WriteFile(in.root+p, []byte(data), perm)
	}
}

func (in *installer) dir(p string) {
	if in.err == nil {
		in.err = in.t.Mkdir(in.root+p, 0o755)
	}
}

func (in *installer) link(p, target string) {
	if in.err == nil {
		in.err = in.t.Symlink(in.root+p, target)
	}
}

// has reports whether something is at p below the driver root.
func (in *installer) has(p string) bool {
	_, err := in.t.Lstat(in.root + p)
	return err == nil
}

// library makes a shared object below the driver root. Name is its file name
// without a version, as it shows in the file's text.
func (in *installer) library(p, name, version, soname string) {
	o := elfgen.Object{Arch: in.m.Arch, Name: name, Version: version, SONAME: soname, Needed: "libc.so.6"}
	o.Functions = functions[name]
	in.object(p, o, elfgen.Library)
}

// functions are what programs call first in libraries that they open
// themselves, NVIDIA's toolkit for one, without asking whether the function is
// there. The answers send them other ways: no driver is loaded, there is no
// device, not supported.
var functions = map[string]string{
	"libnvidia-ml.so": "nvmlInit=9 nvmlInit_v2=9 nvmlInitWithFlags=9 nvmlShutdown=1 nvmlErrorString=0 " +
		"nvmlSystemGetDriverVersion=1 nvmlSystemGetNVMLVersion=1 nvmlSystemGetCudaDriverVersion=1 " +
		"nvmlSystemGetCudaDriverVersion_v2=1 nvmlDeviceGetCount=1 nvmlDeviceGetCount_v2=1",
	"libcuda.so": "cuInit=100 cuDriverGetVersion=3 cuDeviceGetCount=3",
	"libnvidia-sandboxutils.so": "nvSandboxUtilsInit=2 nvSandboxUtilsShutdown=1 nvSandboxUtilsGetDriverVersion=1 " +
		"nvSandboxUtilsGetGpuResource=1 nvSandboxUtilsGetFileContent=1",
}

func (in *installer) program(p, version string) {
	in.object(p, elfgen.Object{Arch: in.m.Arch, Name: path.Base(p), Version: version}, elfgen.Program)
}

func (in *installer) object(p string, o elfgen.Object, make func(elfgen.Object) ([]byte, error)) {
	if in.err != nil {
		return
	}
	data, err := memo(o, make)
	if err != nil {
		in.err = fmt.Errorf("%s: %w", p, err)
		return
	}
	in.err = in.t.WriteFile(in.root+p, data, 0o755)
}

// objects keeps the ELF files that were made before: they depend on nothing but
// their key, and trees do not change them.
var objects sync.Map

type objectKey struct {
	elfgen.Object
	library bool
}

func memo(o elfgen.Object, make func(elfgen.Object) ([]byte, error)) ([]byte, error) {
	key := objectKey{o, o.Needed != ""}
	if data, ok := objects.Load(key); ok {
		return data.([]byte), nil
	}
	data, err := make(o)
	if err == nil {
		objects.Store(key, data)
	}
	return data, err
}

// tegraFolders are where Jetson Linux keeps its libraries: nvidia since R36.
const (
	multiarch   = "/usr/lib/aarch64-linux-gnu"
	tegraFolder = multiarch + "/tegra"
	jetFolder   = multiarch + "/nvidia"
)

// integratedOnly reports whether the user space is that of Jetson Linux alone:
// its folder says so, or there is nothing else to drive.
func (in *installer) integratedOnly() bool {
	if in.m.Tegra == nil {
		return false
	}
	return slices.Contains([]string{"", tegraFolder, jetFolder}, strings.TrimRight(in.u.LibDir, "/"))
}

// places are where a distribution's packages put things, below the driver root.
type places struct {
	lib      string // the library files themselves
	visible  string // where the loader sees them; lib, but on NixOS
	bin      string
	share    string // /usr/share
	etc      string
	firmware string // the folder with one subfolder per version
	x11      string // folder of nvidia_drv.so
	glx      string // folder of libglxserver_nvidia.so
	debian   bool   // development links as Ubuntu and Debian ship them
}

func (in *installer) place() {
	dir := "/" + strings.Trim(cmp.Or(in.u.LibDir, defaultLibDir(in.m.Arch)), "/")
	p := places{
		lib: dir, visible: dir, bin: "/usr/bin", share: "/usr/share", etc: "/etc", firmware: "/lib/firmware/nvidia",
		x11: dir + "/xorg/modules/drivers", glx: dir + "/xorg/modules/extensions",
	}
	if strings.Contains(dir, "-linux-gnu") {
		p.debian = true
		p.x11, p.glx = dir+"/nvidia/xorg", dir+"/nvidia/xorg"
	}
	if store := strings.TrimRight(in.u.StorePath, "/"); store != "" {
		p = places{
			lib: store + "/lib", visible: dir, bin: store + "/bin", share: store + "/share", etc: store + "/etc",
			firmware: store + "/lib/firmware/nvidia", x11: store + "/lib/xorg/modules/drivers", glx: store + "/lib/xorg/modules/extensions",
		}
	}
	in.at = p
}

func defaultLibDir(arch string) string { return "/usr/lib/" + arch + "-linux-gnu" }
