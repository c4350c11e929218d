package nvmllib

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed csrc/*.c csrc/*.h
var sources embed.FS

// ErrNoCompiler marks a machine without a C compiler.
var ErrNoCompiler = errors.New("no C compiler")

// A BuildError says why there is no library.
type BuildError struct {
	Err  error
	Hint string // what the user can do, one sentence
}

func (e *BuildError) Error() string { return "build " + SONAME + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// flags make a library that shows nothing but NVML's names.
var flags = []string{"-std=gnu11", "-O2", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
	"-Wall", "-Wextra", "-Werror", "-Wl,-soname," + SONAME, "-Wl,-z,defs"}

// Build compiles the library with cc, or the compiler that CC names, and returns
// its path: a file named SONAME in a folder below dir whose name is the hash of
// the sources and of the compiler. It is compiled once: what is there already is
// taken. An empty dir is gpurig in the user's cache folder. ctx bounds the
// compiler.
func Build(ctx context.Context, dir string) (string, error) {
	cc, err := compiler()
	if err != nil {
		return "", err
	}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", &BuildError{Err: err, Hint: "set HOME or XDG_CACHE_HOME, or name a folder"}
		}
		dir = filepath.Join(cache, "gpurig", "nvml")
	}
	key, err := digest(cc)
	if err != nil {
		return "", &BuildError{Err: err}
	}
	lib := filepath.Join(dir, key, SONAME)
	if info, err := os.Stat(lib); err == nil && info.Mode().IsRegular() {
		return lib, nil
	}
	if err := compile(ctx, cc, lib); err != nil {
		return "", &BuildError{Err: err}
	}
	return lib, nil
}

func compiler() (string, error) {
	name := os.Getenv("CC")
	if name == "" {
		name = "cc"
	}
	cc, err := exec.LookPath(name)
	if err != nil {
		return "", &BuildError{Err: fmt.Errorf("%w: %w", ErrNoCompiler, err), Hint: "install a C compiler (gcc or clang), or set CC"}
	}
	return cc, nil
}

// digest names the content: sources, flags, and the compiler by path, size and
// time, which change with its version.
func digest(cc string) (string, error) {
	sum := sha256.New()
	info, err := os.Stat(cc)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, cc, info.Size(), info.ModTime().UnixNano(), runtime.GOARCH, flags)
	err = eachSource(func(name string, data []byte) error {
		fmt.Fprintln(sum, name, len(data))
		_, err := sum.Write(data)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:12]), err
}

// compile makes lib in one step: nobody ever sees half of it.
func compile(ctx context.Context, cc, lib string) (err error) {
	dir := filepath.Dir(lib)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, ".build-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	args := append([]string{}, flags...)
	args = append(args, "-o", SONAME)
	err = eachSource(func(name string, data []byte) error {
		if strings.HasSuffix(name, ".c") {
			args = append(args, name)
		}
		return os.WriteFile(filepath.Join(tmp, name), data, 0o644)
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, cc, args...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cc, err, strings.TrimSpace(string(out)))
	}
	return os.Rename(filepath.Join(tmp, SONAME), lib)
}

// eachSource calls f with every source file, by name.
func eachSource(f func(name string, data []byte) error) error {
	entries, err := sources.ReadDir("csrc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := fs.ReadFile(sources, "csrc/"+e.Name())
		if err != nil {
			return err
		}
		if err := f(e.Name(), data); err != nil {
			return err
		}
	}
	return nil
}
