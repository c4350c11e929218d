package doctor

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/reports"
	"gpurig/runner/lxdapi"
)

// Machine says where a run takes place, for its report: no name and no address
// of the machine, only what can explain a difference: of the programs that make
// containers those of the named targets.
func Machine(ctx context.Context, targets []string) reports.Machine {
	m := reports.Machine{OS: osName(), CPUs: runtime.NumCPU(), Versions: map[string]string{"go": runtime.Version()}}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel, m.Arch = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/NVIDIA/nvidia-container-toolkit" {
				m.Versions["nvidia-container-toolkit"] = d.Version
			}
		}
	}
	for _, p := range []struct{ name, program, target string }{
		{"lxc", "lxc-start", "lxc"}, {"lxd", lxdapi.LXD.Daemon(), "lxd"}, {"incus", lxdapi.Incus.Daemon(), "incus"},
		{"runc", "runc", "oci"}, {"runc", "runc", "docker"}, {"nvidia-ctk", "nvidia-ctk", ""},
	} {
		if !slices.ContainsFunc(targets, func(t string) bool { return strings.HasPrefix(t, p.target) }) {
			continue
		}
		if v := version(ctx, p.program); v != "" {
			m.Versions[p.name] = v
		}
	}
	if v, err := os.ReadFile("/sys/class/dmi/id/product_name"); err == nil {
		m.Product = strings.TrimSpace(string(v))
	}
	if v, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		m.Versions["nvidia driver"] = strings.TrimSpace(string(v))
	}
	return m
}

// version returns the last word of the first line that a program says of its
// version, which is the version alone; empty: it is not there, or does not answer.
func version(ctx context.Context, program string) string {
	p, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, p, "--version").Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// osName returns PRETTY_NAME of os-release(5).
func osName() string {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "unknown"
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return "unknown"
}
