package hook

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
)

// A journal is the file beside a hook file, on the host, where the container
// cannot reach it, that package stage keeps what it made in.
type journal struct {
	name string
	root *inroot.Root
}

var _ stage.Store = journal{}

func journalOf(hookFile string, root *inroot.Root) journal {
	return journal{hookFile + ".made", root}
}

func (j journal) Name() string { return j.name }

func (j journal) Read() (data []byte, err error) {
	err = j.root.Outside(func() error {
		data, err = readTrusted(j.name, stage.MaxJournal)
		return err
	})
	return data, err
}

// Write is old or new, never mixed.
func (j journal) Write(data []byte) error {
	err := j.root.Outside(func() error { return replaceFile(j.name, data) })
	if err == nil {
		return nil
	}
	return &HintError{Err: err,
		Hint: "the hook keeps its journal beside the hook file; with an id map run it as lxc.hook.pre-start too, which writes the journal ahead"}
}

func (j journal) Remove() error {
	return j.root.Outside(func() error {
		for _, name := range []string{j.name, j.name + ".new"} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// replaceFile gives a file of a trusted directory new contents. We hold the lock,
// so a temporary that is there was left by a run that was killed.
func replaceFile(name string, data []byte) error {
	temp := name + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644) // a hook inside an id map reads it as somebody else
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := calls.Closed(f.Close()); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	return syncDir(path.Dir(name))
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
