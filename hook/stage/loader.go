package stage

import (
	"path"
	"slices"

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
	noted := w.journal.Linker && w.stage == Apply
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
	if !noted {
		if err := w.recordConf(); err != nil {
			return err
		}
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
		v := w.look()
		if libs, s.unknown = w.libraries(v); s.unknown == nil {
			s.lost, s.unknown = v.lost(ldcache.Cache{}, libs, nil)
		}
		return s
	}).told(w)
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

// isPoint reports whether the plan mounts something at p.
func (w *work) isPoint(p string) bool {
	return slices.ContainsFunc(w.file.MountPoints, func(m hookspec.MountPoint) bool { return m.Path == p })
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
	w.journal.Linker, w.journal.Cache, w.journal.NoCache, w.journal.Conf, w.journal.Heads = false, false, false, false, nil
	return nil
}
