package sim

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
	"gpurig/runner/target/liblxc"
)

// A mounter carries out mount entries in one space, as liblxc's mount_entry, or
// as an OCI runtime.
type mounter struct {
	flags func(e liblxc.Entry, source []string) []string // of a finished mount, given its source's; nil: as liblxc

	space *mountNS
	host  host.Root
	made  map[string]*tree.Entry // nodes of the container's own, by path on the host
}

// mount carries out one entry.
func (m *mounter) mount(e liblxc.Entry) error {
	err := m.try(e)
	if err != nil && e.Optional() {
		return nil
	}
	return err
}

func (m *mounter) try(e liblxc.Entry) error {
	to, err := targetOf(e)
	if err != nil {
		return err
	}
	if err := m.create(to, e.Create()); err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	src, own, fstype, from := source(nil), false, "ext4", e.Source
	flags := liblxc.Entry.Flags
	if m.flags != nil {
		flags = m.flags
	}
	if e.Type == "tmpfs" { // what is mounted for the first time has the flags that are asked for
		src, own, fstype, from = entry{newDir(0)}, true, "tmpfs", ""
		flags = func(e liblxc.Entry, _ []string) []string { return askedFlags(e) }
	} else if src, err = m.source(e.Source); err != nil {
		return fmt.Errorf("mount %s on %s: source: %w", e.Source, to, cause(err))
	}
	at, ok := m.point(to)
	switch {
	case !ok:
		return fmt.Errorf("mount %s on %s: %w", e.Source, to, m.why(to))
	case at.info().Mode.IsDir() != src.info().Mode.IsDir():
		return fmt.Errorf("mount %s on %s: %w", e.Source, to, syscall.ENOTDIR)
	}
	below, err := flagsBelow(m.host, src)
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", e.Source, to, err)
	}
	m.space.add(&mount{target: to, from: from, host: m.host, src: src, fstype: fstype, flags: flags(e, below), own: own})
	return nil
}

// targetOf returns the target as a path in the container.
func targetOf(e liblxc.Entry) (string, error) {
	if strings.HasPrefix(e.Target, "/") {
		// liblxc looks for the root's path in it and passes over the entry
		// where it is not: nothing would be mounted.
		return "", fmt.Errorf("target %s is absolute: liblxc ignores such an entry", e.Target)
	}
	to := path.Join("/", e.Target)
	if to != "/"+e.Target {
		return "", fmt.Errorf("target %q is not a clean path", e.Target)
	}
	return to, nil
}

// source finds what is to be bound.
func (m *mounter) source(p string) (source, error) {
	if e := m.made[p]; e != nil {
		return entry{e}, nil
	}
	return open(m.host, p)
}

// point walks to a mount point. liblxc refuses a link anywhere on the way
// (utils.c, open_without_symlink).
func (m *mounter) point(to string) (source, bool) {
	at, _, ok := m.space.direct(to)
	if !ok || at.info().IsLink() {
		return nil, false
	}
	return at, true
}

// why says what is wrong with a mount point: a link on the way, or nothing there.
func (m *mounter) why(to string) error {
	for p := to; p != "/"; p = path.Dir(p) {
		if at, _, ok := m.space.direct(p); ok && at.info().IsLink() {
			return fmt.Errorf("%s is a link: %w", p, syscall.ELOOP)
		}
	}
	return syscall.ENOENT
}

// create does what create=file and create=dir say: parents 0755, an empty file
// of mode 0. It follows the links of the image, as liblxc does; where one
// leads out of the root, liblxc makes things on the host, which here is an
// error.
func (m *mounter) create(to, what string) error {
	if what == "" {
		return nil
	}
	if at, _, ok := m.space.direct(to); ok && !at.info().IsLink() {
		return nil
	}
	if _, _, _, err := m.space.find("stat", to, true); err == nil {
		return nil
	}
	dir := to
	if what == "file" {
		dir = path.Dir(to)
	}
	if err := m.mkdirAll(dir); err != nil || what == "dir" {
		return err
	}
	d, err := m.space.own(dir)
	if err != nil {
		return err
	}
	return d.put(path.Base(to), newFile(nil, 0, 0))
}

func (m *mounter) mkdirAll(dir string) error {
	at, _, ok := m.space.direct(dir)
	switch {
	case ok && at.info().Mode.IsDir():
		return nil
	case ok && at.info().IsLink():
		return fmt.Errorf("%s is a link: %w", dir, syscall.ELOOP)
	case ok:
		return fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
	}
	if err := m.mkdirAll(path.Dir(dir)); err != nil {
		return err
	}
	d, err := m.space.own(path.Dir(dir))
	if err != nil {
		return err
	}
	return d.put(path.Base(dir), newDir(0))
}

// cause is the system's answer within an error, without the way to it.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
