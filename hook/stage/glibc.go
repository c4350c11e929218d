package stage

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// generator is in caches that we wrote, so that one which the container's own
// ldconfig made since is not taken for ours.
const generator = "cdi-hook"

// writeGlibc writes the drop-in, the configuration that includes it where there
// is none or where it has to come first, and the cache.
func (w *work) writeGlibc() ([]loss, error) {
	if err := w.writeDropIn(); err != nil {
		return nil, err
	}
	conf, there, err := w.conf()
	switch ours := conf == confFile || slices.Contains(w.journal.Heads, conf); {
	case err == nil && !there && w.journal.Conf:
		err = w.write(confFile, []byte(confInclude))
	case err == nil && ours && w.first:
		err = w.writeHead(conf)
	}
	if err != nil {
		return nil, err
	}
	return w.writeCache(w.file.LibraryDirs)
}

// conf is the file that the configuration is, where that is a link too; empty: it is
// none of the root's own, and stays as it is. A link to nothing is as none.
func (w *work) conf() (p string, there bool, err error) {
	p, err = ldcache.Real(view{w}, confFile)
	if end := w.Next("look for %s", confFile); end != nil {
		return "", false, end
	}
	if there = !notExist(err); inroot.OfTheImage(err) || inroot.BeyondReach(err) {
		err = nil
	}
	return p, there, err
}

// recordConf notes what of the configuration is going to change. Where a link leads can
// be something else once the container's own mounts are there, when a mapped hook can no
// longer write the journal: what was noted before them counts.
func (w *work) recordConf() error {
	p, there, err := w.conf()
	if err != nil || p == confFile {
		return err
	}
	if there {
		if p != "" && !slices.Contains(w.journal.Heads, p) {
			w.journal.Heads = append(w.journal.Heads, p)
		}
		return nil
	}
	w.journal.Conf = true
	t, err := w.root.Readlink(confFile)
	if err == nil {
		w.journal.Displaced[confFile] = displaced{Link: &t}
	} else if inroot.OfTheImage(err) {
		err = nil
	}
	return err
}

// writeHead has the configuration name the drop-in first, if it is of the root's own mount.
func (w *work) writeHead(conf string) error {
	i, err := w.root.Lstat(conf)
	if err != nil || !i.Mode.IsRegular() {
		return err
	}
	now, err := w.readText(conf)
	if err == nil && now != nil && !bytes.HasPrefix(now, []byte(confHead)) {
		err = w.writeAs(conf, slices.Concat([]byte(confHead), now), attrOf(i))
	}
	if errors.Is(err, inroot.ErrLimit) || inroot.BeyondReach(err) {
		return nil
	}
	return err
}

// removeHead takes that line out again, whatever else became of the file.
func (w *work) removeHead(conf string) error {
	i, err := w.root.Lstat(conf)
	if err != nil || !i.Mode.IsRegular() {
		if err != nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
			return err
		}
		return nil
	}
	now, err := w.readText(conf)
	if was, ours := bytes.CutPrefix(now, []byte(confHead)); ours {
		_, err = w.root.WriteFile(conf, was, attrOf(i))
	}
	if errors.Is(err, inroot.ErrLimit) || inroot.BeyondReach(err) {
		return nil
	}
	return err
}

// writeDropIn names the folders that come first and those that the image's own
// configuration does not have: one that it has keeps its place, and so do the
// libraries in it.
func (w *work) writeDropIn() error {
	folders := append(slices.Clone(w.held), ldcache.Added(view{w}, dropIn, w.file.LibraryDirs)...)
	if len(folders) == 0 {
		return w.removeDropIn()
	}
	return w.write(dropIn, []byte(dropInHead+strings.Join(folders, "\n")+"\n"))
}

func (w *work) removeDropIn() error {
	if _, err := w.root.RemoveFile(dropIn, maxText*16, isDropIn); err != nil {
		return err
	}
	return w.putDisplaced(dropIn)
}

func isDropIn(data []byte) bool { return bytes.HasPrefix(data, []byte(dropInHead)) }

// recordDisplaced notes what of the image's gives way to the drop-in and, where it
// is a link, to the cache.
func (w *work) recordDisplaced() error {
	for _, p := range []string{dropIn, cacheFile} {
		if t, err := w.root.Readlink(p); err == nil {
			w.journal.Displaced[p] = displaced{Link: &t}
		} else if !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
			return err
		}
	}
	if w.journal.Displaced[dropIn].Link != nil {
		return nil
	}
	if data, err := w.readText(dropIn); data != nil && err == nil && !isDropIn(data) {
		as, err := w.attr(dropIn)
		if err != nil {
			return err
		}
		w.journal.Displaced[dropIn] = displaced{Data: data, Attr: as}
	}
	return nil
}

// recordCache keeps the image's cache. One that the container made of our folders
// since is not the image's: then the cache is made anew when ours goes.
func (w *work) recordCache() error {
	d, known := w.journal.Displaced[cacheFile]
	if d.Link != nil {
		return nil
	}
	i, err := w.root.Lstat(cacheFile)
	if err == nil && !i.Mode.IsRegular() || errors.Is(err, inroot.ErrMount) {
		return nil // in the way: writing the cache will tell
	}
	data, err := w.root.ReadFile(cacheFile, maxKept)
	switch {
	case errors.Is(err, inroot.ErrLimit):
		w.note("%s has more than %d bytes, which are not kept: it is made anew when the devices go", cacheFile, maxKept)
	case err != nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err):
		return err
	case err == nil && (madeByUs(data) || known && bytes.Equal(data, d.Data)):
		return nil
	case err == nil && !w.journal.Cache:
		as, err := w.attr(cacheFile)
		if err != nil {
			return err
		}
		w.journal.Displaced[cacheFile] = displaced{Data: data, Attr: as}
		return nil
	}
	delete(w.journal.Displaced, cacheFile)
	return nil
}

// attr is that of a file of the image's which is to be put back; zero: not known.
func (w *work) attr(p string) (inroot.Attr, error) {
	i, err := w.root.Lstat(p)
	if err != nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
		return inroot.Attr{}, err
	}
	if err != nil || !i.Mode.IsRegular() {
		return inroot.Attr{}, nil
	}
	return attrOf(i), nil
}

func attrOf(i inroot.Info) inroot.Attr {
	return inroot.Attr{Perm: i.Mode.Perm(), Owner: &inroot.Owner{UID: i.UID, GID: i.GID}}
}

// putDisplaced puts back what gave way to p, if nothing is there by now.
func (w *work) putDisplaced(p string) error {
	d, ok := w.journal.Displaced[p]
	if !ok {
		return nil
	}
	if d.Link != nil {
		if err := w.putBack(p, *d.Link); err != nil {
			return err
		}
	} else if there, err := w.occupied(p); err != nil {
		return err
	} else if !there {
		if _, err := w.root.WriteFile(p, d.Data, d.Attr); err != nil {
			return err
		}
	}
	delete(w.journal.Displaced, p)
	return nil
}

func (w *work) removeGlibc() error {
	if err := w.removeDropIn(); err != nil {
		return err
	}
	for _, p := range append(w.journal.Heads, confFile) {
		if err := w.removeHead(p); err != nil {
			return err
		}
	}
	if w.journal.Conf {
		if _, err := w.root.RemoveFile(confFile, maxText, func(data []byte) bool { return string(data) == confInclude }); err != nil {
			return err
		}
		if err := w.putDisplaced(confFile); err != nil {
			return err
		}
	}
	there, err := w.occupied(cacheFile)
	if err != nil {
		return err
	}
	if !there { // by us, in a run that was killed
		return w.putDisplaced(cacheFile)
	}
	if d, known := w.journal.Displaced[cacheFile]; known || w.journal.NoCache {
		same := func(data []byte) bool { return madeByUs(data) || known && d.Link == nil && bytes.Equal(data, d.Data) }
		gone, err := w.root.RemoveFile(cacheFile, ldcache.MaxSize, same)
		if err != nil {
			return err
		}
		if gone {
			return w.putDisplaced(cacheFile)
		}
		delete(w.journal.Displaced, cacheFile) // somebody made another since
	}
	_, err = w.writeCache(nil)
	return err
}

func madeByUs(data []byte) bool {
	c, err := ldcache.Parse(data)
	return err == nil && c.Generator == generator
}
