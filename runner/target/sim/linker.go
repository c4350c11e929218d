package sim

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
)

// What the hook writes for loaders (package hook, linker.go).
const (
	cacheFile   = "/etc/ld.so.cache"
	confFile    = "/etc/ld.so.conf"
	dropIn      = "/etc/ld.so.conf.d/00-cdi-hook.conf"
	dropInHead  = "# Written by cdi-hook: folders of the GPU driver's libraries.\n"
	confInclude = "include /etc/ld.so.conf.d/*.conf\n"
)

var muslDefault = []string{"/lib", "/usr/local/lib", "/usr/lib"}

// A pathFile is one musl path file; Was nil: there was none.
type pathFile struct {
	was   *string
	wrote string
}

// linker makes the container's own loader find the library folders.
func (h *hooked) linker() error {
	if len(h.file.LibraryDirs) == 0 {
		return h.removeLinker()
	}
	musl := h.muslLoaders()
	h.journal.linker = true
	for _, arch := range musl {
		if err := h.writeMusl(arch); err != nil {
			return err
		}
	}
	if len(musl) > 0 && !h.hasGlibc() {
		return nil
	}
	return h.writeGlibc()
}

func (h *hooked) hasGlibc() bool {
	for _, p := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-linux.so.2"} {
		if _, err := h.s.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

func (h *hooked) muslLoaders() []string {
	names, err := h.s.ReadDir("/lib")
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, "ld-musl-"); ok {
			if arch, ok := strings.CutSuffix(rest, ".so.1"); ok && arch != "" {
				out = append(out, arch)
			}
		}
	}
	return out
}

func (h *hooked) writeMusl(arch string) error {
	p := "/etc/ld-musl-" + arch + ".path"
	was := h.text(p)
	if old, ok := h.journal.musl[p]; ok && was != nil && *was == old.wrote {
		was = old.was
	}
	folders := slices.Clone(muslDefault)
	if was != nil {
		folders = strings.FieldsFunc(*was, func(r rune) bool { return r == '\n' || r == ':' })
	}
	for _, d := range h.file.LibraryDirs {
		if !slices.Contains(folders, d) {
			folders = append(folders, d)
		}
	}
	text := strings.Join(folders, "\n") + "\n"
	h.journal.musl[p] = pathFile{was: was, wrote: text}
	return h.write(p, []byte(text))
}

// text returns a file's contents; nil: it is not there.
func (h *hooked) text(p string) *string {
	data, err := h.s.ReadFile(p)
	if err != nil {
		return nil
	}
	s := string(data)
	return &s
}

// write gives a file new contents, 0644; an equal one is not written.
func (h *hooked) write(p string, data []byte) error {
	if i, err := h.s.Lstat(p); err == nil && i.Mode.IsRegular() && i.Mode.Perm() == 0o644 {
		if old, err := h.s.ReadFile(p); err == nil && string(old) == string(data) {
			return nil
		}
	}
	d, name, err := h.parent(p)
	if err != nil {
		return err
	}
	switch e := d.child(name); {
	case e != nil && !e.Mode.IsRegular() && !e.IsLink():
		return fmt.Errorf("write %s: %w", p, errInTheWay)
	case e != nil && e.IsLink():
		clear(h.dirs)
	}
	if err := d.put(name, newFile(data, 0o644, h.uid)); err != nil {
		return fmt.Errorf("write %s: %w", p, err)
	}
	return nil
}

// remove removes a file whose contents are as said and reports whether it did.
func (h *hooked) remove(p string, same func(string) bool) bool {
	return h.removeIf(p, func(e *tree.Entry) bool { return e.Mode.IsRegular() && same(string(e.Data)) })
}

func (h *hooked) writeGlibc() error {
	h.journal.cache = true
	if err := h.writeDropIn(); err != nil {
		return err
	}
	if _, err := h.s.Lstat(confFile); notExist(err) {
		if err := h.write(confFile, []byte(confInclude)); err != nil {
			return err
		}
		h.journal.conf = true
	}
	if _, err := h.s.Lstat(cacheFile); notExist(err) {
		h.journal.noCache = true
	}
	return h.writeCache(h.file.LibraryDirs)
}

// writeDropIn names the folders that the image's own configuration does not have.
func (h *hooked) writeDropIn() error {
	folders := ldcache.Added(cacheView{h.s}, dropIn, h.file.LibraryDirs)
	if len(folders) == 0 {
		h.remove(dropIn, isDropIn)
		return nil
	}
	return h.write(dropIn, []byte(dropInHead+strings.Join(folders, "\n")+"\n"))
}

func isDropIn(text string) bool { return strings.HasPrefix(text, dropInHead) }

// removeLinker puts the loader's configuration back as it was.
func (h *hooked) removeLinker() error {
	if !h.journal.linker {
		return nil
	}
	h.remove(dropIn, isDropIn)
	for p, f := range h.journal.musl {
		ours := func(s string) bool { return s == f.wrote }
		if f.was == nil {
			h.remove(p, ours)
		} else if now := h.text(p); now != nil && ours(*now) {
			if err := h.write(p, []byte(*f.was)); err != nil {
				return err
			}
		}
		delete(h.journal.musl, p)
	}
	if h.journal.conf {
		h.remove(confFile, func(s string) bool { return s == confInclude })
		h.journal.conf = false
	}
	h.journal.linker = false
	noCache, cache := h.journal.noCache, h.journal.cache
	h.journal.noCache, h.journal.cache = false, false
	if _, err := h.s.Lstat(cacheFile); !cache || err != nil || noCache && h.remove(cacheFile, func(string) bool { return true }) {
		return nil
	}
	return h.writeCache(nil)
}
