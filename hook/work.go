package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/inroot"
)

// work is one stage of one file on one root.
type work struct {
	root    *inroot.Root
	file    hookspec.File
	journal *journal
	notes   []string
}

func (w *work) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *work) do(s Stage) error {
	if err := w.journal.sweep(w.root); err != nil {
		return err
	}
	switch s {
	case Prepare:
		return w.prepare()
	case Apply:
		return w.apply()
	case Finish:
		return w.finish()
	case Clean:
		return w.clean()
	}
	return fmt.Errorf("stage %q", s)
}

// begin saves a dirty journal, unless nothing is going to change: a read-only
// root in which all is in place already needs neither journal nor write.
func (w *work) begin() error { return w.journal.begin(w.file) }

func (w *work) end() error {
	w.journal.Dirty, w.journal.Touched = false, nil
	return w.journal.save()
}

func (w *work) prepare() error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.journal.takeBack(w.root, w.file); err != nil {
		return err
	}
	for _, m := range w.file.MountPoints {
		res, err := w.root.MountPoint(m.Path, m.Dir)
		w.journal.made(res)
		if err != nil {
			return w.stop(fmt.Errorf("mount point: %w", err))
		}
		switch {
		case res.Change == inroot.Kept:
		case m.Dir:
			w.journal.made(inroot.Result{Dirs: []string{m.Path}})
		case !slices.Contains(w.journal.Points, m.Path):
			w.journal.Points = append(w.journal.Points, m.Path)
		}
		if res.Change == inroot.Replaced {
			w.note("%s: a link of the image gave way to a mount point", m.Path)
		}
	}
	return w.end()
}

func (w *work) apply() error {
	if err := w.begin(); err != nil {
		return err
	}
	for _, l := range w.file.Links {
		res, err := w.root.Symlink(l.Path, l.Target)
		w.journal.made(res)
		if err != nil {
			return w.stop(fmt.Errorf("link to %q: %w", l.Target, err))
		}
		if res.Change != inroot.Kept {
			w.journal.Links[l.Path] = l.Target
		}
	}
	if err := w.linker(); err != nil {
		return w.stop(err)
	}
	for _, m := range w.file.Modes {
		if err := w.root.Chmod(m.Path, m.Mode); err != nil {
			return w.stop(err)
		}
	}
	if err := w.readBack(); err != nil {
		return w.stop(err)
	}
	return w.end()
}

// stop keeps what was noted so far, still dirty, and passes err on.
func (w *work) stop(err error) error {
	if errors.Is(err, unix.EROFS) {
		err = fmt.Errorf("%w; the root is read-only and this is not in place yet", err)
	}
	return errors.Join(err, w.journal.save())
}

// readBack looks once more at every link: exit 0 means that it is there.
func (w *work) readBack() error {
	for _, l := range w.file.Links {
		text, err := w.root.Readlink(l.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if text != l.Target {
			return fmt.Errorf("read back: link %s leads to %q, want %q: the container changed it meanwhile", l.Path, text, l.Target)
		}
	}
	return nil
}

// finish removes empty mount points: they are nothing without their mounts, and
// a loader that finds an empty library fails on it.
func (w *work) finish() error {
	if err := w.begin(); err != nil {
		return err
	}
	keep := w.file
	keep.MountPoints = nil
	if err := w.journal.takeBack(w.root, keep); err != nil {
		return w.stop(err)
	}
	return w.end()
}

func (w *work) clean() error {
	w.file = hookspec.File{}
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.removeLinker(); err != nil {
		return w.stop(err)
	}
	if err := w.journal.takeBack(w.root, hookspec.File{}); err != nil {
		return w.stop(err)
	}
	return w.journal.remove()
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
