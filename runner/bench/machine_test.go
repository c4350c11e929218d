package bench

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/nvmllib"
)

// A chroot is a fake host as files, with a program of this machine in it.
type chroot struct{ dir string }

// tools is where the program and what it is linked to lie; no fake host has it.
const tools = "/.gpurig-peer"

// newChroot writes the host m with NVML as a C library, and puts program in it.
func newChroot(tb testing.TB, m host.Model, program string) chroot {
	tb.Helper()
	needRoot(tb)
	lib, err := nvmllib.Build(tb.Context(), "")
	if errors.Is(err, nvmllib.ErrNoCompiler) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	t, err := fakehw.Build(m)
	if err != nil {
		tb.Fatal(err)
	}
	put := func(at, from string, mode os.FileMode) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = t.WriteFile(at, data, mode)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if u := m.Userspace; u != nil {
		real, err := host.Resolve(t, path.Join("/", u.DriverRoot, u.LibDir, nvmllib.SONAME))
		if err != nil {
			tb.Fatal(err)
		}
		put(real, lib, 0o755)
	}
	if err := t.WriteFile(nvmllib.StatePath, nvmllib.State(m), 0o644); err != nil {
		tb.Fatal(err)
	}
	put(tools+"/program", program, 0o755)
	for _, l := range linked(tb, program) {
		put(tools+"/"+filepath.Base(l), l, 0o755)
	}
	c := chroot{memoryDir(tb)}
	if _, err := disk.Write(tb.Context(), t, c.dir, disk.Options{Mknod: true}); err != nil {
		tb.Fatal(err)
	}
	return c
}

// memoryDir is a folder in memory, where there is one, as a fake host's is.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gpurig-bench-*")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var libraryPath = regexp.MustCompile(`(/\S+) \(0x`)

const loader = "ld-linux"

// linked returns the loader and the libraries that a program needs.
func linked(tb testing.TB, program string) []string {
	tb.Helper()
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		tb.Skipf("ldd %s: %v: %s", program, err, out)
	}
	var paths []string
	for _, m := range libraryPath.FindAllSubmatch(out, -1) {
		paths = append(paths, string(m[1]))
	}
	return paths
}

// command runs the program of the chroot in it.
func (c chroot) command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, tools, loader+"*"))
	if err != nil || len(found) != 1 {
		tb.Fatalf("the loader of the program: %v, %v", found, err)
	}
	args = append([]string{"--library-path", tools, tools + "/program"}, args...)
	cmd := exec.Command(tools+"/"+filepath.Base(found[0]), args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.dir}
	return cmd
}

// output runs cmd and returns what it wrote.
func output(tb testing.TB, cmd *exec.Cmd) []byte {
	tb.Helper()
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%v: %v: %s", cmd.Args, err, errOut.Bytes())
	}
	return out
}
