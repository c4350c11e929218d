package sim

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// A mount is one mount of a container's mount namespace.
type mount struct {
	target string // resolved
	from   string // path of host; empty: it is a file system of the container's own
	host   host.Root
	src    source
	fstype string
	flags  []string // of ro, nosuid, nodev, noexec, sorted
	own    bool     // the container's own file system (its root, its /dev), not a bind mount of the host's
}

// A mountNS is a mount namespace: the container's root with everything mounted on
// it, as one file tree. It is a host.Root.
type mountNS struct {
	mounts []*mount          // in the order of mounting
	top    map[string]*mount // the mount that shows at a path

	// Directories that were walked to, and whether root.passable lets through to one;
	// nil: something may change.
	walked   map[string]step
	passable map[string]bool
}

// A step is what a directory's path leads to.
type step struct {
	real  string
	at    source
	via   *mount
	errno syscall.Errno
}

var _ host.Root = (*mountNS)(nil)

func newMountNS(root *tree.Tree, flags []string) *mountNS {
	e, err := root.Entry("/")
	if err != nil {
		panic(err) // every tree has a root
	}
	m := &mount{target: "/", src: entry{e}, fstype: "ext4", flags: flags, own: true}
	return &mountNS{mounts: []*mount{m}, top: map[string]*mount{"/": m}}
}

// add mounts m. What was mounted at or below its target no longer shows.
func (s *mountNS) add(m *mount) {
	if m.src.info().Mode.IsDir() {
		below := m.target + "/"
		for p := range s.top {
			if strings.HasPrefix(p, below) {
				delete(s.top, p)
			}
		}
	}
	s.mounts = append(s.mounts, m)
	s.top[m.target] = m
}

// remove unmounts what shows at target and reports whether something was.
func (s *mountNS) remove(target string) bool {
	m := s.top[target]
	if m == nil || target == "/" {
		return false
	}
	s.mounts = slices.DeleteFunc(s.mounts, func(o *mount) bool { return o == m })
	s.rebuild()
	return true
}

// rebuild computes what shows from the mounts that are left.
func (s *mountNS) rebuild() {
	all := s.mounts
	s.mounts, s.top = nil, make(map[string]*mount, len(all))
	for _, m := range all {
		s.add(m)
	}
}

// still runs f, which changes nothing: each directory is walked to once.
func (s *mountNS) still(f func()) {
	s.walked, s.passable = map[string]step{}, map[string]bool{}
	defer func() { s.walked, s.passable = nil, nil }()
	f()
}

// find walks to p, links in directories followed; that of the last component
// only if follow. real is the path without links.
func (s *mountNS) find(op, p string, follow bool) (real string, at source, via *mount, err error) {
	return s.on(nil, op, p, follow)
}

// on is find for a path that crosses no mount but m; nil: any.
func (s *mountNS) on(m *mount, op, p string, follow bool) (real string, at source, via *mount, err error) {
	errno := syscall.EINVAL
	switch {
	case !path.IsAbs(p):
	case m == nil && s.walked != nil:
		real, at, via, errno = s.near(p, follow)
	default:
		real, at, via, errno = s.trace(m, path.Clean(p), follow)
	}
	if errno != 0 {
		return "", nil, nil, &fs.PathError{Op: op, Path: p, Err: errno}
	}
	return real, at, via, nil
}

// near is trace from the directory of p.
func (s *mountNS) near(p string, follow bool) (string, source, *mount, syscall.Errno) {
	i := strings.LastIndexByte(p, '/')
	dir, name := p[:max(i, 1)], p[i+1:]
	if name == "" || name == "." || name == ".." {
		return s.trace(nil, path.Clean(p), follow)
	}
	d, ok := s.walked[dir]
	if !ok {
		d.real, d.at, d.via, d.errno = s.trace(nil, path.Clean(dir), true)
		s.walked[dir] = d
	}
	if d.errno != 0 {
		return "", nil, nil, d.errno
	}
	real := strings.TrimSuffix(d.real, "/") + "/" + name
	at, via, errno := s.step(d.at, d.via, real, name)
	if errno == 0 && follow && at.info().IsLink() {
		return s.trace(nil, real, true)
	}
	return real, at, via, errno
}

// step goes from a directory to what shows under a name in it, which is at p.
func (s *mountNS) step(at source, via *mount, p, name string) (source, *mount, syscall.Errno) {
	if len(s.top) > 1 { // something is mounted on the root
		if m := s.top[p]; m != nil {
			return m.src, m, 0
		}
	}
	if next, ok := at.child(name); ok {
		return next, via, 0
	}
	if at.info().Mode.IsDir() {
		return nil, nil, syscall.ENOENT
	}
	return nil, nil, syscall.ENOTDIR
}

// trace walks down from the root. At a link it starts over with the path that
// the link makes of p: what stands before a link has none, so ".." in front of
// a target can be taken literally.
func (s *mountNS) trace(only *mount, p string, follow bool) (string, source, *mount, syscall.Errno) {
	for links := 0; ; links++ {
		if links > host.MaxLinks {
			return "", nil, nil, syscall.ELOOP
		}
		at, via, end, errno := s.descend(p)
		if errno != 0 {
			return "", nil, nil, errno
		}
		if !at.info().IsLink() || end == len(p) && !follow {
			return p, at, via, 0
		}
		target := at.readlink()
		if only != nil && (via != only || path.IsAbs(target) && only.target != "/") {
			return "", nil, nil, syscall.EXDEV
		}
		if !simpleTarget(target) {
			return s.traceSlowly(p, follow)
		}
		if !path.IsAbs(target) {
			target = path.Dir(p[:end]) + "/" + target
		}
		p = path.Clean(target + p[end:])
	}
}

// simpleTarget reports whether a link's text is clean and has ".." only in front.
func simpleTarget(t string) bool {
	for strings.HasPrefix(t, "../") {
		t = t[3:]
	}
	return !strings.Contains(t, "..") && path.Clean(t) == t
}

// traceSlowly is trace for any link, by the rules of package host.
func (s *mountNS) traceSlowly(p string, follow bool) (string, source, *mount, syscall.Errno) {
	resolve := host.ResolveDir
	if follow {
		resolve = host.Resolve
	}
	real, err := resolve(flat{s}, p)
	if err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return "", nil, nil, errno
		}
		return "", nil, nil, syscall.EIO
	}
	at, via, ok := s.direct(real)
	if !ok {
		return "", nil, nil, syscall.ENOENT
	}
	return real, at, via, 0
}

// descend walks along a clean absolute path up to its end or to the first link;
// end is where in p that is.
func (s *mountNS) descend(p string) (at source, via *mount, end int, errno syscall.Errno) {
	via = s.top["/"]
	at = via.src
	for i := 1; i < len(p); {
		j := strings.IndexByte(p[i:], '/')
		if j < 0 {
			j = len(p)
		} else {
			j += i
		}
		if at, via, errno = s.step(at, via, p[:j], p[i:j]); errno != 0 {
			return nil, nil, i, errno
		}
		if at.info().IsLink() {
			return at, via, j, 0
		}
		i = j + 1
	}
	return at, via, len(p), 0
}

// direct walks to a clean absolute path that has no link on its way; it may be
// one itself. via is the mount that it lies on.
func (s *mountNS) direct(p string) (at source, via *mount, ok bool) {
	at, via, end, errno := s.descend(p)
	return at, via, errno == 0 && end == len(p)
}

// Resolve returns the path without links that p leads to.
func (s *mountNS) Resolve(p string) (string, error) {
	real, _, _, err := s.find("resolve", p, true)
	return real, err
}

// flat is the view that host.Resolve walks with: it follows no link itself.
type flat struct{ s *mountNS }

func (f flat) Lstat(p string) (host.Info, error) {
	at, _, ok := f.s.direct(p)
	if !ok {
		return host.Info{}, &fs.PathError{Op: "lstat", Path: p, Err: syscall.ENOENT}
	}
	return at.info(), nil
}

func (f flat) Readlink(p string) (string, error) {
	at, _, ok := f.s.direct(p)
	if !ok {
		return "", &fs.PathError{Op: "readlink", Path: p, Err: syscall.ENOENT}
	}
	return at.readlink(), nil
}

func (flat) ReadFile(p string) ([]byte, error)  { return nil, syscall.ENOSYS }
func (flat) ReadDir(p string) ([]string, error) { return nil, syscall.ENOSYS }

// Lstat is part of host.Root. Owners are as on the file system.
func (s *mountNS) Lstat(p string) (host.Info, error) {
	_, at, _, err := s.find("lstat", p, false)
	if err != nil {
		return host.Info{}, err
	}
	return at.info(), nil
}

// Readlink is part of host.Root.
func (s *mountNS) Readlink(p string) (string, error) {
	_, at, _, err := s.find("readlink", p, false)
	if err != nil {
		return "", err
	}
	if !at.info().IsLink() {
		return "", &fs.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
	}
	return at.readlink(), nil
}

// ReadFile is part of host.Root. The bytes are not to be changed.
func (s *mountNS) ReadFile(p string) ([]byte, error) { return s.Head(p, -1) }

// Head returns the first n bytes of a file, all for n < 0.
func (s *mountNS) Head(p string, n int) ([]byte, error) {
	_, at, _, err := s.find("open", p, true)
	if err != nil {
		return nil, err
	}
	return head(p, at, n)
}

// head is Head of what p leads to.
func head(p string, at source, n int) ([]byte, error) {
	switch m := at.info().Mode; {
	case m.IsDir():
		return nil, &fs.PathError{Op: "read", Path: p, Err: syscall.EISDIR}
	case !m.IsRegular():
		return nil, &fs.PathError{Op: "open", Path: p, Err: syscall.ENXIO}
	}
	return at.head(n)
}

// ReadDir is part of host.Root.
func (s *mountNS) ReadDir(p string) ([]string, error) {
	_, at, _, err := s.find("open", p, true)
	if err != nil {
		return nil, err
	}
	if !at.info().Mode.IsDir() {
		return nil, &fs.PathError{Op: "readdirent", Path: p, Err: syscall.ENOTDIR}
	}
	return at.names(), nil
}

// A folder is a directory of one of the container's own file systems, where
// liblxc and the hook may change things.
type folder struct {
	e    *tree.Entry
	path string // without links
	ro   bool   // the mount is read-only
}

// own returns the directory dir, which has no link on its way, as a folder. It
// refuses to go through a bind mount with EXDEV.
func (s *mountNS) own(dir string) (folder, error) {
	at, via, ok := s.direct(dir)
	errno := syscall.ENOENT
	switch {
	case !ok:
	case !via.own:
		errno = syscall.EXDEV
	case !at.info().Mode.IsDir():
		errno = syscall.ENOTDIR
	default:
		return folder{at.(entry).e, dir, slices.Contains(via.flags, "ro")}, nil
	}
	return folder{}, &fs.PathError{Op: "open", Path: dir, Err: errno}
}

// child returns what is in the folder under a name; nil: nothing.
func (f folder) child(name string) *tree.Entry { return f.e.Children[name] }

// put makes or replaces an entry, remove removes one.
func (f folder) put(name string, e *tree.Entry) error {
	if f.ro {
		return &fs.PathError{Op: "create", Path: path.Join(f.path, name), Err: syscall.EROFS}
	}
	f.e.Children[name] = e
	return nil
}

func (f folder) remove(name string) error {
	if f.ro {
		return &fs.PathError{Op: "remove", Path: path.Join(f.path, name), Err: syscall.EROFS}
	}
	delete(f.e.Children, name)
	return nil
}

// Entries of the container's own file systems, owned by its root.

func newFile(data []byte, perm fs.FileMode, uid uint32) *tree.Entry {
	return &tree.Entry{Info: host.Info{Mode: perm, Size: int64(len(data)), UID: uid, GID: uid}, Data: data}
}

func newLink(target string, uid uint32) *tree.Entry {
	return &tree.Entry{Info: host.Info{Mode: fs.ModeSymlink | 0o777, Size: int64(len(target)), UID: uid, GID: uid}, Target: target}
}

func newDir(uid uint32) *tree.Entry {
	return &tree.Entry{Info: host.Info{Mode: fs.ModeDir | 0o755, UID: uid, GID: uid}, Children: map[string]*tree.Entry{}}
}
