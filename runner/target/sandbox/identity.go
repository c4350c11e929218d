package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpurig/core/host"
	"gpurig/runner/observe"
)

// maxLearned bounds the files of one folder that a plan mounts.
const maxLearned = 20_000

// learn notes the identity of a source of the host h, whose files are below dir, and of
// what is in it, so that Identify knows them in a container.
func (w *Sandbox) learn(h host.Root, dir, source string) error {
	real, err := host.Resolve(h, source) // as mount(2) follows its source
	if errors.Is(err, fs.ErrNotExist) {
		return nil // who mounts it shall say so
	}
	if err != nil {
		return err
	}
	at := filepath.Join(dir, source)
	st, err := os.Stat(at)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		w.note(st, real)
		return nil
	}
	files := 0
	return filepath.WalkDir(at+"/.", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if files++; files > maxLearned {
			return fmt.Errorf("%s: more than %d files", source, maxLearned)
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(at, p)
		if err != nil {
			return err
		}
		w.note(st, filepath.Join(real, rel))
		return nil
	})
}

// note takes the first path of a file without links: a host may have it at several.
func (w *Sandbox) note(st os.FileInfo, p string) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.Mode().IsRegular() {
		return
	}
	id := observe.FileID{Dev: uint64(sys.Dev), Ino: sys.Ino}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.files[id]; !known {
		w.files[id] = p
	}
}

// Identify says of the libraries that were seen in a container which are files of the
// host: those that Host has handed out.
func (w *Sandbox) Identify(o *observe.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	observe.Identify(o, func(id observe.FileID) (string, bool) {
		p, ok := w.files[id]
		return p, ok
	})
}
