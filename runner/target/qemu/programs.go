package qemu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gpurig/fakehw/cachedir"
	"gpurig/runner/target"
)

// Dir is where packaging/qemu.sh unpacks a QEMU that is new enough, with the libraries
// that it needs and a kernel.
const Dir = "/var/cache/gpurig/qemu-sid"

// Programs are what a virtual machine is made of.
type Programs struct {
	QEMU   []string // command and first arguments
	Kernel string   // of the guest
	Probe  string   // its first process
}

// String names the files that count.
func (p Programs) String() string {
	for _, word := range p.QEMU {
		if filepath.Base(word) == "qemu-system-x86_64" {
			return word + ", kernel " + p.Kernel
		}
	}
	return ""
}

// Find looks for them: a QEMU of this machine that has vfio-user, else that of Dir. An
// empty probe is the one beside this program. The error is a *target.CannotError.
func Find(ctx context.Context, probe string) (Programs, error) {
	cannot := func(why, hint string) (Programs, error) {
		return Programs{}, &target.CannotError{Target: Name, Why: why, Hint: hint}
	}
	if runtime.GOARCH != "amd64" {
		return cannot("virtual machines are those of x86-64, this machine is "+runtime.GOARCH, "")
	}
	p := Programs{Probe: probe}
	if probe == "" {
		var err error
		if p.Probe, err = cachedir.Beside("gpurig-probe"); err != nil {
			return cannot(err.Error(), "make build")
		}
	}
	usr := Dir + "/usr"
	loaded := []string{usr + "/lib64/ld-linux-x86-64.so.2", "--library-path", usr + "/lib/x86_64-linux-gnu", usr + "/bin/qemu-system-x86_64",
		"-L", usr + "/share/seabios", "-L", usr + "/share/qemu"}
	for _, c := range [][]string{{"qemu-system-x86_64"}, loaded} {
		out, err := exec.CommandContext(ctx, c[0], append(slices.Clone(c[1:]), "-device", "help")...).Output()
		if err == nil && strings.Contains(string(out), `"vfio-user-pci"`) {
			p.QEMU = c
			break
		}
	}
	const hint = "as root: packaging/qemu.sh, which unpacks Debian's into " + Dir + " and installs nothing"
	if p.QEMU == nil {
		return cannot("no qemu-system-x86_64 of 10.1 or later, with vfio-user-pci", hint)
	}
	kernels, err := filepath.Glob(usr + "/lib/modules/*/vmlinuz")
	own, err2 := filepath.Glob("/boot/vmlinuz-*")
	for _, k := range slices.Backward(append(own, kernels...)) {
		if f, err := os.Open(k); err == nil {
			f.Close()
			p.Kernel = k
			return p, nil
		}
	}
	if err := errors.Join(err, err2); err != nil {
		return Programs{}, err
	}
	return cannot("no kernel for the guest", hint)
}
