package translate

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
)

// look looks at the host, and remembers what it saw.
type look struct {
	root   *limited
	prefix string // driver root; empty: none
	seen   map[string]found
	dirs   map[string]dir    // directories of what was looked at, by prefix and path
	safe   map[string]string // see untrusted
	canon  map[string]string // first components that are links of a merged /usr
	mounts []string          // mount points of the host, sorted
	asked  bool              // whether mounts was read
	tegra  *bool
	majors map[uint32][]string // of character devices
	blocks map[uint32][]string // of block devices
	misc   map[uint32]string
	procs  error // why majors is not there
}

func newLook(root host.Root, prefix string) *look {
	if prefix == "/" {
		prefix = ""
	}
	return &look{root: &limited{Root: root}, prefix: prefix, seen: map[string]found{}, dirs: map[string]dir{}, safe: map[string]string{}}
}

// found is what is at a host path.
type found struct {
	source string    // without links, as the host has it
	inner  string    // source, as seen from the driver root
	named  string    // like inner, but the last component's own link not followed
	info   host.Info // of source
	link   bool      // the last component is a link
	err    error
}

// below is a view of a host below one directory, for resolving links there.
type below struct {
	host.Root
	dir string
}

func (b below) Lstat(p string) (host.Info, error) { return b.Root.Lstat(path.Join(b.dir, p)) }
func (b below) Readlink(p string) (string, error) { return b.Root.Readlink(path.Join(b.dir, p)) }

// isBelow reports whether p is dir or lies below it, by whole components.
func isBelow(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// strip takes the driver root off a path that lies below it.
func (l *look) strip(p string) string {
	if l.prefix == "" || !isBelow(p, l.prefix) {
		return p
	}
	return path.Join("/", strings.TrimPrefix(p, l.prefix))
}

// at looks at a clean, absolute host path.
func (l *look) at(p string) found {
	if f, ok := l.seen[p]; ok {
		return f
	}
	f := l.find(p)
	l.seen[p] = f
	return f
}

func (l *look) find(p string) found {
	var r host.Root = l.root
	prefix := ""
	if l.prefix != "" && isBelow(p, l.prefix) {
		r, prefix, p = below{l.root, l.prefix}, l.prefix, l.strip(p)
	}
	parent, err := l.dir(r, prefix, path.Dir(p))
	if err != nil {
		return found{err: err}
	}
	named := path.Join(parent, path.Base(p))
	info, err := r.Lstat(named)
	if err != nil {
		return found{err: err}
	}
	f := found{source: path.Join(prefix, named), inner: named, named: named, info: info}
	if !info.IsLink() {
		return f
	}
	real, err := host.Resolve(r, named)
	if err != nil {
		return found{err: err, link: true}
	}
	if info, err = r.Lstat(real); err != nil {
		return found{err: err, link: true}
	}
	return found{source: path.Join(prefix, real), inner: real, named: named, info: info, link: true}
}

// A dir is where the links of a directory lead, or why nowhere.
type dir struct {
	real string
	err  error
}

// dir resolves a directory once: a Spec names many files of few directories.
func (l *look) dir(r host.Root, prefix, p string) (string, error) {
	key := prefix + "\x00" + p
	d, ok := l.dirs[key]
	if !ok {
		d.real, d.err = host.Resolve(r, p)
		l.dirs[key] = d
	}
	return d.real, d.err
}

// gone reports whether nothing is there, as opposed to something odd.
func (f found) gone() bool { return errors.Is(f.err, fs.ErrNotExist) }

// merged are the links of a merged /usr, and of /var/run.
var merged = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/var/run", "/var/lock"}

// container returns how a container path is written in the plan: without the
// links that this host has for a merged /usr. A file at /lib/x and one at
// /usr/lib/x are then seen to be the same, and liblxc, which refuses to mount
// through a link, gets the real directory of a container that is merged too.
//
// Other links of the host are left alone: the container has its own.
func (l *look) container(p string) string {
	if l.canon == nil {
		l.canon = map[string]string{}
		for _, m := range merged {
			if f := l.at(path.Join("/", l.prefix, m)); f.err == nil && f.link && f.info.Mode.IsDir() {
				l.canon[m] = f.inner
			}
		}
	}
	end := 0
	for range 2 { // the keys have one component or two
		next := strings.IndexByte(p[min(end+1, len(p)):], '/')
		if next < 0 {
			end = len(p)
		} else {
			end += 1 + next
		}
		if to := l.canon[p[:end]]; to != "" {
			return to + p[end:]
		}
	}
	return p
}

// untrusted returns the component of a link-free path that everybody can write
// to; empty: none. Directories with the sticky bit are fine.
func (l *look) untrusted(p string) (string, error) {
	if p == "/" {
		return "", nil
	}
	if bad, ok := l.safe[p]; ok {
		return bad, nil
	}
	f := l.at(p)
	if f.err != nil {
		return "", f.err
	}
	bad := p
	if f.info.Mode.Perm()&0o002 == 0 || f.info.Mode.IsDir() && f.info.Mode&fs.ModeSticky != 0 {
		var err error
		if bad, err = l.untrusted(path.Dir(p)); err != nil {
			return "", err
		}
	}
	l.safe[p] = bad
	return bad, nil
}

// mountPoints returns the fifth field of each line, unescaped
// (proc_pid_mountinfo(5)), sorted.
func mountPoints(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 5 {
			out = append(out, unescape(fields[4]))
		}
	}
	slices.Sort(out)
	return out
}

// unescape reads the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

// isTegra reports whether the host is a Tegra SoC.
func (l *look) isTegra() bool {
	if l.tegra == nil {
		_, err := l.root.Lstat("/etc/nv_tegra_release")
		compatible, _ := l.root.ReadFile("/sys/firmware/devicetree/base/compatible")
		is := err == nil || strings.Contains(string(compatible), "nvidia,tegra")
		l.tegra = &is
	}
	return *l.tegra
}

// submount returns a mount point below the directory p; empty: none. A host
// whose mounts cannot be read (a tree that is not the running machine's) has
// none.
func (l *look) submount(p string) (string, error) {
	if !l.asked {
		l.asked = true
		data, err := l.root.ReadFile("/proc/self/mountinfo")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read /proc/self/mountinfo: %w", err)
		}
		l.mounts = mountPoints(string(data))
	}
	below := strings.TrimSuffix(p, "/") + "/"
	if i, _ := slices.BinarySearch(l.mounts, below); i < len(l.mounts) && l.mounts[i] != p && strings.HasPrefix(l.mounts[i], below) {
		return l.mounts[i], nil
	}
	return "", nil
}
