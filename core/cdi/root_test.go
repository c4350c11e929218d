package cdi_test

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
)

// A memRoot is a host.Root made of a map. Directories above an entry exist by
// themselves, as root's, mode 0755.
type memRoot map[string]memFile

type memFile struct {
	mode fs.FileMode // 0: a regular file, 0644
	uid  uint32
	size int64 // 0: that of data
	data string
	err  error              // returned by every call
	read func() (int, bool) // called on each ReadFile: how many bytes are there now
}

func (r memRoot) find(p string) (memFile, error) {
	f, ok := r[p]
	if ok {
		return f, f.err
	}
	for q := range r {
		if strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") {
			return memFile{mode: fs.ModeDir | 0o755}, nil
		}
	}
	return memFile{}, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrNotExist}
}

// real resolves the links in the directory of p.
func (r memRoot) real(p string) (string, error) {
	if path.Dir(p) == "/" {
		return p, nil
	}
	dir, err := host.Resolve(r, path.Dir(p))
	return path.Join(dir, path.Base(p)), err
}

func (r memRoot) Lstat(p string) (host.Info, error) {
	p, err := r.real(p)
	if err != nil {
		return host.Info{}, err
	}
	f, err := r.find(p)
	if err != nil {
		return host.Info{}, err
	}
	if f.mode == 0 {
		f.mode = 0o644
	}
	size := int64(len(f.data))
	if f.size > 0 {
		size = f.size
	}
	return host.Info{Mode: f.mode, UID: f.uid, Size: size}, nil
}

func (r memRoot) Readlink(p string) (string, error) {
	p, err := r.real(p)
	if err != nil {
		return "", err
	}
	f, err := r.find(p)
	if err == nil && f.mode&fs.ModeSymlink == 0 {
		err = syscall.EINVAL
	}
	return f.data, err
}

func (r memRoot) ReadFile(p string) ([]byte, error) {
	p, err := host.Resolve(r, p)
	if err != nil {
		return nil, err
	}
	f, err := r.find(p)
	if err != nil {
		return nil, err
	}
	if f.mode != 0 && !f.mode.IsRegular() {
		panic("opened " + p + ", which is no regular file")
	}
	if f.read != nil {
		if n, ok := f.read(); ok {
			return []byte(f.data[:n]), nil
		}
	}
	return []byte(f.data), nil
}

func (r memRoot) ReadDir(p string) ([]string, error) {
	p, err := host.Resolve(r, p)
	if err != nil {
		return nil, err
	}
	if f, err := r.find(p); err != nil || !f.mode.IsDir() {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return nil, err
	}
	var names []string
	for q := range r {
		if rest, ok := strings.CutPrefix(q, p+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func link(target string) memFile { return memFile{mode: fs.ModeSymlink | 0o777, data: target} }
