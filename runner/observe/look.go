package observe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"gpurig/core/device"
	"gpurig/core/host"
)

// maxDepth bounds the walk through /dev.
const maxDepth = 8

// Look makes the observation that r asks for. What could not be looked at is in
// Observation.Problems: an observation without problems is complete.
func Look(v View, r Request) Observation {
	l := looker{v: v, manager: r.Manager, level: r.Level, nodes: map[string]bool{}, links: map[string]bool{}}
	mounts, err := v.Mounts()
	l.problem("mount table", err)
	l.lookMounts(mounts)
	l.walkDev("/dev", 0)
	for _, d := range r.Dirs {
		l.lookDir(d)
	}
	for _, p := range r.Paths {
		l.lookPath(p)
	}
	l.lookContents(r.Contents)
	l.search(r.Texts)
	l.lookLibraries(r.SONAMEs)
	l.lookProcess()
	l.lookSmoke(r.Smoke)
	l.sort()
	return l.o
}

// A looker collects one Observation.
type looker struct {
	v            View
	o            Observation
	manager      string
	level        int
	nodev        map[string]bool // mount points, and whether the top mount has nodev
	nodes, links map[string]bool // paths already listed
}

// problem notes that something could not be looked at; nil is none.
func (l *looker) problem(what string, err error) {
	if err != nil {
		l.o.Problems = append(l.o.Problems, fmt.Sprintf("%s: %v", what, err))
	}
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// lookMounts lists the mounts that not every container has. The type is that of
// what is seen at the target: a mount hidden by a later one shows the later.
func (l *looker) lookMounts(lines []MountLine) {
	l.nodev = make(map[string]bool, len(lines))
	for _, m := range lines {
		l.nodev[m.Target] = slices.Contains(m.Options, "nodev")
		if isBaseMount(m) || isManagerMount(l.manager, m) {
			continue
		}
		typ := "absent"
		if info, err := l.v.Lstat(m.Target); err == nil {
			typ = typeName(info)
		} else if !missing(err) {
			l.problem("mount "+m.Target, err)
		}
		l.o.Mounts = append(l.o.Mounts, Mount{Target: m.Target, Type: typ, Options: shownOptions(m.Options)})
	}
}

// shownOptions keeps the options that decide what can be done with a mount.
func shownOptions(all []string) []string {
	out := make([]string, 0, 4)
	for _, o := range all {
		switch o {
		case "ro", "rw", "nosuid", "nodev", "noexec":
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// walkDev lists the nodes and links below dir, standard ones left out.
func (l *looker) walkDev(dir string, depth int) {
	names, err := l.v.ReadDir(dir)
	if missing(err) {
		return
	}
	l.problem("folder "+dir, err)
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := l.v.Lstat(p)
		switch {
		case missing(err): // gone since ReadDir
		case err != nil:
			l.problem(p, err)
		case info.IsDevice():
			l.addNode(p, info)
		case info.IsLink():
			l.addLink(p)
		case info.Mode.IsDir() && !isBaseDir(p) && !isManagerDir(l.manager, p):
			if depth == maxDepth {
				l.problem(p, fmt.Errorf("more than %d folders deep", maxDepth))
				continue
			}
			l.walkDev(p, depth+1)
		}
	}
}

func (l *looker) addNode(p string, info host.Info) {
	if l.nodes[p] || isBaseNode(p, info.DeviceType(), info.Num) || isManagerNode(l.manager, p, info.DeviceType(), info.Num) {
		return
	}
	l.nodes[p] = true
	l.o.Nodes = append(l.o.Nodes, Node{
		Path: p, Type: info.DeviceType(), Num: info.Num, Mode: info.Mode.Perm(),
		UID: info.UID, GID: info.GID, Open: l.access(p, info.Mode),
	})
}

// access opens a node. The kernel asks the mount first, then owner and mode,
// then the device cgroup (fs/namei.c, may_open and inode_permission), so the
// first that refuses is the one that shows.
//
// A node that nobody may write (NVIDIA's capability nodes, 0444) is opened for
// reading only, as its users do.
func (l *looker) access(p string, mode fs.FileMode) Access {
	switch l.v.OpenNode(p, mode&0o222 != 0) {
	case syscall.EPERM:
		return Denied
	case syscall.EACCES:
		if l.onNodev(p) {
			return Nodev
		}
		return NoMode
	default:
		// ENXIO and ENODEV: permitted, no driver. Any other errno comes from a
		// driver, which is asked last.
		return Allowed
	}
}

// onNodev reports whether the mount that p lies on has nodev.
func (l *looker) onNodev(p string) bool {
	for {
		if nodev, ok := l.nodev[p]; ok || p == "/" {
			return nodev
		}
		p = path.Dir(p)
	}
}

// addLink lists a link unless every container has it.
func (l *looker) addLink(p string) {
	if l.links[p] {
		return
	}
	target, err := l.v.Readlink(p)
	if err != nil {
		l.problem("link "+p, err)
		return
	}
	if isBaseLink(p, target) {
		return
	}
	l.links[p] = true
	l.o.Links = append(l.o.Links, Link{Path: p, Target: target, Final: l.final(p)})
}

// final returns where p ends, or "" if it dangles or loops.
func (l *looker) final(p string) string {
	to, err := resolve(l.v, p)
	if err != nil && !missing(err) && !errors.Is(err, syscall.ELOOP) {
		l.problem("link "+p, err)
	}
	return to
}

// resolve is host.Resolve, by the View itself where it knows a shorter way.
func resolve(v View, p string) (string, error) {
	if r, ok := v.(interface{ Resolve(string) (string, error) }); ok {
		return r.Resolve(p)
	}
	return host.Resolve(v, p)
}

// lookDir lists the links in one folder. A folder that is not there has none.
func (l *looker) lookDir(dir string) {
	names, err := l.v.ReadDir(dir)
	if missing(err) {
		return
	}
	l.problem("folder "+dir, err)
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := l.v.Lstat(p)
		if err != nil && !missing(err) {
			l.problem(p, err)
		}
		if err == nil && info.IsLink() {
			l.addLink(p)
		}
	}
}

// lookPath lists one path under what it is.
func (l *looker) lookPath(p string) {
	p = path.Clean(p)
	if isManagerFile(l.manager, p) {
		return
	}
	info, err := l.v.Lstat(p)
	switch {
	case missing(err) || errors.Is(err, syscall.ELOOP):
		l.o.Files = append(l.o.Files, File{Path: p, Type: "absent"})
	case err != nil:
		l.problem(p, err)
	case info.IsDevice():
		l.addNode(p, info)
	case info.IsLink():
		l.addLink(p)
	default:
		f := File{Path: p, Type: typeName(info), Mode: info.Mode.Perm(), UID: info.UID, GID: info.GID}
		if info.Mode.IsRegular() { // the size of a folder is the file system's affair
			f.Size = info.Size
		}
		l.o.Files = append(l.o.Files, f)
	}
}

// typeName names the type of an inode in the words of Mount and File.
func typeName(info host.Info) string {
	switch m := info.Mode; {
	case m.IsDir():
		return "dir"
	case m.IsRegular():
		return "file"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSymlink != 0:
		return "link"
	case info.DeviceType() == device.Block:
		return "block"
	default:
		return "char"
	}
}

// lookProcess lists environment and groups. Group 0 is every first process's own.
func (l *looker) lookProcess() {
	env, err := l.v.Environ()
	l.problem("environment", err)
	for _, v := range env {
		if !isBaseVar(v) && !isManagerVar(l.manager, v) {
			l.o.Env = append(l.o.Env, v)
		}
	}
	groups, err := l.v.Groups()
	l.problem("groups", err)
	for _, g := range groups {
		if g != 0 {
			l.o.Groups = append(l.o.Groups, g)
		}
	}
}

// sort puts everything in the order that Observation promises.
func (l *looker) sort() {
	o := &l.o
	slices.SortFunc(o.Nodes, func(a, b Node) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortStableFunc(o.Mounts, func(a, b Mount) int { return cmp.Compare(a.Target, b.Target) })
	slices.SortFunc(o.Links, func(a, b Link) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(o.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	o.Files = slices.Compact(o.Files)
	slices.SortFunc(o.Libraries, func(a, b Library) int { return cmp.Compare(a.SONAME, b.SONAME) })
	o.Libraries = slices.Compact(o.Libraries)
	slices.SortFunc(o.Contents, func(a, b Content) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(o.Env)
	slices.Sort(o.Groups)
	o.Groups = slices.Compact(o.Groups)
	slices.Sort(o.Problems)
}
