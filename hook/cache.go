package hook

import (
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// Limits of what is read of an image.
const (
	maxNames = 20_000
	maxFile  = 64 << 20
)

// writeCache makes the container's /etc/ld.so.cache: its own folders and ours,
// ours first. SONAME links that are missing in ours are made, as ldconfig does.
func (w *work) writeCache(ours []string) error {
	v := view{w.root}
	conf, skipped := ldcache.Conf(v)
	for _, s := range skipped {
		w.note("loader configuration: left out %s", s)
	}
	folders := slices.Clone(ours)
	for _, d := range conf {
		if !slices.Contains(folders, d) {
			folders = append(folders, d)
		}
	}
	built := ldcache.Build(v, folders)
	for _, s := range built.Skipped {
		w.note("library cache: left out %s", s)
	}
	if built.SkipsOmitted > 0 {
		w.note("library cache: %d more left out", built.SkipsOmitted)
	}
	for _, l := range built.Links {
		if !slices.Contains(ours, l.Dir) {
			continue
		}
		p := path.Join(l.Dir, l.Name)
		res, err := w.root.Symlink(p, l.Target)
		w.journal.made(res)
		if err != nil {
			w.note("SONAME link: %v", err)
			continue
		}
		if res.Change != inroot.Kept {
			w.journal.Links[p] = l.Target
		}
	}
	res, err := w.root.WriteFile(cacheFile, built.Cache.Marshal(), 0o644)
	w.journal.made(res)
	return err
}

// view is the root as package ldcache reads it.
type view struct{ root *inroot.Root }

var _ ldcache.Opener = view{}

func (v view) Lstat(p string) (ldcache.Info, error) {
	st, err := v.root.Lstat(p)
	if err != nil {
		return ldcache.Info{}, err
	}
	return ldcache.Info{Mode: fileMode(st.Mode), Size: st.Size}, nil
}

func (v view) Readlink(p string) (string, error)  { return v.root.Readlink(p) }
func (v view) ReadFile(p string) ([]byte, error)  { return v.root.ReadFile(p, maxFile) }
func (v view) ReadDir(p string) ([]string, error) { return v.root.ReadDir(p, maxNames) }

func (v view) Open(p string) (ldcache.Reader, error) {
	f, err := v.root.OpenFile(p)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func fileMode(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	}
	return fs.ModeDevice
}
