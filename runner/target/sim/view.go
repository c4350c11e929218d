package sim

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/runner/observe"
	"gpurig/runner/target/liblxc"
)

// A view is a running container as its first process sees it.
type view struct {
	*mountNS
	conf    *liblxc.Conf
	manager string // what says "container=" to the first process
	cgroup  liblxc.Cgroup
	groups  []uint32
}

var (
	_ observe.View   = (*view)(nil)
	_ observe.Tracer = (*view)(nil)
)

// info maps the owner of what lies on via. The container's own file systems
// hold its own ids; everything else comes from the host.
func (v *view) info(at source, via *mount) host.Info {
	i := at.info()
	if !via.own {
		i.UID, _ = inside(v.conf.UIDs, i.UID)
		i.GID, _ = inside(v.conf.GIDs, i.GID)
	}
	return i
}

// Lstat is part of host.Root.
func (v *view) Lstat(p string) (host.Info, error) {
	_, at, via, err := v.find("lstat", p, false)
	if err != nil {
		return host.Info{}, err
	}
	return v.info(at, via), nil
}

// Origin is part of observe.Tracer.
func (v *view) Origin(p string) string {
	at, _, via, err := v.find("stat", p, true)
	if err != nil || via.from == "" {
		return observe.Image
	}
	from, err := host.Resolve(via.host, via.from)
	if err != nil { // it was made for the container
		return observe.Image
	}
	return path.Join(from, strings.TrimPrefix(at, via.target))
}

// OpenNode is part of observe.View. It asks in the kernel's order: the mount,
// owner and mode, the device cgroup; no driver answers in the end.
func (v *view) OpenNode(p string, write bool) syscall.Errno {
	bits, perms := uint32(4), "r"
	if write {
		bits, perms = 6, "rw"
	}
	_, at, via, err := v.find("open", p, true)
	if err != nil {
		return syscall.ENOENT
	}
	i := at.info()
	switch {
	case !i.IsDevice():
		return syscall.ENODEV
	case slices.Contains(via.flags, "nodev"):
		return syscall.EACCES
	case !v.may(i, via, bits):
		return syscall.EACCES
	case !v.cgroup.Permits(i.DeviceType(), i.Num, perms):
		return syscall.EPERM
	}
	return syscall.ENXIO
}

// ReadFile is part of host.Root.
func (v *view) ReadFile(p string) ([]byte, error) { return v.Head(p, -1) }

// Head is part of observe.View.
func (v *view) Head(p string, n int) ([]byte, error) {
	if err := v.readable(p); err != nil {
		return nil, err
	}
	return v.mountNS.Head(p, n)
}

// ReadDir is part of host.Root.
func (v *view) ReadDir(p string) ([]string, error) {
	if err := v.readable(p); err != nil {
		return nil, err
	}
	return v.mountNS.ReadDir(p)
}

// readable says whether the container's root may read p: its own files always, the host's
// as owner and mode have it, on the way too.
func (v *view) readable(p string) error {
	if len(v.conf.UIDs) == 0 {
		return nil
	}
	real, at, via, err := v.find("open", p, true)
	if err != nil {
		return err
	}
	for want := uint32(4); !via.own; want = 1 {
		if !v.may(at.info(), via, want) {
			return &fs.PathError{Op: "open", Path: p, Err: syscall.EACCES}
		}
		if real == via.target {
			break
		}
		real = path.Dir(real)
		at, via, _ = v.direct(real)
	}
	return nil
}

// may is the kernel's answer for the container's root. Its
// CAP_DAC_OVERRIDE counts only for inodes whose owner and group both have an id
// in the container (privileged_wrt_inode_uidgid); for others it is as anybody.
func (v *view) may(i host.Info, via *mount, want uint32) bool {
	if via.own {
		return true
	}
	uid, uok := inside(v.conf.UIDs, i.UID)
	gid, gok := inside(v.conf.GIDs, i.GID)
	if uok && gok {
		return true
	}
	bits := uint32(i.Mode.Perm())
	switch {
	case uok && uid == 0:
		bits >>= 6
	case gok && (gid == 0 || slices.Contains(v.groups, gid)):
		bits >>= 3
	}
	return bits&want == want
}

// Mounts is part of observe.View.
func (v *view) Mounts() ([]observe.MountLine, error) {
	out := make([]observe.MountLine, 0, len(v.mounts))
	for _, m := range v.mounts {
		out = append(out, observe.MountLine{Target: m.target, Type: m.fstype, Options: m.options()})
	}
	return out, nil
}

// options are the flags as mountinfo writes them.
func (m *mount) options() []string {
	if slices.Contains(m.flags, "ro") {
		return m.flags
	}
	return append([]string{"rw"}, m.flags...)
}

// Environ is part of observe.View. A later line for one name replaces an earlier.
func (v *view) Environ() ([]string, error) {
	out := []string{"container=" + v.manager, "PATH=/sbin:/usr/sbin:/bin:/usr/bin"}
	for _, v := range v.conf.Env {
		name, _, _ := strings.Cut(v, "=")
		at := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		if at < 0 {
			out = append(out, v)
			continue
		}
		out[at] = v
	}
	return out, nil
}

// Groups is part of observe.View.
func (v *view) Groups() ([]uint32, error) { return v.groups, nil }
