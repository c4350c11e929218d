package stage

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// sweep removes temporaries of a run that was killed, wherever one of ours can
// have been.
func (w *work) sweep() error {
	dirs := map[string]bool{"/etc": true, "/etc/ld.so.conf.d": true}
	for _, m := range w.file.MountPoints {
		dirs[path.Dir(m.Path)] = true
	}
	for _, l := range w.file.Links {
		dirs[path.Dir(l.Path)] = true
	}
	for _, d := range w.file.LibraryDirs {
		dirs[d] = true
	}
	for _, p := range slices.AppendSeq(slices.Clone(w.journal.Heads), maps.Keys(w.journal.Links)) {
		dirs[path.Dir(p)] = true
	}
	for p := range w.journal.Points {
		dirs[path.Dir(p)] = true
	}
	for _, d := range slices.Sorted(maps.Keys(dirs)) {
		if err := w.Next("look for left-overs in %s", d); err != nil {
			return err
		}
		if _, err := w.root.Sweep(d); err != nil {
			return err
		}
	}
	return nil
}

// undo removes what the journal has and keep does not want, and puts back
// what had given way. Objects that somebody changed since are not ours any more
// and stay.
func (w *work) undo(keep hookspec.File) error {
	if err := w.ownLinks(); err != nil {
		return err
	}
	k := keeper(keep)
	for _, p := range slices.Sorted(maps.Keys(w.journal.Points)) {
		if k.points[p] {
			continue
		}
		if err := w.undoPoint(p); err != nil {
			return err
		}
	}
	if err := w.undoLinks(k); err != nil {
		return err
	}
	for i := len(w.journal.Dirs) - 1; i >= 0; i-- {
		p := w.journal.Dirs[i]
		if k.dirs[p] {
			continue
		}
		if err := w.Next("remove %s", p); err != nil {
			return err
		}
		removed, err := w.root.RemoveEmpty(p, true)
		if err != nil {
			return err
		}
		gone, err := w.root.Missing(p)
		if err != nil {
			return err
		}
		if removed || len(gone) > 0 {
			w.journal.Dirs = slices.Delete(w.journal.Dirs, i, i+1)
		}
	}
	return nil
}

// A keeping is what stays.
type keeping struct {
	points, dirs map[string]bool
	links        map[string]bool
	folders      []string
}

func keeper(f hookspec.File) keeping {
	k := keeping{points: map[string]bool{}, dirs: map[string]bool{}, links: map[string]bool{}, folders: f.LibraryDirs}
	for _, m := range f.MountPoints {
		if m.Dir {
			k.dirs[m.Path] = true
		} else {
			k.points[m.Path] = true
		}
	}
	for _, l := range f.Links {
		k.links[l.Path] = true
	}
	return k
}

// keeps reports whether a link stays: the file wants it, or it is the SONAME link
// of a library beside it, which the file wants mounted or the image itself has.
func (w *work) keeps(k keeping, p string, l ownLink) (bool, error) {
	dir := path.Dir(p)
	if k.links[p] || !l.SONAME {
		return k.links[p], nil
	}
	if own := len(k.folders) > 0 && strings.HasPrefix(p, ownDir+"/"); !own {
		if in, err := w.isOneOf(k.folders, dir); !in || err != nil {
			return false, err
		}
	}
	for _, text := range l.Texts {
		library := text
		if !path.IsAbs(text) {
			library = path.Join(dir, text)
		}
		if k.points[library] {
			return true, nil
		}
		_, ours := w.journal.Points[library]
		there, err := w.has(library)
		if err != nil && !inroot.OfTheImage(err) {
			return false, err // whether it is needed is not known
		}
		if !ours && there {
			return true, nil
		}
	}
	return false, nil
}

// isOneOf reports whether dir, a path without links, is one of the folders, by
// whatever name.
func (w *work) isOneOf(folders []string, dir string) (bool, error) {
	if slices.Contains(folders, dir) {
		return true, nil
	}
	v := &attentive{view: view{w}}
	in := len(ldcache.Within(v, []ldcache.Link{{Real: dir}}, folders)) > 0
	return in, v.err
}

// An attentive view keeps the first error that says nothing of the image: folders
// that cannot be looked at are not folders that are not there.
type attentive struct {
	view
	err error
}

func (v *attentive) Lstat(p string) (ldcache.Info, error) {
	info, err := v.view.Lstat(p)
	v.note(err)
	return info, err
}

func (v *attentive) Readlink(p string) (string, error) {
	text, err := v.view.Readlink(p)
	v.note(err)
	return text, err
}

func (v *attentive) note(err error) {
	if err != nil && v.err == nil && !inroot.OfTheImage(err) {
		v.err = err
	}
}

func (w *work) undoPoint(p string) error {
	if err := w.Next("remove %s", p); err != nil {
		return err
	}
	if err := w.ownLinksTo(p); err != nil {
		return err
	}
	if _, err := w.root.RemoveEmpty(p, false); err != nil {
		return err
	}
	if was := w.journal.Points[p].Was; was != nil {
		if err := w.putBack(p, *was); err != nil {
			return err
		}
	}
	delete(w.journal.Points, p)
	return nil
}

// ownLinksTo takes SONAME links beside a mount point of ours for our own: a run
// that was killed, or could not write the journal, made them. They are looked
// for by the library's name: libcuda.so.1 of libcuda.so.550.54.
func (w *work) ownLinksTo(point string) error {
	dir, name := path.Dir(point), path.Base(point)
	stem, _, ok := strings.Cut(name, ".so")
	if !ok || !slices.Contains(w.file.LibraryDirs, dir) {
		return nil
	}
	names, err := w.names(dir)
	if err != nil {
		return err
	}
	from, _ := slices.BinarySearch(names, stem+".so")
	for _, n := range names[from:] {
		if !strings.HasPrefix(n, stem+".so") {
			break
		}
		p := path.Join(dir, n)
		if _, known := w.journal.Links[p]; known {
			continue
		}
		text, err := w.root.Readlink(p)
		if err != nil && !inroot.OfTheImage(err) {
			return err
		}
		if err == nil && text == name {
			w.journal.addLink(p, name, nil, true)
		}
	}
	return nil
}

// putBack makes a link of the image's again, unless something is there by now.
func (w *work) putBack(p, text string) error {
	if _, err := w.root.Lstat(p); !notExist(err) {
		if err != nil && !inroot.OfTheImage(err) {
			return err
		}
		return nil
	}
	gone, err := w.root.Missing(path.Dir(p))
	if err != nil || len(gone) > 0 {
		return err // the image's directory is gone, the link with it
	}
	_, err = w.root.Symlink(p, text)
	return err
}

func (w *work) undoLinks(k keeping) error {
	for _, p := range slices.Sorted(maps.Keys(w.journal.Links)) {
		l := w.journal.Links[p]
		stays, err := w.keeps(k, p, l)
		if err != nil {
			return err
		}
		if stays {
			continue
		}
		if err := w.Next("remove %s", p); err != nil {
			return err
		}
		if _, err := w.root.RemoveLink(p, l.Texts...); err != nil {
			return err
		}
		if l.Was != nil {
			if err := w.putBack(p, *l.Was); err != nil {
				return err
			}
		}
		delete(w.journal.Links, p)
	}
	return nil
}

// names returns the names in a directory, read once a run; none where it is not
// there or has too many.
func (w *work) names(dir string) ([]string, error) {
	if names, ok := w.namesIn[dir]; ok {
		return names, nil
	}
	names, err := w.root.ReadDir(dir, maxNames)
	if err != nil && !notExist(err) && !errors.Is(err, inroot.ErrLimit) {
		return nil, err
	}
	w.namesIn[dir] = names
	return names, nil
}
