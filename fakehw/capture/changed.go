package capture

import (
	"bytes"
	"io/fs"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// Changed returns base with all that differs between before and after: what a
// change does to the files of a fake host, done to a recorded one. The error
// names a path that stands in the way.
func Changed(base, before, after *tree.Tree) (*tree.Tree, error) {
	out := base.Clone()
	var gone []string
	err := before.Walk(func(p string, e *tree.Entry) error {
		if now, err := after.Entry(p); missing(err) || err == nil && now.Mode.Type() != e.Mode.Type() {
			gone = append(gone, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := len(gone) - 1; i >= 0; i-- { // what is in a folder before the folder
		if err := out.Remove(gone[i]); err != nil && !missing(err) {
			return nil, err
		}
	}
	return out, after.Walk(func(p string, e *tree.Entry) error {
		if was, err := before.Entry(p); err == nil && same(was, e) {
			return nil
		}
		return copyEntry(out, p, e)
	})
}

func same(a, b *tree.Entry) bool {
	return a.Info == b.Info && a.Target == b.Target && bytes.Equal(a.Data, b.Data)
}

// copyEntry puts a single entry at p.
func copyEntry(t *tree.Tree, p string, e *tree.Entry) error {
	var err error
	switch mode := e.Mode; {
	case mode.IsDir():
		err = t.Mkdir(p, mode&host.Bits)
	case e.IsLink():
		err = t.Symlink(p, e.Target)
	case e.IsDevice():
		err = t.Mknod(device.Node{Path: p, Type: e.DeviceType(), Num: e.Num, Mode: mode & host.Bits, UID: e.UID, GID: e.GID})
	case mode&fs.ModeSocket != 0:
		err = t.Socket(p, mode&host.Bits)
	case mode&fs.ModeNamedPipe != 0:
		err = t.Fifo(p, mode&host.Bits)
	default:
		err = t.WriteFile(p, e.Data, mode&host.Bits)
	}
	if err != nil {
		return err
	}
	return t.Chown(p, e.UID, e.GID)
}
