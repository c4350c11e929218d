package driverfs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/elfgen"
)

// ErrCSV marks a CSV file that Jetson Linux does not ship.
var ErrCSV = errors.New("not a CSV file of Jetson Linux R35 to R39")

const csvFolder = "/etc/nvidia-container-runtime/host-files-for-container.d/"

// jetsonOf says which rows the machine has. The version in library names is the
// L4T release up to R35 and the driver's since.
func jetsonOf(m *host.Model) jetson {
	j := jetson{release: releaseNumber(m.Tegra.Release), folder: jetFolder}
	switch {
	case j.release <= 35:
		j.folder = tegraFolder
		j.version = fmt.Sprintf("%d.%s", j.release, m.Tegra.Revision)
	case j.release >= 39:
		j.version = "595.78"
	case j.release >= 38:
		j.version = "580.00"
	default:
		minor, _, _ := strings.Cut(m.Tegra.Revision, ".")
		j.version = "540." + minor + ".0"
	}
	if u := m.Userspace; u != nil && j.release > 35 && slices.Contains([]string{"", jetFolder}, u.LibDir) {
		j.version = u.Version
	}
	return j
}

// tegra makes the CSV files and what they name. Jetson Linux is never found
// below a driver root other than the machine's own.
func (in *installer) tegra() {
	was := in.root
	in.root = ""
	defer func() { in.root = was }()

	j := jetsonOf(in.m)
	rows := j.rows()
	x := indexOf(rows)
	for _, name := range in.m.Tegra.CSV {
		text, ok := csv(name, rows)
		if !ok {
			in.do(fmt.Errorf("%s%s: %w", csvFolder, name, ErrCSV))
			return
		}
		in.file(csvFolder+name, text, 0o644)
	}
	for _, r := range rows {
		p := path.Clean(r.path)
		switch {
		case strings.HasPrefix(p, "/dev/"): // the model's nodes, and what else the kernel makes
		case r.kind == "dir":
			in.dir(p)
		case r.kind == "lib":
			in.tegraFile(j, p, x)
		}
	}
	in.tegraExtras(j)
	for _, r := range rows {
		if r.kind == "sym" {
			in.tegraLink(j, r.path, x)
		}
	}
	in.tegraConf(j)
}

// plainLinks are rows of type lib that name links of the distribution's own.
var plainLinks = map[string]string{multiarch + "/libv4l2.so.0": "libv4l2.so.0.0.999999"}

// tegraFile makes what a row of type lib names.
func (in *installer) tegraFile(j jetson, p string, x index) {
	if target, ok := plainLinks[p]; ok {
		in.link(p, target)
		return
	}
	base, dir := path.Base(p), path.Dir(p)
	name, isLibrary := stem(p)
	switch {
	case base == "ld.so.conf":
		in.file(p, dir+"\n", 0o644)
	case isLibrary:
		in.object(p, elfgen.Object{Arch: in.m.Arch, Name: name + ".so", Version: j.version, SONAME: x.soname(p, name), Needed: "libc.so.6", Functions: functions[name+".so"]}, elfgen.Library)
	case strings.HasSuffix(base, ".json"):
		in.file(p, tegraJSON(p), 0o644)
	case dir == "/usr/bin" || dir == "/usr/sbin" || strings.Contains(dir, "/weston"):
		in.program(p, j.version)
	default: // firmware, camera settings, licences, read-me files
		in.file(p, base+" of Jetson Linux "+in.m.Tegra.Release+"."+in.m.Tegra.Revision+"\n", 0o644)
	}
}

// soname returns what a library is loaded as: the versioned link beside it, if
// there is one, else its own name.
func (x index) soname(p, name string) string {
	switch name {
	case "libnvv4l2", "libnvv4lconvert": // NVIDIA's, in the place of the libraries of v4l-utils
		return "lib" + strings.TrimPrefix(name, "libnv") + ".so.0"
	}
	if link, ok := x.links[path.Dir(p)+"/"+name]; ok {
		return link
	}
	return path.Base(p)
}

// An index finds rows by the folder and the stem of a library's name.
type index struct {
	links map[string]string // versioned links: "libcuda.so.1" of "…/nvidia/libcuda"
	files map[string]string // "libcuda.so.1.1" of the same
}

func indexOf(rows []row) index {
	x := index{links: map[string]string{}, files: map[string]string{}}
	for _, r := range rows {
		name, ok := stem(r.path)
		if !ok {
			continue
		}
		key, base := path.Dir(r.path)+"/"+name, path.Base(r.path)
		switch {
		case r.kind == "lib":
			x.files[key] = base
		case r.kind == "sym" && base != name+".so":
			x.links[key] = base
		}
	}
	return x
}

// tegraExtras makes the files that links lead to and no row names.
func (in *installer) tegraExtras(j jetson) {
	if j.release > 35 {
		return
	}
	for _, name := range []string{"libnvidia-kms.so." + j.version, "libvulkan.so.1.3.268", "libnvv4lconvert.so"} {
		in.tegraFile(j, j.folder+"/"+name, index{})
	}
}

// tegraLinks are links whose target has another name than they have.
var tegraLinks = map[string]string{
	"libv4l2.so.0":                "libnvv4l2.so",
	"libv4l2.so.0.0.999999":       "libnvv4l2.so",
	"libv4lconvert.so.0":          "libnvv4lconvert.so",
	"libv4lconvert.so.0.0.999999": "libnvv4lconvert.so",
	"libgnat.so":                  "libgnat-24.so",
	"libgnarl.so":                 "libgnarl-24.so",
}

// tegraLink makes a row of type sym. Targets of the GBM links are unverified.
func (in *installer) tegraLink(j jetson, p string, x index) {
	dir, base, own := path.Dir(p), path.Base(p), path.Base(j.folder)
	switch {
	case dir == "/etc/vulkan/icd.d":
		in.link(p, j.folder+"/nvidia_icd.json")
		return
	case dir == "/usr/share/glvnd/egl_vendor.d":
		in.link(p, "../../../lib/aarch64-linux-gnu/tegra-egl/nvidia.json")
		return
	case base == "tegra":
		in.link(p, own)
		return
	case dir == multiarch+"/gbm":
		in.link(p, "../"+own+"/libnvidia-allocator.so.1")
		return
	case dir == multiarch+"/libv4l/plugins/nv":
		in.link(p, "../../../"+own+"/"+base)
		return
	}
	target, ok := tegraLinks[base]
	if !ok {
		target = in.tegraTarget(j, p, x)
	}
	if target == "" {
		in.do(fmt.Errorf("%s: nothing in %s that this link could lead to", p, j.folder))
		return
	}
	if dir != j.folder {
		target = own + "/" + target
	}
	in.link(p, target)
}

// tegraTarget finds the library file of the same name in the release's folder.
func (in *installer) tegraTarget(j jetson, p string, x index) string {
	name, _ := stem(p)
	if file, ok := x.files[j.folder+"/"+name]; ok {
		return file
	}
	for _, extra := range []string{name + ".so." + j.version, path.Base(p)} {
		if in.has(j.folder + "/" + extra) {
			return extra
		}
	}
	return ""
}

// tegraConf tells the loader about the folders. The file's name is unverified.
func (in *installer) tegraConf(j jetson) {
	in.file("/etc/ld.so.conf.d/nvidia-tegra.conf", j.folder+"\n"+multiarch+"/tegra-egl\n", 0o644)
}

func tegraJSON(p string) string {
	switch {
	case strings.Contains(p, "egl_vendor.d"), strings.Contains(p, "tegra-egl"):
		return icdJSON("1.0.0", "libEGL_nvidia.so.0", "")
	case strings.Contains(p, "vksc"):
		return icdJSON("1.0.0", "libnvidia-vksc-core.so.1", "1.0.10")
	}
	return icdJSON("1.0.0", "libGLX_nvidia.so.0", "1.3.212")
}
