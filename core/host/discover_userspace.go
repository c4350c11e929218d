package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/ldcache"
)

// driverRoots are where a driver's files may be rooted, in order: the machine
// itself, NVIDIA's driver container, a snap's view of the machine.
var driverRoots = []string{"", "/run/nvidia/driver", "/var/lib/snapd/hostfs"}

// libDirs are where distributions put NVIDIA's libraries; %s is the machine.
var libDirs = []string{
	"/usr/lib/%s-linux-gnu/nvidia",         // Jetson Linux R36 and later
	"/usr/lib/%s-linux-gnu/tegra",          // Jetson Linux up to R35
	"/usr/lib/%s-linux-gnu/nvidia/current", // Debian
	"/usr/lib/%s-linux-gnu",                // Debian, Ubuntu
	"/usr/lib64",                           // RHEL, Fedora, SUSE
	"/usr/lib",                             // Arch
	"/run/opengl-driver/lib",               // NixOS
	"/usr/local/nvidia/lib64",              // machines of some clouds
}

// userspace finds the installed libraries and the sockets of their services.
func (d *discovery) userspace() error {
	d.problem("NVIDIA's libraries", d.userspaceBelow(driverRoots))
	return nil
}

// userspaceBelow looks below each root in order, up to the first that has a driver.
func (d *discovery) userspaceBelow(roots []string) error {
	for _, root := range roots {
		if err := d.userspaceIn(root, roots); err != nil || d.m.Userspace != nil {
			return err
		}
	}
	return nil
}

// folders are the library folders of distributions on the host's machine.
func (d *discovery) folders() []string {
	var out []string
	for _, dir := range libDirs {
		if strings.Contains(dir, "%s") {
			dir = fmt.Sprintf(dir, d.m.Arch)
		}
		out = append(out, dir)
	}
	return out
}

// userspaceIn looks below one root: where distributions put the libraries, then
// where the dynamic loader finds them. A folder that the loader's cache names below
// another of the roots is left to that root, which the driver's other files are below.
func (d *discovery) userspaceIn(root string, roots []string) error {
	for _, dir := range d.folders() {
		if err := d.userspaceAt(root, dir); err != nil || d.m.Userspace != nil {
			return err
		}
	}
	cached, err := d.cached(root)
	if err != nil {
		return err
	}
	for _, dir := range cached {
		if slices.ContainsFunc(roots, func(o string) bool { return len(o) > len(root) && strings.HasPrefix(root+dir, o+"/") }) {
			continue
		}
		if err := d.userspaceAt(root, dir); err != nil || d.m.Userspace != nil {
			return err
		}
	}
	return nil
}

func (d *discovery) userspaceAt(root, dir string) error {
	u, err := d.libraries(root, dir)
	if err != nil || u == nil {
		return err
	}
	d.m.Userspace = u
	return d.services(u)
}

// cached returns the folders, below root, from which the loader's cache there
// takes the driver's libraries. A cache that cannot be read names none.
func (d *discovery) cached(root string) ([]string, error) {
	data, err := d.r.ReadFile(root + ldcache.File)
	if missing(err) || len(data) > ldcache.MaxSize {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", root+ldcache.File, err)
	}
	c, err := ldcache.Parse(data)
	if err != nil {
		d.problem(root+ldcache.File, err)
	}
	var out []string
	for _, soname := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		for _, e := range c.Lookup(soname) {
			if dir := path.Dir(e.Path); !slices.Contains(out, dir) && path.IsAbs(dir) {
				out = append(out, dir)
			}
		}
	}
	return out, nil
}

// Searched says in words where FindUserspace looks, for who does not find a library.
func Searched(r Root, root string) string {
	d := &discovery{r: r}
	d.m.Arch, _ = d.arch() // not known: no folder is named after it
	roots := []string{root}
	if root == "" {
		roots = append([]string{"/"}, driverRoots[1:]...)
	}
	return fmt.Sprintf("in %s and where the loader's cache (%s) says, below %s",
		strings.Join(d.folders(), ", "), ldcache.File, strings.Join(roots, ", "))
}

// FindUserspace finds NVIDIA's user-space driver as Discover does; nil: there is
// none. With a root that is not empty it looks below that one alone, "/" being the
// host itself. cached are the folders in which the dynamic loader of that root
// finds the driver's libraries.
func FindUserspace(r Root, root string) (u *Userspace, cached []string, err error) {
	d := &discovery{r: r}
	d.m.Arch, _ = d.arch() // not known: no folder is named after it
	roots := driverRoots
	if root != "" {
		roots = []string{strings.TrimSuffix(path.Clean(root), "/")}
	}
	err = d.userspaceBelow(roots)
	if u = d.m.Userspace; u == nil || err != nil {
		return nil, nil, err
	}
	cached, err = d.cached(u.DriverRoot)
	return u, cached, err
}

// versioned are the libraries whose file names carry the driver's version. On
// a Jetson libcuda's does not ("libcuda.so.1.1"), others' do.
var versioned = regexp.MustCompile(`^(libcuda|libnvidia-ptxjitcompiler|libnvidia-nvvm|libnvidia-glcore)\.so\.([0-9]{2,}(?:\.[0-9]+)+)$`)

// libraries looks for the driver's libraries in one directory; nil: none.
func (d *discovery) libraries(root, dir string) (*Userspace, error) {
	names, err := d.list(root + dir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "libcuda.so.") }) {
		return d.manager(root, dir, names)
	}
	current, err := d.loaded(root + dir + "/libcuda.so.1")
	if err != nil {
		return nil, err
	}
	var file, version string
	for _, name := range names {
		m := versioned.FindStringSubmatch(name)
		switch {
		case m == nil:
		case file == "", m[1] == "libcuda" && !strings.HasPrefix(file, "libcuda."), // libcuda's own version counts most
			strings.HasPrefix(file, m[1]+".") && compareVersions(m[2], version) > 0:
			file, version = name, m[2]
		}
	}
	if m := versioned.FindStringSubmatch(current); m != nil {
		file, version = current, m[2] // what the loader gets, not the newest that lies about
	}
	if file == "" {
		return nil, nil
	}
	u := &Userspace{Version: version, DriverRoot: root, LibDir: dir}
	u.StorePath, err = d.store(root+dir, file)
	return u, err
}

// manages is the library that the package of the vGPU manager alone has.
var manages = regexp.MustCompile(`^libnvidia-vgpu\.so\.([0-9]{2,}(?:\.[0-9]+)+)$`)

// manager looks for the libraries of the vGPU manager in one directory without
// libcuda; nil: none. It counts what the loader gets for NVML, which comes in the
// same version.
func (d *discovery) manager(root, dir string, names []string) (*Userspace, error) {
	for _, name := range slices.Backward(names) {
		m := manages.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		u := &Userspace{Version: m[1], DriverRoot: root, LibDir: dir, VGPU: true}
		current, err := d.loaded(root + dir + "/libnvidia-ml.so.1")
		if version, ok := strings.CutPrefix(current, "libnvidia-ml.so."); ok && version != "1" {
			u.Version = version
		}
		return u, err
	}
	return nil, nil
}

// loaded returns the file name that the link of a SONAME ends at; empty
// if it is missing or leads nowhere.
func (d *discovery) loaded(p string) (string, error) {
	real, err := Resolve(d.r, p)
	if missing(err) {
		return "", nil
	}
	return path.Base(real), err
}

// store returns the store path that a library really lies in, on systems whose
// library folder has links only: "/nix/store/<hash>-<name>"; else empty.
func (d *discovery) store(dir, file string) (string, error) {
	real, err := Resolve(d.r, dir+"/"+file)
	if missing(err) {
		return "", nil
	}
	for _, s := range []string{"/nix/store/", "/gnu/store/"} {
		if rest, ok := strings.CutPrefix(real, s); ok {
			name, _, _ := strings.Cut(rest, "/")
			return s + name, nil
		}
	}
	return "", err
}

// services looks for the sockets that the driver's services leave.
func (d *discovery) services(u *Userspace) error {
	for _, s := range []struct {
		path string
		to   *bool
	}{
		{"/run/nvidia-persistenced/socket", &u.Persist},
		{"/run/nvidia-fabricmanager/socket", &u.Fabric},
		{"/tmp/nvidia-mps", &u.MPS},
	} {
		for _, p := range []string{u.DriverRoot + s.path, s.path} {
			info, err := d.r.Lstat(p)
			if err != nil && !missing(err) {
				return fmt.Errorf("look at %s: %w", p, err)
			}
			*s.to = *s.to || err == nil && (info.Mode&fs.ModeSocket != 0 || info.Mode.IsDir())
		}
	}
	return nil
}

// compareVersions orders "535.113.01" before "550.78": number by number.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
