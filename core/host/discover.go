package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// Discover reads a host: r gives its files, n what only NVIDIA's management
// library knows; a nil n means that there is none, and then NVML indexes are -1
// and names, UUIDs and MIG instances are what the kernel driver's files say.
//
// It changes nothing and never guesses: a number that no source gives is -1. What
// cannot be read or understood, or what two sources disagree about, is a Problem of
// the GPU that it is about, or of the Model, and keeps nothing else from being
// found. The error says that a directory which lists devices could not be read. A
// host without GPUs is no error.
func Discover(r Root, n NVML) (Model, error) {
	d := &discovery{r: r, nvml: n}
	for _, part := range []struct {
		what string
		read func() error
	}{
		{"system", d.system},
		{"tegra", d.tegra},
		{"driver", d.driver},
		{"pci", d.pci},
		{"gpus", d.gpus},
		{"partitions", d.partitions},
		{"management library", d.library},
		{"device nodes", d.nodes},
		{"majors", d.majors},
		{"user-space driver", d.userspace},
	} {
		if err := part.read(); err != nil {
			return Model{}, fmt.Errorf("discover %s: %w", part.what, err)
		}
	}
	return d.m, nil
}

// A discovery is one run of Discover.
type discovery struct {
	r    Root
	nvml NVML
	m    Model
}

// problem notes what could not be read or understood.
func (d *discovery) problem(what string, err error) {
	if err == nil {
		return
	}
	d.m.Problems = append(d.m.Problems, Problem{What: what, Text: oneLine(err)})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// disable notes why a GPU is not to be used; the first reason stays.
func disable(g *GPU, err error) {
	if err != nil && g.Problem == "" {
		g.Problem = oneLine(err)
	}
}

// missing reports whether err says that nothing is at a path.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// text reads a file that must be there. The kernel removes entries while they
// are read, so a missing one is asked for twice.
func (d *discovery) text(p string) (string, error) {
	data, err := d.r.ReadFile(p)
	if missing(err) {
		data, err = d.r.ReadFile(p)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	return string(data), nil
}

// optional reads a file that may be missing; ok says whether it is there.
func (d *discovery) optional(p string) (text string, ok bool, err error) {
	text, err = d.text(p)
	if missing(err) {
		return "", false, nil
	}
	return text, err == nil, err
}

// list reads a directory that may be missing.
func (d *discovery) list(p string) ([]string, error) {
	names, err := d.r.ReadDir(p)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p, err)
	}
	return names, nil
}

// lstat looks at an entry that a listing had; asked for twice like text.
func (d *discovery) lstat(p string) (Info, error) {
	info, err := d.r.Lstat(p)
	if missing(err) {
		info, err = d.r.Lstat(p)
	}
	return info, err
}

// isLink reports whether p is a link; a missing p is none.
func (d *discovery) isLink(p string) (bool, error) {
	info, err := d.r.Lstat(p)
	if missing(err) {
		return false, nil
	}
	return err == nil && info.IsLink(), err
}

// system reads architecture, kernel, distribution and IOMMU.
func (d *discovery) system() error {
	release, err := d.text("/proc/sys/kernel/osrelease")
	d.problem("kernel", err)
	d.m.Kernel = strings.TrimSpace(release)
	line, _, err := d.optional("/proc/cmdline")
	d.problem("kernel command line", err)
	d.m.Cmdline = strings.TrimRight(line, "\n")
	d.m.Arch, err = d.arch()
	d.problem("architecture", err)
	text, _, err := d.optional("/etc/os-release")
	d.problem("distribution", err)
	values := ParseOSRelease(text)
	d.m.OS = OS{ID: values["ID"], VersionID: values["VERSION_ID"]}
	if d.m.OS.MergedUsr, err = d.isLink("/lib"); err != nil {
		return err
	}
	for _, p := range []string{"/sys/class/iommu", "/sys/kernel/iommu_groups"} {
		names, err := d.list(p)
		if err != nil {
			return err
		}
		d.m.IOMMU = d.m.IOMMU || len(names) > 0
	}
	return nil
}

// loaders are the dynamic loaders by whose names older kernels' machines can be
// told apart; /proc/sys/kernel/arch is there since Linux 6.1.
var loaders = []struct{ path, arch string }{
	{"/lib64/ld-linux-x86-64.so.2", "x86_64"},
	{"/lib/ld-linux-aarch64.so.1", "aarch64"},
	{"/lib/ld-musl-x86_64.so.1", "x86_64"},
	{"/lib/ld-musl-aarch64.so.1", "aarch64"},
}

func (d *discovery) arch() (string, error) {
	text, ok, err := d.optional("/proc/sys/kernel/arch")
	if err != nil || ok {
		return strings.TrimSpace(text), err
	}
	for _, l := range loaders {
		if ok, err := Exists(d.r, l.path); err != nil || ok {
			return l.arch, err
		}
	}
	return "", fmt.Errorf("neither /proc/sys/kernel/arch nor a known loader tells the architecture: %w", fs.ErrNotExist)
}

// nvidiaDriver is what a Problem of NVIDIA's kernel driver is about.
const nvidiaDriver = "NVIDIA's kernel driver"

// driver reads what of NVIDIA's kernel driver is loaded.
func (d *discovery) driver() error {
	version, ok, err := d.optional("/sys/module/nvidia/version")
	d.problem(nvidiaDriver, err)
	if err == nil && !ok {
		return nil
	}
	out := &Driver{Version: strings.TrimSpace(version)}
	text, err := d.text("/proc/driver/nvidia/version")
	if err == nil {
		var said string
		said, out.Open, err = ParseDriverVersion(text)
		if err != nil {
			err = inFile("/proc/driver/nvidia/version", err)
		} else if said != out.Version && version != "" {
			err = &ConflictError{"driver version", "/sys/module/nvidia/version", out.Version, "/proc/driver/nvidia/version", said}
		}
	}
	d.problem(nvidiaDriver, err)
	names, err := d.list("/sys/module")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "nvidia") && name != "nvgpu" {
			continue
		}
		// What is built into the kernel has no state, and is not NVIDIA's.
		if _, ok, err := d.optional("/sys/module/" + name + "/initstate"); err != nil {
			return err
		} else if ok {
			out.Modules = append(out.Modules, name)
		}
	}
	d.m.Driver = out
	return d.vgpu()
}

// majors reads the lines of /proc/devices that GPU drivers registered, or that
// a node of this host needs.
func (d *discovery) majors() error {
	text, ok, err := d.optional("/proc/devices")
	if err != nil || !ok {
		d.problem("device numbers", err)
		return nil
	}
	all, err := ParseProcDevices(text)
	if err != nil {
		d.problem("device numbers", inFile("/proc/devices", err))
	}
	for _, x := range all {
		used := slices.ContainsFunc(d.m.Nodes, func(n nodeOf) bool { return n.Num.Major == x.Major && n.Type == x.Type })
		if (used || gpuMajor(x.Name)) && !slices.Contains(d.m.Majors, x) {
			d.m.Majors = append(d.m.Majors, x)
		}
	}
	slices.SortFunc(d.m.Majors, func(a, b Major) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
	})
	return nil
}

// gpuMajor reports whether a name in /proc/devices is a GPU driver's. It looks
// at whole names only where one name begins another: "nvidia-caps" is not
// "nvidia-caps-imex-channels".
func gpuMajor(name string) bool {
	switch name {
	case "nvidia", "nvidiactl", "drm", "kfd", "accel", "vfio", "vfio-dev", "nvhost", "nvmap", "nvsciipc", "host1x-fence", "gdrdrv":
		return true
	}
	return strings.HasPrefix(name, "nvidia-") || strings.HasSuffix(name, ".gpu") || strings.HasSuffix(name, ".ga10b")
}
