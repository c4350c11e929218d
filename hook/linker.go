package hook

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Where loaders look. The drop-in has a fixed name: a system container keeps
// its root for years, and a name of its own for each start would pile up.
const (
	cacheFile = "/etc/ld.so.cache"
	confFile  = "/etc/ld.so.conf"
	dropIn    = "/etc/ld.so.conf.d/00-cdi-hook.conf"

	dropInHead  = "# Written by cdi-hook: folders of the GPU driver's libraries.\n"
	confInclude = "include /etc/ld.so.conf.d/*.conf\n"
	maxText     = 1 << 20
)

// muslDefault is what musl's loader searches when it has no path file
// (ldso/dynlink.c): a file of ours replaces it, so it must repeat it.
var muslDefault = []string{"/lib", "/usr/local/lib", "/usr/lib"}

// linker makes the container's own loader find the library folders: glibc by
// its cache and a drop-in for its own later ldconfig runs, musl by its path
// file. With no folder wanted, what an earlier run wrote goes.
func (w *work) linker() error {
	if len(w.file.LibraryDirs) == 0 {
		if !w.journal.Linker {
			return nil
		}
		return w.removeLinker()
	}
	musl, err := w.muslLoaders()
	if err != nil {
		return err
	}
	glibc, err := w.hasGlibc()
	if err != nil {
		return err
	}
	w.journal.Linker = true
	for _, arch := range musl {
		if err := w.writeMusl(arch); err != nil {
			return err
		}
	}
	if len(musl) > 0 && !glibc {
		return nil
	}
	return w.writeGlibc()
}

// hasGlibc reports whether a glibc loader is in the root. A root without any
// loader gets a cache too: it may bring one later, on a volume.
func (w *work) hasGlibc() (bool, error) {
	for _, p := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux.so.2"} {
		if _, err := w.root.Lstat(p); err == nil {
			return true, nil
		} else if !notExist(err) && !errors.Is(err, unix.ELOOP) {
			return false, err
		}
	}
	return false, nil
}

// muslLoaders returns the architectures that the root has a musl loader for.
func (w *work) muslLoaders() ([]string, error) {
	names, err := w.root.ReadDir("/lib", maxNames)
	if notExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		arch, ok := strings.CutPrefix(n, "ld-musl-")
		if arch, ok2 := strings.CutSuffix(arch, ".so.1"); ok && ok2 && arch != "" && !strings.ContainsAny(arch, "/\n") {
			out = append(out, arch)
		}
	}
	return out, nil
}

// writeMusl adds our folders to the image's own path file, or to musl's
// defaults. What the file was is journalled, to be put back.
func (w *work) writeMusl(arch string) error {
	p := "/etc/ld-musl-" + arch + ".path"
	was, err := w.readText(p)
	if err != nil {
		return err
	}
	if old, ok := w.journal.Musl[p]; ok && was != nil && *was == old.Wrote {
		was = old.Was
	}
	folders := slices.Clone(muslDefault)
	if was != nil {
		folders = splitMusl(*was)
	}
	for _, d := range w.file.LibraryDirs {
		if !slices.Contains(folders, d) {
			folders = append(folders, d)
		}
	}
	text := strings.Join(folders, "\n") + "\n"
	w.journal.Musl[p] = pathFile{Was: was, Wrote: text}
	res, err := w.root.WriteFile(p, []byte(text), 0o644)
	w.journal.made(res)
	return err
}

// readText reads a small file of the root; nil: it is not there.
func (w *work) readText(p string) (*string, error) {
	data, err := w.root.ReadFile(p, maxText)
	if notExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := string(data)
	return &text, nil
}

// restoreMusl puts path files back as they were, unless somebody changed them
// since.
func (w *work) restoreMusl() error {
	for p, f := range w.journal.Musl {
		same := func(data []byte) bool { return string(data) == f.Wrote }
		if f.Was == nil {
			if _, err := w.root.RemoveFile(p, same); err != nil {
				return err
			}
		} else if now, err := w.readText(p); err != nil {
			return err
		} else if now != nil && *now == f.Wrote {
			if _, err := w.root.WriteFile(p, []byte(*f.Was), 0o644); err != nil {
				return err
			}
		}
		delete(w.journal.Musl, p)
	}
	return nil
}

// splitMusl reads a path file as musl does: folders between line breaks or
// colons.
func splitMusl(text string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ':' }),
		func(s string) bool { return s == "" })
}

func (w *work) writeGlibc() error {
	text := dropInHead + strings.Join(w.file.LibraryDirs, "\n") + "\n"
	res, err := w.root.WriteFile(dropIn, []byte(text), 0o644)
	w.journal.made(res)
	if err != nil {
		return err
	}
	if _, err := w.root.Lstat(confFile); notExist(err) {
		res, err := w.root.WriteFile(confFile, []byte(confInclude), 0o644)
		w.journal.made(res)
		if err != nil {
			return err
		}
		w.journal.Conf = true
	}
	if _, err := w.root.Lstat(cacheFile); notExist(err) {
		w.journal.NoCache = true
	}
	return w.writeCache(w.file.LibraryDirs)
}

// removeLinker takes the drop-in back and makes the cache anew without it.
func (w *work) removeLinker() error {
	if !w.journal.Linker {
		return nil
	}
	removed, err := w.root.RemoveFile(dropIn, func(data []byte) bool { return bytes.HasPrefix(data, []byte(dropInHead)) })
	if err != nil {
		return err
	}
	if err := w.restoreMusl(); err != nil {
		return err
	}
	if w.journal.Conf {
		if _, err := w.root.RemoveFile(confFile, func(data []byte) bool { return string(data) == confInclude }); err != nil {
			return err
		}
		w.journal.Conf = false
	}
	switch {
	case w.journal.NoCache:
		_, err = w.root.RemoveFile(cacheFile, func([]byte) bool { return true })
	case removed:
		err = w.writeCache(nil)
	}
	if err != nil {
		return err
	}
	w.journal.NoCache = false
	w.journal.Linker = false
	return nil
}
