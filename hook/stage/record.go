package stage

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/inroot"
)

// record notes in the journal all that the hook file wants and the root does not
// have, and saves the journal. Everything of it that is found in the root later
// is ours.
//
// The first stage notes the work of the second one too: a hook inside an id map
// runs as the container's root and cannot write the journal. Its /dev is left
// out, since it may be a tmpfs by then, which ends with the container.
func (w *work) record(s Stage) error {
	if s == Prepare {
		for _, m := range w.file.MountPoints {
			if m.Nested {
				continue
			}
			if err := w.recordPoint(m); err != nil {
				return err
			}
		}
	}
	for _, l := range w.file.Links {
		if strings.HasPrefix(l.Path, "/dev/") {
			if s == Prepare {
				continue
			}
			if gone, err := w.root.OnDev(l.Path); err != nil || gone {
				continue // making the link will tell the error
			}
		}
		if err := w.recordLink(l.Path, l.Target, false); err != nil {
			return err
		}
	}
	if err := w.recordLoader(); err != nil {
		return err
	}
	if err := w.Next("write the journal"); err != nil {
		return err
	}
	err := w.journal.save()
	if err != nil && w.journal.onlyItsLifetime() && isDenied(err) {
		w.note("%s cannot be written: a post-stop hook of an earlier start, should it be late, does not know of this one", w.journal.store.Name())
		return nil
	}
	return err
}

func (w *work) recordPoint(m hookspec.MountPoint) error {
	if m.Dir {
		return w.recordDir(m.Path)
	}
	if err := w.recordDir(path.Dir(m.Path)); err != nil {
		return err
	}
	i, err := w.root.Lstat(m.Path)
	switch {
	case err == nil && i.Mode&fs.ModeSymlink != 0:
		text, err := w.root.Readlink(m.Path)
		if err != nil {
			return err
		}
		w.journal.Points[m.Path] = mountFile{Was: &text}
	case err != nil && !inroot.OfTheImage(err):
		return err
	case err != nil:
		if _, ok := w.journal.Points[m.Path]; !ok {
			w.journal.Points[m.Path] = mountFile{}
		}
	}
	return nil
}

// recordDir notes those directories of p that are missing.
func (w *work) recordDir(p string) error {
	if w.recorded[p] {
		return nil
	}
	dirs, err := w.root.Missing(p)
	w.journal.addDirs(dirs)
	w.recorded[p] = err == nil
	return err
}

func (w *work) recordLink(p, text string, soname bool) error {
	if err := w.recordDir(path.Dir(p)); err != nil {
		return err
	}
	now, err := w.root.Readlink(p)
	switch {
	case err != nil && !inroot.OfTheImage(err):
		return err
	case err != nil:
		w.journal.addLink(p, text, nil, soname)
	case now != text:
		w.journal.addLink(p, text, &now, soname)
	}
	return nil
}

func isLoop(err error) bool { return errors.Is(err, unix.ELOOP) }
