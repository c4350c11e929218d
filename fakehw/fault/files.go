package fault

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/tree"
)

func itoa(n int) string { return strconv.Itoa(n) }

// csvFolder has the file lists of Jetson Linux.
const csvFolder = "/etc/nvidia-container-runtime/host-files-for-container.d"

func breakCSV(b *Broken, f Fault) error {
	if b.Model.Tegra == nil || len(b.Model.Tegra.CSV) == 0 {
		return impossible("the host has no CSV files: it is no Tegra, or they are not installed")
	}
	if slices.ContainsFunc(b.Model.Nodes, func(n device.Node) bool { return n.Path == f.name }) {
		m, err := fakehw.WithoutNode(b.Model, f.name)
		if err != nil {
			return err
		}
		b.Model = m
	}
	files := b.Model.Tegra.CSV
	b.edit(f, func(t *tree.Tree) error {
		if err := t.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return listed(t, files, f.name)
	})
	return nil
}

// listed makes sure that one of the files names p.
func listed(t *tree.Tree, files []string, p string) error {
	for _, name := range files {
		data, err := t.ReadFile(csvFolder + "/" + name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if _, at, ok := strings.Cut(line, ","); ok && path.Clean(strings.TrimSpace(at)) == p {
				return nil
			}
		}
	}
	e, err := t.Follow(csvFolder + "/" + files[0])
	if err != nil {
		return err
	}
	kind := "lib"
	if strings.HasPrefix(p, "/dev/") {
		kind = "dev"
	}
	e.SetData(append(slices.Clone(e.Data), kind+", "+p+"\n"...))
	return nil
}

// compute are the libraries of the package that comes first in an upgrade: on
// Ubuntu libnvidia-compute-BRANCH, unverified for other distributions.
var compute = []string{"libcuda", "libcudadebugger", "libnvidia-ml", "libnvidia-nvvm", "libnvidia-opencl", "libnvidia-ptxjitcompiler", "libnvidia-gpucomp", "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3"}

func inCompute(p string) bool {
	name, _, ok := strings.Cut(path.Base(p), ".so")
	return ok && slices.Contains(compute, name)
}

// breakHalf makes the files of the new version and takes back those that the
// upgrade had not come to.
func breakHalf(b *Broken, f Fault) error {
	before := b.Model
	if before.Tegra != nil {
		return impossible("on a Jetson the driver's libraries come with the system")
	}
	if before.Userspace != nil && before.Userspace.StorePath != "" {
		return impossible("on %s an upgrade is all or nothing", before.OS.ID)
	}
	if err := breakVersion(b, f); err != nil {
		return err
	}
	after := b.Model
	b.edit(f, func(t *tree.Tree) error { return takeBack(t, before, after) })
	return nil
}

// takeBack makes t, the files of the host after, again those of before where
// the two differ, but for the compute libraries.
func takeBack(t *tree.Tree, before, after host.Model) error {
	old, err := fakehw.Build(before)
	if err != nil {
		return err
	}
	whole, err := fakehw.Build(after)
	if err != nil {
		return err
	}
	was := old.Clone()
	for _, c := range old.Update(whole) {
		if inCompute(c.Path) {
			continue
		}
		e, err := was.Entry(c.Path)
		if err != nil {
			if err := t.Remove(c.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := put(t, c.Path, e); err != nil {
			return err
		}
	}
	return nil
}

// put makes what e is at p.
func put(t *tree.Tree, p string, e *tree.Entry) (err error) {
	if e.Mode.IsDir() {
		return t.Mkdir(p, e.Mode&host.Bits)
	}
	if err := t.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.IsLink() {
		return t.Symlink(p, e.Target)
	}
	return t.WriteFile(p, e.Data, e.Mode&host.Bits)
}
