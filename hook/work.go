package hook

import (
	"bytes"
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
	steps
	root    *inroot.Root
	file    hookspec.File
	journal *journal
	life    *life // that this stage belongs to; nil: to none
	notes   []string
	wrote   []ownFile           // to be read back
	linked  []hookspec.Link     // links beside those of the file, to be read back
	namesIn map[string][]string // see names
}

// An ownFile is what a file in the root has to be at the end.
type ownFile struct {
	path string
	data []byte
}

func (w *work) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *work) do(s Stage) error {
	w.namesIn = map[string][]string{}
	if s == Finish && w.isLate() {
		return nil
	}
	stages := map[Stage]func() error{Prepare: w.prepare, Apply: w.apply, Finish: w.finish, Clean: w.clean}
	err := w.sweep()
	if err == nil {
		err = stages[s]()
	}
	if errors.Is(err, unix.EROFS) {
		err = fmt.Errorf("%w; the root is read-only and this is not in place yet", err)
	}
	if err == nil {
		err = w.root.Sync()
	}
	return err
}

// isLate reports whether another life has prepared the root since: what is there
// is that one's, which will take it back.
func (w *work) isLate() bool {
	if w.life == nil {
		return false
	}
	p, late := w.life.goesOn(w.journal.Life)
	if late {
		w.note("the container was started again, by process %d, before this hook of its last start: all that is made stays, for that one", p.PID)
	}
	return late
}

func (w *work) prepare() error {
	if w.life != nil {
		w.journal.Life = w.life
	}
	if err := w.takeBack(w.file); err != nil {
		return err
	}
	if err := w.survey(Prepare); err != nil {
		return err
	}
	for _, m := range w.file.MountPoints {
		if err := w.next("mount point %s", m.Path); err != nil {
			return err
		}
		res, err := w.root.MountPoint(m.Path, m.Dir)
		if err != nil {
			return fmt.Errorf("mount point: %w", err)
		}
		if res.Change == inroot.Replaced {
			w.note("%s: a link of the image gave way to a mount point", m.Path)
		}
	}
	return w.pointsBack()
}

// pointsBack looks once more at every mount point.
func (w *work) pointsBack() error {
	for _, m := range w.file.MountPoints {
		st, err := w.root.Lstat(m.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFLNK && !m.Dir || m.Dir && kind != unix.S_IFDIR && kind != unix.S_IFLNK {
			return fmt.Errorf("read back: mount point %s is something else: the container changed it meanwhile", m.Path)
		}
	}
	return nil
}

func (w *work) apply() error {
	if err := w.takeLinks(keeper(w.file)); err != nil {
		return err
	}
	if err := w.survey(Apply); err != nil {
		return err
	}
	for _, l := range w.file.Links {
		if err := w.next("link %s", l.Path); err != nil {
			return err
		}
		if _, err := w.root.Symlink(l.Path, l.Target); err != nil {
			return fmt.Errorf("link to %q: %w", l.Target, err)
		}
	}
	if err := w.linker(); err != nil {
		return err
	}
	for _, m := range w.file.Modes {
		if err := w.next("mode of %s", m.Path); err != nil {
			return err
		}
		if err := w.root.Chmod(m.Path, m.Mode); err != nil {
			return err
		}
	}
	if err := w.readBack(); err != nil {
		return err
	}
	for _, l := range w.file.Links {
		w.journal.settle(l.Path, l.Target)
	}
	return w.saveIfAllowed()
}

// saveIfAllowed saves a journal that has nothing new but what an earlier stage
// noted ahead, or what is found again without it.
func (w *work) saveIfAllowed() error {
	if err := w.journal.save(); !isDenied(err) {
		return err
	}
	return nil
}

func isDenied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}

// write gives a file of the loader's its contents.
func (w *work) write(p string, data []byte) error {
	if err := w.next("write %s", p); err != nil {
		return err
	}
	if _, err := w.root.WriteFile(p, data, 0o644); err != nil {
		return err
	}
	w.wrote = append(w.wrote, ownFile{p, data})
	return nil
}

// readBack looks once more at every link, file and mode: exit 0 means that all
// of it is there.
func (w *work) readBack() error {
	changed := func(what, p string) error {
		return fmt.Errorf("read back: %s %s is not as it was made: the container changed it meanwhile", what, p)
	}
	for _, l := range slices.Concat(w.file.Links, w.linked) {
		text, err := w.root.Readlink(l.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if text != l.Target {
			return changed("link", l.Path)
		}
	}
	for _, f := range w.wrote {
		data, err := w.root.ReadFile(f.path, int64(len(f.data)))
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if !bytes.Equal(data, f.data) {
			return changed("file", f.path)
		}
	}
	for _, m := range w.file.Modes {
		st, err := w.root.Lstat(m.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if fs.FileMode(st.Mode&0o777) != m.Mode {
			return changed("the mode of", m.Path)
		}
	}
	return nil
}

// finish removes empty mount points: they are nothing without their mounts, and
// a loader that finds an empty library fails on it.
func (w *work) finish() error {
	keep := w.file
	keep.MountPoints = nil
	if err := w.takeBack(keep); err != nil {
		return errors.Join(err, w.journal.save())
	}
	w.journal.Life = nil
	return w.journal.save()
}

func (w *work) clean() error {
	err := w.removeLinker()
	if err == nil {
		err = w.takeBack(hookspec.File{})
	}
	if err != nil {
		return errors.Join(err, w.journal.save())
	}
	return w.journal.remove()
}

func notExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
