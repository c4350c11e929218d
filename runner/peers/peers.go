// Package peers builds NVIDIA's own programs, unmodified, for tests and
// benchmarks that compare with them or run them: nvidia-ctk, nvidia-cdi-hook,
// nvidia-container-runtime and its hook, from the release of the toolkit that core
// uses.
package peers

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/cachedir"
)

const (
	toolkit = "github.com/NVIDIA/nvidia-container-toolkit"
	last    = "nvidia-container-runtime-hook" // that was added to the programs
)

// build makes the programs in a module of their own, of the release in our go.mod.
// They stay in the user's cache folder.
var build = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	out, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}", toolkit)
	if err != nil {
		return "", err
	}
	version, goVersion, _ := strings.Cut(out, " ")
	cache, err := cachedir.Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "peers", version+"-"+last)
	if err := cachedir.Make(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, last)); err == nil {
		return dir, cachedir.Check(filepath.Join(dir, last))
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
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", "bin/", toolkit + "/cmd/nvidia-ctk", toolkit + "/cmd/nvidia-cdi-hook", toolkit + "/cmd/nvidia-container-runtime", toolkit + "/cmd/" + last},
	} {
		if _, err := run(ctx, tmp, "go", args...); err != nil {
			return "", err
		}
	}
	if err := os.Rename(filepath.Join(tmp, "bin"), dir); err != nil {
		if _, statErr := os.Stat(filepath.Join(dir, last)); statErr != nil { // else another run was quicker
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

// Path returns the path of one of NVIDIA's programs, or skips. A benchmark builds
// them; a test takes them only when somebody did before, or the environment says
// so, GPURIG_PEERS=1: go test ./... must not need a network. Where the
// environment says so, a program that cannot be built is a failure.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	if _, ok := tb.(*testing.T); ok && os.Getenv("GPURIG_PEERS") == "" {
		if found, _ := filepath.Glob(filepath.Join(cacheDir(tb), "peers", "v*", name)); len(found) == 0 {
			tb.Skipf("%s has not been built; make bench does, and GPURIG_PEERS=1", name)
		}
	}
	dir, err := build()
	if err != nil {
		if os.Getenv("GPURIG_PEERS") != "" {
			tb.Fatalf("build %s: %v", name, err)
		}
		tb.Skipf("no %s to compare with: %v", name, err)
	}
	return filepath.Join(dir, name)
}

func cacheDir(tb testing.TB) string {
	dir, err := cachedir.Dir()
	if err != nil {
		tb.Skip(err)
	}
	return dir
}

// CTKArgs are the arguments with which nvidia-ctk makes what gpurig makes of the
// host m: names of every kind, and the host's own layout. The format is "yaml" or
// "json".
func CTKArgs(tb testing.TB, m host.Model, format string) []string {
	args := []string{"--quiet", "cdi", "generate", "--format", format, "--nvidia-cdi-hook-path", nvidia.DefaultHookPath,
		"--feature-flag", "disable-nvsandboxutils"}
	for _, s := range nvidia.NameStrategies() {
		args = append(args, "--device-name-strategy", s)
	}
	t, err := fakehw.Build(m)
	if err != nil {
		tb.Fatal(err)
	}
	o, err := nvidia.Options{}.OnHost(t)
	if err != nil {
		tb.Fatal(err)
	}
	args = append(args, "--driver-root", cmp.Or(o.DriverRoot, "/"), "--dev-root", cmp.Or(o.DevRoot, "/")) // core's defaults
	for _, p := range o.LibrarySearchPaths {
		args = append(args, "--library-search-path", p)
	}
	return args
}
