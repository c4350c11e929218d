package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/userspace"
	"gpurig/runner/target/sandbox"
)

// toolkit stands for NVIDIA's container toolkit, which a machine with the driver is
// taken to have. LXD looks where it is, makes its Spec with the same library, and
// runs no hook with it.
const (
	toolkitPath = "/usr/bin/nvidia-ctk"
	toolkit     = "#!/bin/sh\necho \"nvidia-ctk: of the fake machine's toolkit there is only this file\" >&2\nexit 1\n"
)

// hasToolkit reports whether the daemon finds one of the machine at hand: on its own
// search path, which is not ours.
func hasToolkit() bool {
	return slices.ContainsFunc(filepath.SplitList(sandbox.Path), func(dir string) bool {
		_, err := exec.LookPath(filepath.Join(dir, "nvidia-ctk"))
		return err == nil
	})
}

// enter runs programs on a machine, whose driver's libraries and programs work.
func (m *hostState) enter(ctx context.Context, command []string, in, out, errs *os.File) error {
	l, err := m.request().Live()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	o := fakemachine.Options{Command: command, Stdin: in, Stdout: out, Stderr: errs, Warn: &said}
	broken, err := m.request().Broken()
	if err != nil {
		return err
	}
	if err := userspace.Add(ctx, l, &o, userspace.Options{NVML: broken.NVML(m.request().NVML), Warn: &said}); err != nil {
		return err
	}
	if !hasToolkit() && m.model.Userspace != nil {
		if o.Files == nil {
			o.Files = map[string][]byte{}
		}
		o.Files[toolkitPath] = []byte(toolkit)
	}
	ended, err := fakemachine.Enter(ctx, l, o)
	if err == nil && ended.Exit != 0 {
		err = exitError(ended.Exit)
	}
	if err != nil && said.Len() > 0 {
		err = errors.Join(err, errors.New(strings.TrimSpace(said.String())))
	}
	return err
}
