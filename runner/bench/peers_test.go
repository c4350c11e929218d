package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
)

func TestMain(m *testing.M) {
	mntns.Init()
	if os.Geteuid() == 0 && os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// inside says that this process has a mount namespace of its own.
const inside = "GPURIG_BENCH_INSIDE"

// enter runs this program once more in a mount namespace of its own: a hook
// wants its root to be a mount, and the machine's mounts are not ours to change.
func enter() int {
	runtime.LockOSThread() // the death of the thread that forks would end the child
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil { // not allowed here: what needs it says so
		fmt.Fprintln(os.Stderr, "bench: no mount namespace:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

const toolkit = "github.com/NVIDIA/nvidia-container-toolkit"

// peers builds nvidia-ctk and nvidia-cdi-hook, of the release in our go.mod, in
// a module of their own. The programs stay in the user's cache folder.
var peers = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	out, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}", toolkit)
	if err != nil {
		return "", err
	}
	version, goVersion, _ := strings.Cut(out, " ")
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "gpurig", "peers", version)
	if _, err := os.Stat(filepath.Join(dir, "nvidia-cdi-hook")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".build-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	text := fmt.Sprintf("module peers\n\ngo %s\n", goVersion)
	if err := os.WriteFile(filepath.Join(tmp, "go.mod"), []byte(text), 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"get", toolkit + "@" + version},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", "bin/", toolkit + "/cmd/nvidia-ctk", toolkit + "/cmd/nvidia-cdi-hook"},
	} {
		if _, err := run(ctx, tmp, "go", args...); err != nil {
			return "", err
		}
	}
	if err := os.Rename(filepath.Join(tmp, "bin"), dir); err != nil {
		if _, statErr := os.Stat(filepath.Join(dir, "nvidia-cdi-hook")); statErr != nil { // else another run was quicker
			return "", err
		}
	}
	return dir, nil
})

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// peer returns the path of one of NVIDIA's programs. A benchmark builds them; a
// test takes them only when an earlier benchmark did, or the environment says
// so: go test ./... must not need a network.
func peer(tb testing.TB, name string) string {
	tb.Helper()
	if _, ok := tb.(*testing.T); ok && os.Getenv("GPURIG_PEERS") == "" {
		if found, _ := filepath.Glob(filepath.Join(cacheDir(tb), "gpurig", "peers", "v*", name)); len(found) == 0 {
			tb.Skipf("%s has not been built; make bench does, and GPURIG_PEERS=1", name)
		}
	}
	dir, err := peers()
	if err != nil {
		tb.Skipf("no %s to compare with: %v", name, err)
	}
	return filepath.Join(dir, name)
}

func cacheDir(tb testing.TB) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		tb.Skip(err)
	}
	return dir
}

// built is where our own programs are, once made.
var built string

// ours builds one of our programs as the Makefile does and returns its path.
func ours(tb testing.TB, name string) string {
	tb.Helper()
	if built == "" {
		dir, err := os.MkdirTemp("", "gpurig-bench-*")
		if err != nil {
			tb.Fatal(err)
		}
		built = dir
	}
	out := filepath.Join(built, name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	args, cgo := []string{"build", "-trimpath", "-o", out}, "CGO_ENABLED=1"
	if name != "gpurig" { // static, without symbols
		args, cgo = append(args, "-tags", "osusergo,netgo", "-ldflags", "-s -w"), "CGO_ENABLED=0"
	}
	cmd := exec.CommandContext(tb.Context(), "go", append(args, "gpurig/cmd/"+name)...)
	cmd.Env = append(os.Environ(), cgo, "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v: %s", name, err, out)
	}
	return out
}

func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: device nodes and chroot")
	}
}

func profile(tb testing.TB, name string) host.Model {
	tb.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
