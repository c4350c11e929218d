package sim

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
)

// A source is one inode that can be walked from: of a tree in memory, or of any
// host.Root. It follows no link.
type source interface {
	info() host.Info
	child(name string) (source, bool)
	names() []string
	readlink() string
	head(n int) ([]byte, error) // n < 0: all
	ino() uint64                // one inode, one number
}

var seed = maphash.MakeSeed()

// entry is an inode of a tree.
type entry struct{ e *tree.Entry }

func (s entry) info() host.Info { return s.e.Info }

func (s entry) child(name string) (source, bool) {
	c := s.e.Children[name]
	return entry{c}, c != nil
}

func (s entry) names() []string { return s.e.Names() }

func (s entry) readlink() string { return s.e.Target }

func (s entry) head(n int) ([]byte, error) {
	if n < 0 || n > len(s.e.Data) {
		n = len(s.e.Data)
	}
	return s.e.Data[:n:n], nil
}

func (s entry) ino() uint64 { return maphash.Comparable(seed, s.e) }

// rooted is a path of a host.Root that is no tree: the machine itself.
type rooted struct {
	r  host.Root
	p  string // has no link on its way
	st host.Info
}

func (s rooted) info() host.Info { return s.st }

func (s rooted) child(name string) (source, bool) {
	p := path.Join(s.p, name)
	st, err := s.r.Lstat(p)
	return rooted{s.r, p, st}, err == nil
}

func (s rooted) names() []string {
	names, err := s.r.ReadDir(s.p)
	if err != nil {
		return nil
	}
	return names
}

func (s rooted) readlink() string {
	target, err := s.r.Readlink(s.p)
	if err != nil {
		return ""
	}
	return target
}

func (s rooted) head(n int) ([]byte, error) {
	data, err := s.r.ReadFile(s.p)
	if n >= 0 && n < len(data) {
		data = data[:n]
	}
	return data, err
}

func (s rooted) ino() uint64 { return maphash.String(seed, s.p) }

// open finds p on a host, links followed as mount(2) does with its source.
func open(r host.Root, p string) (source, error) {
	t, isTree := r.(*tree.Tree)
	if isTree {
		if e, err := t.Entry(p); err == nil && !e.IsLink() {
			return entry{e}, nil // the common case
		}
	}
	real, err := host.Resolve(r, p)
	if err != nil {
		return nil, err
	}
	if isTree {
		e, err := t.Entry(real)
		if err != nil {
			return nil, err
		}
		return entry{e}, nil
	}
	st, err := r.Lstat(real)
	if err != nil {
		return nil, err
	}
	return rooted{r, real, st}, nil
}

// flagsBelow are the flags, of ro, nosuid, nodev and noexec, that the file system under
// a source is mounted with. A fake host's have none; those of this machine are in its
// mount table.
func flagsBelow(r host.Root, s source) ([]string, error) {
	at, ok := s.(rooted)
	if d, dir := r.(interface{ Dir() string }); !ok || !dir || d.Dir() != "/" {
		return nil, nil
	}
	table, err := r.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	lines, err := observe.ParseMountinfo(string(table))
	if err != nil {
		return nil, err
	}
	var under observe.MountLine
	for _, l := range lines { // the later of two mounts on one point is the one that shows
		if (l.Target == "/" || at.p == l.Target || strings.HasPrefix(at.p, l.Target+"/")) && len(l.Target) >= len(under.Target) {
			under = l
		}
	}
	return slices.DeleteFunc(under.Options, func(o string) bool {
		return !slices.Contains([]string{"ro", "nosuid", "nodev", "noexec"}, o)
	}), nil
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
