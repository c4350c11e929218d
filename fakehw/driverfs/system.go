package driverfs

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
)

// nix reports whether the machine has none of the usual folders: on NixOS
// libraries are found by their path in the store, there is no loader cache.
func (in *installer) nix() bool { return in.m.OS.ID == "nixos" }

// system makes the part of the operating system that tools look at, below root.
// What is there already stays.
func (in *installer) system(root string) {
	t := in.t
	for _, dir := range []string{"/usr/lib", "/usr/bin", "/usr/sbin", "/usr/share", "/etc", "/run", "/var"} {
		in.do(t.Mkdir(root+dir, 0o755))
	}
	in.keep(root+"/tmp", func(p string) error { return t.Mkdir(p, 0o777|fs.ModeSticky) })
	in.keep(root+"/var/run", func(p string) error { return t.Symlink(p, "/run") })
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if name == "lib64" && in.m.Arch != "x86_64" && in.m.OS.ID != "rhel" {
			continue
		}
		in.keep(root+"/"+name, func(p string) error {
			if !in.m.OS.MergedUsr {
				return t.Mkdir(p, 0o755)
			}
			if err := t.Mkdir(root+"/usr/"+name, 0o755); err != nil {
				return err
			}
			return t.Symlink(p, "usr/"+name)
		})
	}
	if !in.nix() {
		in.loader(root)
	}
}

// keep makes something where nothing is.
func (in *installer) keep(p string, make func(string) error) {
	if in.err != nil {
		return
	}
	if _, err := in.t.Lstat(p); err != nil {
		in.err = make(p)
	}
}

// loader makes ldconfig and its configuration.
func (in *installer) loader(root string) {
	was := in.root
	in.root = root
	defer func() { in.root = was }()
	if !in.has("/sbin/ldconfig") {
		in.program("/sbin/ldconfig", glibc(in.m.OS).version)
	}
	in.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n", 0o644)
	in.dir("/etc/ld.so.conf.d")
	if in.m.OS.ID == "rhel" || in.m.OS.ID == "fedora" {
		return
	}
	in.file("/etc/ld.so.conf.d/libc.conf", "# libc default configuration\n/usr/local/lib\n", 0o644)
	tuple := in.m.Arch + "-linux-gnu"
	in.dir("/usr/local/lib")
	in.dir("/usr/lib/" + tuple)
	in.dir("/lib/" + tuple)
	in.file("/etc/ld.so.conf.d/"+tuple+".conf",
		"# Multiarch support\n/usr/local/lib/"+tuple+"\n/lib/"+tuple+"\n/usr/lib/"+tuple+"\n", 0o644)
}

// A libc is what names itself in a loader cache.
type libc struct{ version, generator string }

func glibc(o host.OS) libc {
	make := func(version, pkg string) libc {
		return libc{version, "ldconfig (" + pkg + ") stable release version " + version}
	}
	switch {
	case o.ID == "ubuntu" && strings.HasPrefix(o.VersionID, "22."):
		return make("2.35", "Ubuntu GLIBC 2.35-0ubuntu3.10")
	case o.ID == "ubuntu" && strings.HasPrefix(o.VersionID, "20."):
		return make("2.31", "Ubuntu GLIBC 2.31-0ubuntu9.17")
	case o.ID == "ubuntu" || o.ID == "ubuntu-core":
		return make("2.39", "Ubuntu GLIBC 2.39-0ubuntu8.4")
	case o.ID == "debian":
		return make("2.36", "Debian GLIBC 2.36-9+deb12u10")
	case o.ID == "rhel":
		return make("2.34", "GNU libc")
	}
	return make("2.40", "GNU libc")
}

// cache writes the loader cache of root, as ldconfig would.
func (in *installer) cache(root string) {
	if in.err != nil || in.nix() {
		return
	}
	v := view{t: in.t, root: root}
	folders, _ := ldcache.Conf(v)
	if root == in.root && in.at.visible != "" && !in.scanned(v, folders, in.at.visible) {
		// A folder that no package of the distribution names.
		in.do(in.t.WriteFile(root+"/etc/ld.so.conf.d/nvidia.conf", []byte(in.at.visible+"\n"), 0o644))
		folders, _ = ldcache.Conf(v)
	}
	built := ldcache.Build(v, folders)
	built.Cache.Generator = glibc(in.m.OS).generator
	in.do(in.t.WriteFile(root+ldcache.File, built.Cache.Marshal(), 0o644))
}

// scanned reports whether dir is among folders, by whatever name.
func (in *installer) scanned(v view, folders []string, dir string) bool {
	real := func(p string) string {
		if to, err := host.Resolve(rooted{v}, p); err == nil {
			return to
		}
		return p
	}
	return slices.ContainsFunc(folders, func(f string) bool { return real(f) == real(dir) })
}

// view is the tree below root as package ldcache asks for it.
type view struct {
	t    *tree.Tree
	root string
}

var _ ldcache.Opener = view{}

func (v view) at(p string) string { return path.Clean(v.root + p) }

func (v view) Lstat(p string) (ldcache.Info, error) {
	info, err := v.t.Lstat(v.at(p))
	return ldcache.Info{Mode: info.Mode, Size: info.Size}, err
}

func (v view) Readlink(p string) (string, error)  { return v.t.Readlink(v.at(p)) }
func (v view) ReadFile(p string) ([]byte, error)  { return v.t.ReadFile(v.at(p)) }
func (v view) ReadDir(p string) ([]string, error) { return v.t.ReadDir(v.at(p)) }

// Open gives the tree's own bytes: no copies of files that only their headers
// are wanted of.
func (v view) Open(p string) (ldcache.Reader, error) {
	e, err := v.t.Entry(v.at(p))
	if err != nil {
		return nil, err
	}
	return content{bytes.NewReader(e.Data)}, nil
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

// rooted is the same view for host.Resolve.
type rooted struct{ view }

func (r rooted) Lstat(p string) (host.Info, error) { return r.t.Lstat(r.at(p)) }
