package stage

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// Where loaders look. The drop-in has a fixed name: a system container keeps
// its root for years, and a name of its own for each start would pile up.
const (
	cacheFile = ldcache.File
	confFile  = ldcache.ConfFile
	confDir   = "/etc/ld.so.conf.d"
	dropIn    = confDir + "/00-cdi-hook.conf"

	dropInHead  = "# Written by cdi-hook: folders of the GPU driver's libraries.\n"
	confInclude = "include /etc/ld.so.conf.d/*.conf\n"
	maxText     = 64 << 10
	maxKept     = 1 << 20 // of a cache that is kept to be put back; usual ones have 20 to 200 KiB
)

// generator is in caches that we wrote, so that one which the container's own
// ldconfig made since is not taken for ours.
const generator = "cdi-hook"

// muslDefault is what musl's loader searches when it has no path file
// (ldso/dynlink.c): a file of ours replaces it, so it must repeat it.
var muslDefault = []string{"/lib", "/usr/local/lib", "/usr/lib"}

// Where loaders are: musl's by architecture, glibc's. Images can have any number
// of names that look like musl's, so only these count.
var (
	muslArchs    = []string{"aarch64", "armhf", "i386", "x86_64"}
	glibcLoaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-armhf.so.3", "/lib/ld-linux.so.2"}
)

// A loaders is what the loaders of one root need.
type loaders struct {
	musl  []string // architectures
	cache bool     // glibc's cache and configuration
}

// findLoaders looks which loaders the root has. A root without any gets a cache:
// it may bring a loader later, on a volume.
func (w *work) findLoaders() (loaders, error) {
	var l loaders
	for _, arch := range muslArchs {
		found, err := w.has("/lib/ld-musl-" + arch + ".so.1")
		if err != nil && !inroot.BeyondReach(err) {
			return l, err
		}
		if found {
			l.musl = append(l.musl, arch)
		}
	}
	l.cache = len(l.musl) == 0
	for _, p := range glibcLoaders {
		found, err := w.has(p)
		if err != nil && !inroot.BeyondReach(err) {
			return l, err
		}
		l.cache = l.cache || found
	}
	return l, nil
}

// has reports whether something is at p. A path that leads nowhere, in whatever
// way, has nothing.
func (w *work) has(p string) (bool, error) {
	_, err := w.root.Lstat(p)
	if err == nil || notExist(err) || isLoop(err) {
		return err == nil, nil
	}
	return false, err
}

// occupied is has of a place for a file of ours: what is beyond our reach there is
// something too.
func (w *work) occupied(p string) (bool, error) {
	there, err := w.has(p)
	if inroot.BeyondReach(err) {
		return true, nil
	}
	return there, err
}

// recordLoader notes what loader is going to change.
func (w *work) recordLoader() error {
	if len(w.file.LibraryDirs) == 0 {
		return nil
	}
	l, err := w.findLoaders()
	if err != nil {
		return err
	}
	w.journal.Linker = true
	if err := w.recordOwn(); err != nil {
		return err
	}
	for _, arch := range l.musl {
		if err := w.recordDir(path.Dir(muslFile(arch))); err != nil {
			return err
		}
		if _, err := w.planMusl(arch); err != nil {
			return err
		}
	}
	if !l.cache {
		return nil
	}
	if err := w.recordDir(confDir); err != nil {
		return err
	}
	if err := w.recordDisplaced(); err != nil {
		return err
	}
	if err := w.recordCache(); err != nil {
		return err
	}
	w.journal.Cache = true
	if there, err := w.occupied(confFile); err != nil {
		return err
	} else if !there {
		w.journal.Conf = true
	}
	if there, err := w.occupied(cacheFile); err != nil {
		return err
	} else if !there {
		w.journal.NoCache = true
	}
	return nil
}

// loader makes the container's own loader find the library folders: glibc by
// its cache and a drop-in for its own later ldconfig runs, musl by its path
// file. Where libraries of the image come before the host's, those are made to come
// first; what cannot be is told. With no folder wanted, what an earlier run wrote goes.
func (w *work) loader() error {
	if len(w.file.LibraryDirs) == 0 {
		return w.removeLoader()
	}
	l, err := w.findLoaders()
	if err != nil {
		return err
	}
	w.heldBefore()
	lost, err := w.tell(l)
	if err == nil && (len(lost) > 0 || w.unreached) {
		if err = w.filesBack(); err == nil { // else it may be for that
			err = w.hold(lost)
		}
		if err == nil {
			lost, err = w.tell(l)
		}
	}
	if err != nil {
		return err
	}
	if w.unreached {
		w.note("%s does not include %s, and cannot be made to: a later ldconfig in the container loses the GPU's libraries until its next start", confFile, confDir)
	}
	return w.warn(lost)
}

// tell writes what loaders read, and returns what they do not take of the host's then.
func (w *work) tell(l loaders) ([]loss, error) {
	for _, arch := range l.musl {
		text, err := w.planMusl(arch)
		if err == nil {
			err = w.write(muslFile(arch), text)
		}
		if err != nil {
			return nil, err
		}
	}
	if l.cache {
		return w.writeGlibc()
	}
	return w.remember(func() Scan {
		var s Scan
		var libs []library
		if libs, s.unknown = w.libraries(view{w}); s.unknown == nil {
			s.lost, s.unknown = w.lost(view{w}, ldcache.Cache{}, libs, nil)
		}
		return s
	}).told(w)
}

func muslFile(arch string) string { return "/etc/ld-musl-" + arch + ".path" }

// planMusl adds our folders to the image's own path file, or to musl's defaults.
// What the file was is journalled, to be put back.
func (w *work) planMusl(arch string) ([]byte, error) {
	p := muslFile(arch)
	now, link, err := w.readMusl(p)
	if err != nil {
		return nil, err
	}
	own, known := w.journal.Musl[p]
	if !known || link != nil || now != nil && !own.isOurs(now) {
		own = pathFile{Was: now, Link: link}
	}
	text := muslText(own.Was, w.held, w.file.LibraryDirs)
	for _, t := range [][]byte{text, muslText(own.Was, muslHeld(arch), w.file.LibraryDirs)} { // what a later stage may write
		if !own.isOurs(t) {
			own.Wrote = append(own.Wrote, t)
		}
	}
	w.journal.Musl[p] = own
	return text, nil
}

// readMusl reads a path file and, if it is a link, that link's text: it gives way to
// a file of ours. Where a link leads that cannot be read, the file is as if it were
// not there; a file that cannot be read could not be put back.
func (w *work) readMusl(p string) (now []byte, link *string, err error) {
	if t, err := w.root.Readlink(p); err == nil {
		link = &t
	}
	now, err = w.readText(p)
	if link != nil && err != nil && inroot.BeyondReach(err) {
		w.note("%s: musl's default folders are taken in its place: %v", p, err)
		return nil, link, nil
	}
	return now, link, err
}

// muslText is a path file that also has folders: those that come first, then was, or
// musl's defaults where it is nil, and then ours, one a line.
func muslText(was []byte, first, folders []string) []byte {
	out := slices.Clone(muslDefault)
	if was != nil {
		out = splitMusl(string(was))
	}
	out = slices.Concat(first, out)
	for _, d := range folders {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

// splitMusl reads a path file as musl does: folders between line breaks or
// colons.
func splitMusl(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ':' })
}

// readText reads a small file of the root; nil: it is not there.
func (w *work) readText(p string) ([]byte, error) {
	data, err := w.root.ReadFile(p, maxText)
	if notExist(err) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// restoreMusl puts path files back as they were, unless somebody changed them
// since.
func (w *work) restoreMusl() error {
	for p, f := range w.journal.Musl {
		if f.Was == nil || f.Link != nil {
			if _, err := w.root.RemoveFile(p, maxText, f.isOurs); err != nil {
				return err
			}
			if f.Link != nil {
				if err := w.putBack(p, *f.Link); err != nil {
					return err
				}
			}
		} else if now, err := w.readText(p); err != nil {
			return err
		} else if now != nil && f.isOurs(now) {
			if _, err := w.root.WriteFile(p, f.Was, 0o644); err != nil {
				return err
			}
		}
		delete(w.journal.Musl, p)
	}
	return nil
}

// isPoint reports whether the plan mounts something at p.
func (w *work) isPoint(p string) bool {
	return slices.ContainsFunc(w.file.MountPoints, func(m hookspec.MountPoint) bool { return m.Path == p })
}

// writeGlibc writes the drop-in, the configuration that includes it where there
// is none or where it has to come first, and the cache.
func (w *work) writeGlibc() ([]loss, error) {
	if err := w.writeDropIn(); err != nil {
		return nil, err
	}
	if there, err := w.occupied(confFile); err != nil {
		return nil, err
	} else if !there {
		err = w.write(confFile, []byte(confInclude))
		if err != nil {
			return nil, err
		}
	} else if w.first {
		if err := w.writeHead(); err != nil {
			return nil, err
		}
	}
	return w.writeCache(w.file.LibraryDirs)
}

// writeHead has the configuration name the drop-in first. One that is no file of the
// root's own stays as it is.
func (w *work) writeHead() error {
	i, err := w.root.Lstat(confFile)
	if err != nil || !i.Mode.IsRegular() {
		return err
	}
	now, err := w.readText(confFile)
	if err != nil || now == nil || bytes.HasPrefix(now, []byte(confHead)) {
		if errors.Is(err, inroot.ErrLimit) {
			err = nil
		}
		return err
	}
	return w.writeAs(confFile, slices.Concat([]byte(confHead), now), i.Mode.Perm())
}

// removeHead takes that line out again, whatever else became of the file.
func (w *work) removeHead() error {
	i, err := w.root.Lstat(confFile)
	if err != nil || !i.Mode.IsRegular() {
		if err != nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
			return err
		}
		return nil
	}
	now, err := w.readText(confFile)
	if was, ours := bytes.CutPrefix(now, []byte(confHead)); ours {
		_, err = w.root.WriteFile(confFile, was, i.Mode.Perm())
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
		w.journal.Displaced[dropIn] = displaced{Data: data}
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
	if i, err := w.root.Lstat(cacheFile); err == nil && !i.Mode.IsRegular() {
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
		w.journal.Displaced[cacheFile] = displaced{Data: data}
		return nil
	}
	delete(w.journal.Displaced, cacheFile)
	return nil
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
		if _, err := w.root.WriteFile(p, d.Data, 0o644); err != nil {
			return err
		}
	}
	delete(w.journal.Displaced, p)
	return nil
}

// removeLoader takes the drop-in back and makes the cache anew without it. A
// cache where there was none goes, unless the container's own ldconfig made it
// since.
func (w *work) removeLoader() error {
	if !w.journal.Linker {
		return nil
	}
	if err := w.Next("take the loader's configuration back"); err != nil {
		return err
	}
	if err := w.restoreMusl(); err != nil {
		return err
	}
	if w.journal.Cache {
		if err := w.removeGlibc(); err != nil {
			return err
		}
	}
	w.journal.Linker, w.journal.Cache, w.journal.NoCache, w.journal.Conf = false, false, false, false
	return nil
}

func (w *work) removeGlibc() error {
	if err := w.removeDropIn(); err != nil {
		return err
	}
	if err := w.removeHead(); err != nil {
		return err
	}
	if w.journal.Conf {
		if _, err := w.root.RemoveFile(confFile, maxText, func(data []byte) bool { return string(data) == confInclude }); err != nil {
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
