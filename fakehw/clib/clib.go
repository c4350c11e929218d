// Package clib compiles the C libraries and programs of a fake host when they are
// needed, and caches the results. Their sources are in the packages that use them.
// A package of this program for users has them compiled, so that they need no compiler.
package clib

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"gpurig/fakehw/cachedir"
)

// ErrNoCompiler marks a machine without a C compiler.
var ErrNoCompiler = errors.New("no C compiler")

// A BuildError says why there is no library or program.
type BuildError struct {
	SONAME string // or the program's name
	Err    error
	Hint   string // what the user can do, one sentence
}

func (e *BuildError) Error() string { return "build " + e.SONAME + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// Sources are the files of FS that match a pattern of path.Match; what is before
// the last slash is dropped from their names.
type Sources struct {
	FS      fs.FS
	Pattern string
}

// A Library is what is compiled into one shared object that shows only the names
// which its sources mark for it. File names must be unique over all Sources.
type Library struct {
	SONAME  string
	Cache   string // folder below gpurig in the user's cache folder
	Sources []Sources
	Flags   []string // compiler flags besides those that every library gets
	Libs    []string // "-lm"
}

// A Program is what is compiled into one executable. Its fields are those of a
// Library, and it is built and kept like one.
type Program struct {
	Name    string
	Cache   string
	Sources []Sources
	Flags   []string
	Libs    []string
}

var (
	common = []string{"-std=gnu11", "-O2", "-g0", "-pthread", "-Wall", "-Wextra", "-Werror"}
	shared = []string{"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs"}
)

// Build compiles the library with cc, or the compiler that CC names, with the flags
// of CFLAGS besides its own, and returns its path: a file named SONAME in a folder below
// dir whose name is the hash of sources and flags. It is compiled once: what is there
// already is taken. ctx bounds the compiler.
//
// An empty dir is where cachedir.Beside finds that folder, unless CC asks for a compiler;
// else the first of cachedir.Places that can be written to, where the hash is of the
// compiler too.
func (l Library) Build(ctx context.Context, dir string) (string, error) {
	return object{l.SONAME, l.Cache, l.Sources, slices.Concat(common, shared, []string{"-Wl,-soname," + l.SONAME}, l.Flags), l.Libs}.build(ctx, dir)
}

// Build compiles the program; see Library.Build.
func (p Program) Build(ctx context.Context, dir string) (string, error) {
	return object{p.Name, p.Cache, p.Sources, slices.Concat(common, p.Flags), p.Libs}.build(ctx, dir)
}

// An object is one file that the compiler makes.
type object struct {
	name, cache string
	sources     []Sources
	args        []string // all that comes before the files
	libs        []string
}

func (o object) build(ctx context.Context, dir string) (string, error) {
	o.args = append(o.args, strings.Fields(os.Getenv("CFLAGS"))...)
	files, err := o.files()
	if err != nil {
		return "", &BuildError{SONAME: o.name, Err: err}
	}
	key := o.digest(files)
	if dir == "" && os.Getenv("CC") == "" {
		if made, err := cachedir.Beside(filepath.Join(key, o.name)); err == nil {
			return made, nil
		}
	}
	cc, err := compiler()
	if err != nil {
		return "", &BuildError{SONAME: o.name, Err: err, Hint: "install a C compiler (gcc or clang), or set CC"}
	}
	if dir != "" {
		return o.in(ctx, dir, key, cc, files)
	}
	if key, err = by(cc, key); err != nil {
		return "", &BuildError{SONAME: o.name, Err: err}
	}
	places, why := cachedir.Places()
	for _, place := range places {
		lib, err := o.in(ctx, filepath.Join(place, o.cache), key, cc, files)
		if err == nil || !noPlace(err) {
			return lib, err
		}
		why = errors.Join(why, err)
	}
	return "", &BuildError{SONAME: o.name, Err: fmt.Errorf("no folder for it: %s", strings.ReplaceAll(why.Error(), "\n", "; ")), Hint: "set HOME or XDG_CACHE_HOME to a folder of yours that can be written to"}
}

// in returns the file in a folder, made if need be.
func (o object) in(ctx context.Context, dir, key, cc string, files []file) (string, error) {
	lib := filepath.Join(dir, key, o.name)
	if err := cachedir.Make(filepath.Dir(lib), 0o755); err != nil {
		return "", &BuildError{SONAME: o.name, Err: err}
	}
	if info, err := os.Stat(lib); err == nil && info.Mode().IsRegular() && cachedir.Check(lib) == nil {
		return lib, nil
	}
	if say, ok := ctx.Value(noticeKey{}).(func()); ok {
		say()
	}
	if err := o.compile(ctx, cc, files, lib); err != nil {
		return "", &BuildError{SONAME: o.name, Err: err}
	}
	return lib, nil
}

type noticeKey struct{}

// Notice returns a context with which Build calls say before it compiles anything,
// which takes seconds; once, however much is compiled with that context.
func Notice(ctx context.Context, say func()) context.Context {
	return context.WithValue(ctx, noticeKey{}, sync.OnceFunc(say))
}

// noPlace reports whether a folder cannot be written to, is full, or is another's.
func noPlace(err error) bool {
	return errors.Is(err, cachedir.ErrUntrusted) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOTDIR)
}

// compiling has a lock for each library, so that whoever wants one at the same time
// waits for it.
var compiling sync.Map

// compiler returns the path of the C compiler, or an ErrNoCompiler.
func compiler() (string, error) {
	name := os.Getenv("CC")
	if name == "" {
		name = "cc"
	}
	cc, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	return cc, nil
}

// A file is one source file.
type file struct {
	name string
	data []byte
}

// files returns all source files by name.
func (o object) files() ([]file, error) {
	var out []file
	for _, s := range o.sources {
		matches, err := fs.Glob(s.FS, s.Pattern)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("no source file matches %q", s.Pattern)
		}
		for _, m := range matches {
			data, err := fs.ReadFile(s.FS, m)
			if err != nil {
				return nil, err
			}
			out = append(out, file{path.Base(m), data})
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out); i++ {
		if out[i].name == out[i-1].name {
			return nil, fmt.Errorf("two source files are named %q", out[i].name)
		}
	}
	return out, nil
}

// digest names the content: sources and flags.
func (o object) digest(files []file) string {
	sum := sha256.New()
	fmt.Fprintln(sum, o.args, o.libs)
	for _, f := range files {
		fmt.Fprintln(sum, f.name, len(f.data))
		sum.Write(f.data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// by is a digest of what a compiler makes of content: a cache can be shared by machines
// with other compilers. The compiler counts by path, size and time, which change with its
// version.
func by(cc, content string) (string, error) {
	info, err := os.Stat(cc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendln(nil, cc, info.Size(), info.ModTime().UnixNano(), runtime.GOARCH, content))
	return hex.EncodeToString(sum[:12]), nil
}

// compile makes lib in one step: nobody ever sees half of it.
func (o object) compile(ctx context.Context, cc string, files []file, lib string) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(lib), ".build-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	args := append(slices.Clone(o.args), "-o", o.name)
	for _, f := range files {
		if strings.HasSuffix(f.name, ".c") {
			args = append(args, f.name)
		}
		if err := os.WriteFile(filepath.Join(tmp, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, cc, append(args, o.libs...)...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cc, err, strings.TrimSpace(string(out)))
	}
	made := filepath.Join(tmp, o.name)
	if err := os.Chmod(made, 0o755); err != nil { // whatever the umask lets a group do
		return err
	}
	return os.Rename(made, lib)
}
