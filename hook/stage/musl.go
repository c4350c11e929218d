package stage

import (
	"slices"
	"strings"

	"gpurig/hook/inroot"
)

// muslDefault is what musl's loader searches when it has no path file
// (ldso/dynlink.c): a file of ours replaces it, so it must repeat it.
var muslDefault = []string{"/lib", "/usr/local/lib", "/usr/lib"}

func muslFile(arch string) string { return "/etc/ld-musl-" + arch + ".path" }

// planMusl adds our folders to the image's own path file, or to musl's defaults.
// What the file was is journalled, to be put back.
func (w *work) planMusl(arch string) ([]byte, error) {
	p := muslFile(arch)
	now, link, closed, err := w.readMusl(p)
	if err != nil {
		return nil, err
	}
	own, known := w.journal.Musl[p]
	// Where a link leads can change once the container's own mounts are there, when a
	// mapped hook can no longer write the journal: what was noted before them counts.
	noted := w.stage == Apply && link != nil && own.Link != nil && *link == *own.Link
	if !noted && (!known || link != nil || now != nil && !own.isOurs(now)) {
		as, err := w.attr(p)
		if err != nil {
			return nil, err
		}
		own = pathFile{Was: now, Link: link, Attr: as}
	}
	if closed != nil && own.Was == nil {
		w.note("%s: musl's default folders are taken in its place: %v", p, closed)
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
// not there, and closed says why; a file that cannot be read could not be put back.
func (w *work) readMusl(p string) (now []byte, link *string, closed, err error) {
	if t, err := w.root.Readlink(p); err == nil {
		link = &t
	}
	now, err = w.readText(p)
	if link != nil && err != nil && inroot.BeyondReach(err) {
		return nil, link, err, nil
	}
	return now, link, nil, err
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
			if _, err := w.root.WriteFile(p, f.Was, f.Attr); err != nil {
				return err
			}
		}
		delete(w.journal.Musl, p)
	}
	return nil
}
