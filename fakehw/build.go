package fakehw

import (
	"fmt"
	"io/fs"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// Build makes the tree of the host that m describes: /sys, /proc, /dev and /etc
// as its kernel and drivers would show them, and the driver's files. The same
// model gives the same tree; m is not changed.
//
// The error says which path could not be made: two things of the model want the
// same one.
func Build(m host.Model) (*tree.Tree, error) { return BuildWithout(m, nil) }

// BuildWithout is Build of a host from which functions were pulled out: the others
// keep their windows and interrupts.
func BuildWithout(m host.Model, gone []host.PCIFunction) (*tree.Tree, error) {
	b := &builder{m: &m, functions: map[string]*function{}}
	b.t, b.err = software(m)
	b.collect(gone)
	for _, part := range []func(){
		b.storage, b.pci, b.sriov, b.iommu, b.vfioDevices, b.drm, b.vgpu, b.modules, b.kfd, b.tegra, b.proc, b.nvidiaProc, b.misc, b.dev,
	} {
		part()
	}
	if b.err == nil {
		b.t.Share(b.around.tree)
		b.system()
		b.installedModules()
	}
	if b.err != nil {
		return nil, fmt.Errorf("build host: %w", b.err)
	}
	return b.t, nil
}

// A builder fills one tree. Its methods do nothing after the first error.
type builder struct {
	t          *tree.Tree
	m          *host.Model
	err        error
	all        []*function // every PCI function, by address
	functions  map[string]*function
	around     *around
	hwmon      int // of the next sensor chip
	partitions int // amdgpu's so far
}

func (b *builder) do(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) file(p, data string, perm fs.FileMode) { b.data(p, []byte(data), perm) }

// data is file for bytes, which nobody may change afterwards.
func (b *builder) data(p string, data []byte, perm fs.FileMode) {
	if b.err == nil {
		b.err = b.t.WriteFile(p, data, perm)
	}
}

// attr makes an attribute that everybody may read.
func (b *builder) attr(p, data string) { b.file(p, data, 0o444) }

// write makes attributes that only root may write and nobody reads.
func (b *builder) write(dir string, names ...string) {
	for _, name := range names {
		b.file(dir+"/"+name, "", 0o200)
	}
}

// dir makes a directory; in procfs nobody may write those.
func (b *builder) dir(p string) {
	perm := fs.FileMode(0o755)
	if p == "/proc" || strings.HasPrefix(p, "/proc/") {
		perm = 0o555
	}
	if b.err == nil {
		b.err = b.t.Mkdir(p, perm)
	}
}

// link makes a relative link at p to the absolute path to, as sysfs does.
func (b *builder) link(p, to string) {
	if b.err == nil {
		b.err = b.t.Symlink(p, relative(p[:strings.LastIndexByte(p, '/')], to))
	}
}

// relative returns the way from the directory from to the path to.
func relative(from, to string) string {
	same := 0 // length of the directories that both have, with the slash behind
	for i := 0; i < len(from) && i < len(to) && from[i] == to[i]; i++ {
		if from[i] == '/' {
			same = i + 1
		}
	}
	up := 0
	if n := len(from); n < len(to) && to[:n] == from && to[n] == '/' {
		same = n + 1
	} else if same < n {
		up = 1 + strings.Count(from[same:], "/")
	}
	return strings.Repeat("../", up) + to[same:]
}

// layout makes the top of the file system.
func (b *builder) layout() {
	for _, d := range []string{"/sys", "/proc", "/dev", "/etc", "/run", "/usr/lib", "/usr/bin", "/var"} {
		b.dir(d)
	}
	b.do(b.t.Mkdir("/tmp", 0o777|fs.ModeSticky))
	b.do(b.t.Symlink("/var/run", "/run"))
	for _, d := range []string{"bin", "lib", "sbin", "lib64"} {
		switch {
		case d == "lib64" && b.m.Arch != "x86_64":
		case b.m.OS.MergedUsr:
			b.dir("/usr/" + d)
			b.do(b.t.Symlink("/"+d, "usr/"+d))
		default:
			b.dir("/" + d)
		}
	}
	b.osRelease()
}

// dev makes the nodes of the model and those that every machine has.
func (b *builder) dev() {
	for _, n := range b.m.Nodes {
		b.do(b.t.Mknod(n))
	}
	nvidia := b.m.Driver == nil || linksNodes(b.m.Driver.Version)
	for _, n := range b.m.Nodes {
		if !nvidia && strings.HasPrefix(n.Path, "/dev/nvidia") {
			continue
		}
		kind := "char"
		if n.Type == device.Block {
			kind = "block"
		}
		b.link("/dev/"+kind+"/"+n.Num.String(), n.Path)
	}
	for _, n := range standardNodes {
		b.do(b.t.Mknod(n))
		b.link("/dev/char/"+n.Num.String(), n.Path)
	}
	for _, d := range []string{"/dev/pts", "/dev/shm", "/dev/mqueue"} {
		b.dir(d)
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		b.do(b.t.Symlink("/dev/"+name, target))
	}
}

// linksNodes reports whether the nodes of an NVIDIA driver have their links below
// /dev/char. udev makes those of the devices that sysfs knows, which NVIDIA's are
// not, and nvidia-modprobe makes theirs since 535.43.02, in older branches since what
// is listed here: runc with the systemd driver of cgroups finds no rule without.
//
// Reference: symlink_char_dev in https://github.com/NVIDIA/nvidia-modprobe/blob/main/modprobe-utils/nvidia-modprobe-utils.c,
// by release, and https://github.com/NVIDIA/nvidia-container-toolkit/issues/48
func linksNodes(version string) bool {
	for branch, release := range map[int]int{470: 182, 515: 105, 525: 105} {
		if atLeast(version, branch, release) && !atLeast(version, branch+1, 0) {
			return true
		}
	}
	return atLeast(version, 535, 43)
}

var standardNodes = []device.Node{
	char("/dev/null", 1, 3, 0o666, 0),
	char("/dev/zero", 1, 5, 0o666, 0),
	char("/dev/full", 1, 7, 0o666, 0),
	char("/dev/random", 1, 8, 0o666, 0),
	char("/dev/urandom", 1, 9, 0o666, 0),
	char("/dev/tty", 5, 0, 0o666, 5),
	char("/dev/console", 5, 1, 0o600, 0),
	char("/dev/ptmx", 5, 2, 0o666, 5),
}
