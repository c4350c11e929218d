package ldcache

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpurig/fakehw/elfgen"
)

// files is a View in memory: a value with "-> " is a link, one with "!" is
// neither file nor folder. Folders are there because something is in them.
type files map[string]string

func (f files) Lstat(p string) (Info, error) {
	if v, ok := f[p]; ok {
		switch {
		case strings.HasPrefix(v, "-> "):
			return Info{Mode: fs.ModeSymlink}, nil
		case strings.HasPrefix(v, "!"):
			return Info{Mode: fs.ModeNamedPipe}, nil
		}
		return Info{Size: int64(len(v))}, nil
	}
	for name := range f {
		if p == "/" || strings.HasPrefix(name, p+"/") {
			return Info{Mode: fs.ModeDir}, nil
		}
	}
	return Info{}, &fs.PathError{Op: "lstat", Path: p, Err: syscall.ENOENT}
}

func (f files) Readlink(p string) (string, error) { return strings.TrimPrefix(f[p], "-> "), nil }

func (f files) ReadFile(p string) ([]byte, error) {
	v, ok := f[p]
	if !ok || strings.HasPrefix(v, "-> ") || strings.HasPrefix(v, "!") {
		return nil, errors.New("read of something that is no file: " + p)
	}
	return []byte(v), nil
}

func (f files) ReadDir(p string) ([]string, error) {
	if info, err := f.Lstat(p); err != nil {
		return nil, err
	} else if !info.Mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	var out []string
	for name := range f {
		if rest, ok := strings.CutPrefix(name, strings.TrimRight(p, "/")+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			out = append(out, first)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// lib is a library with this SONAME; version makes its bytes its own.
func lib(t testing.TB, soname, version string) string {
	t.Helper()
	b, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: soname, Version: version, SONAME: soname, Needed: "libc.so.6"})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func arm(t testing.TB, soname string) string {
	t.Helper()
	b, err := elfgen.Library(elfgen.Object{Arch: "aarch64", Name: soname, SONAME: soname})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// machine is the real root of this machine.
type machine struct{ opens *int }

func (machine) Lstat(p string) (Info, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return Info{}, err
	}
	return Info{Mode: info.Mode(), Size: info.Size()}, nil
}
func (machine) Readlink(p string) (string, error) { return os.Readlink(p) }
func (machine) ReadFile(p string) ([]byte, error) { return os.ReadFile(p) }
func (machine) ReadDir(p string) ([]string, error) {
	list, err := os.ReadDir(p)
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, err
}
func (m machine) Open(p string) (Reader, error) {
	if m.opens != nil {
		*m.opens++
	}
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func TestResolve(t *testing.T) {
	v := files{
		"/usr/lib/libx.so.1": "x", "/lib": "-> usr/lib", "/a": "-> b", "/b": "-> a", "/up": "-> ../../../usr",
		"/usr/abs": "-> /lib/libx.so.1", "/file": "x",
	}
	for _, tc := range []struct {
		at, p, want string
		err         error
	}{
		{"/", "/lib/libx.so.1", "/usr/lib/libx.so.1", nil},
		{"/usr/lib", "libx.so.1", "/usr/lib/libx.so.1", nil},
		{"/usr", "abs", "/usr/lib/libx.so.1", nil},
		{"/", "/up/lib/libx.so.1", "/usr/lib/libx.so.1", nil},
		{"/usr", "../../../../file", "/file", nil},
		{"/", "/a", "", syscall.ELOOP},
		{"/", "/file/x", "", syscall.ENOTDIR},
		{"/", "/none", "", fs.ErrNotExist},
	} {
		if got, _, err := resolveFrom(v, tc.at, tc.p); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s from %s is %q, %v; want %q, %v", tc.p, tc.at, got, err, tc.want, tc.err)
		}
	}
}
