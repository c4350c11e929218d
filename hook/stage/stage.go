// Package stage is what cdi-hook does in a container's root file system: mount
// points before the start; links, the loader's cache and modes once everything is
// mounted; and undoing all this.
//
// It decides what is done in which order, what is written ahead to the journal and
// what may be removed. It opens nothing itself: a Root is the file
// system, of a running container by guarded system calls (package inroot) or of a
// simulated one, and a Store keeps the journal.
package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// A Stage is a part of the work, by when it can be done.
type Stage string

// The stages, in order.
const (
	// Prepare makes mount points, before anything is mounted, and takes back
	// what an earlier run made and this one does not want.
	Prepare Stage = "prepare"
	// Apply makes links, library cache and modes, when everything is mounted.
	Apply Stage = "apply"
	// Clean takes back everything that the hook ever made in this root.
	Clean Stage = "clean"
	// Finish takes back the empty mount points, after the container stopped.
	Finish Stage = "finish"
)

// Options say what a stage works with.
type Options struct {
	Root    Root
	Journal Store
	Steps   Steps

	// Lifetime is the start of the container that the stage belongs to, and which
	// may be over by now; nil: order is the caller's. Runs, needed with it, says
	// whether a process is still there.
	Lifetime *Lifetime
	Runs     func(Process) bool

	// Remember may return what it got for the same libraries in the same places,
	// of a caller that knows so, in place of what read makes; nil: it never does.
	Remember func(read func() Scan) Scan
}

// A Scan is what was read of a root's libraries: a loader cache and what it needs.
// It is not changed.
type Scan struct {
	links        []ldcache.Link // SONAME links to be made in our folders
	skipped      []ldcache.Skip
	skipsOmitted int
	confSkipped  []ldcache.Skip
	data         []byte // of the cache
	unreached    bool   // the root's own configuration does not name all our folders
	lost         []loss
	unknown      error // why more may be lost
}

// A Result is what a stage has to say.
type Result struct {
	Notes    []string           // what went otherwise than the file says, one line each
	Warnings []hookspec.Warning // what the container has otherwise than the file says
}

// Run carries out one stage of a file.
func Run(s Stage, file hookspec.File, o Options) (Result, error) {
	j, err := readJournal(o.Journal)
	if err != nil {
		return Result{}, err
	}
	w := &work{Steps: o.Steps, stage: s, root: o.Root, file: file, journal: j, lifetime: o.Lifetime, runs: o.Runs, remember: o.Remember, namesIn: map[string][]string{}, recorded: map[string]bool{}}
	if w.remember == nil {
		w.remember = func(read func() Scan) Scan { return read() }
	}
	err = w.do(s)
	return Result{w.notes, w.warnings}, err
}

// Steps are where a run can be stopped, and what it is at.
type Steps struct {
	Context context.Context
	Report  func(step string) // told each step before it is taken; nil: nobody listens
}

// Next announces a step, or says that the run is to end instead.
func (s Steps) Next(format string, args ...any) error {
	if s.Context.Err() != nil {
		return fmt.Errorf("stopped before the end: %w", context.Cause(s.Context))
	}
	if s.Report != nil {
		s.Report(fmt.Sprintf(format, args...))
	}
	return nil
}

// work is one stage of one file on one root.
type work struct {
	Steps
	stage    Stage
	root     Root
	file     hookspec.File
	journal  *journal
	lifetime *Lifetime // that this stage belongs to; nil: to none
	runs     func(Process) bool
	remember func(read func() Scan) Scan
	notes    []string
	warnings []hookspec.Warning
	held     []string // folders of our own that come first
	first    bool     // the drop-in does, in the configuration
	// unreached says that the root\'s own configuration does not name all our folders.
	unreached bool
	wrote     []ownFile           // to be read back
	linked    []hookspec.Link     // links beside those of the file, to be read back
	namesIn   map[string][]string // see names
	recorded  map[string]bool     // directories of which the journal has what is missing

	unanswered error // of one look, see view.seen
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

// isLate reports whether another lifetime has prepared the root since: what is there
// is that one's, which will take it back.
func (w *work) isLate() bool {
	if w.lifetime == nil {
		return false
	}
	p, late := w.lifetime.goesOn(w.journal.Lifetime, w.runs)
	if late {
		w.note("the container was started again, by process %d, before this hook of its last start: all that is made stays, for that one", p.PID)
	}
	return late
}

func (w *work) prepare() error {
	if w.lifetime != nil {
		w.journal.Lifetime = w.lifetime
	}
	if err := w.undo(w.file); err != nil {
		return err
	}
	if err := w.record(Prepare); err != nil {
		return err
	}
	for _, m := range w.file.MountPoints {
		if m.Nested {
			continue
		}
		if err := w.Next("mount point %s", m.Path); err != nil {
			return err
		}
		res, err := w.root.MountPoint(m.Path, m.Dir)
		if err != nil {
			return fmt.Errorf("mount point: %w", err)
		}
		if res.Change == inroot.Replaced {
			w.note("%s: a link of the image was replaced by a mount point", m.Path)
		}
	}
	return w.pointsBack()
}

// pointsBack looks once more at every mount point.
func (w *work) pointsBack() error {
	for _, m := range w.file.MountPoints {
		if m.Nested {
			continue
		}
		i, err := w.root.Lstat(m.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if link := i.Mode&fs.ModeSymlink != 0; link && !m.Dir || m.Dir && !link && !i.Mode.IsDir() {
			return fmt.Errorf("read back: mount point %s is something else: the container changed it meanwhile", m.Path)
		}
	}
	return nil
}

func (w *work) apply() error {
	if err := w.mounted(); err != nil {
		return err
	}
	if err := w.undoLinks(keeper(w.file)); err != nil {
		return err
	}
	if err := w.record(Apply); err != nil {
		return err
	}
	for _, l := range w.file.Links {
		if err := w.Next("link %s", l.Path); err != nil {
			return err
		}
		if _, err := w.root.Symlink(l.Path, l.Target); err != nil {
			return fmt.Errorf("link to %q: %w", l.Target, err)
		}
	}
	if err := w.loader(); err != nil {
		return err
	}
	for _, m := range w.file.Modes {
		if err := w.Next("mode of %s", m.Path); err != nil {
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

// mounted looks at what is on the mount points: what the plan mounts there, or
// nothing, where the caller has yet to mount it.
func (w *work) mounted() error {
	for _, m := range w.file.MountPoints {
		if m.Source == "" {
			continue
		}
		if _, err := w.root.Lstat(m.Path); errors.Is(err, inroot.ErrMount) {
			return fmt.Errorf("what is mounted on %s is not %s of the host, which the plan mounts there", m.Path, m.Source)
		}
	}
	return nil
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
func (w *work) write(p string, data []byte) error { return w.writeAs(p, data, inroot.Attr{}) }

func (w *work) writeAs(p string, data []byte, as inroot.Attr) error {
	if err := w.Next("write %s", p); err != nil {
		return err
	}
	if _, err := w.root.WriteFile(p, data, as); err != nil {
		return err
	}
	w.wrote = append(slices.DeleteFunc(w.wrote, func(f ownFile) bool { return f.path == p }), ownFile{p, data})
	return nil
}

// readBack looks once more at every link, file and mode: exit 0 means that all
// of it is there.
func (w *work) readBack() error {
	for _, l := range slices.Concat(w.file.Links, w.linked) {
		text, err := w.root.Readlink(l.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if text != l.Target {
			return changed("link", l.Path)
		}
	}
	if err := w.filesBack(); err != nil {
		return err
	}
	for _, m := range w.file.Modes {
		i, err := w.root.Lstat(m.Path)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if i.Mode.Perm() != m.Mode {
			return changed("the mode of", m.Path)
		}
	}
	return nil
}

func (w *work) filesBack() error {
	for _, f := range w.wrote {
		data, err := w.root.ReadFile(f.path, int64(len(f.data)))
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if !bytes.Equal(data, f.data) {
			return changed("file", f.path)
		}
	}
	return nil
}

func changed(what, p string) error {
	return fmt.Errorf("read back: %s %s is not as it was made: the container changed it meanwhile", what, p)
}

// finish removes empty mount points: they are nothing without their mounts, and
// a loader that finds an empty library fails on it.
func (w *work) finish() error {
	keep := w.file
	keep.MountPoints = nil
	if err := w.undo(keep); err != nil {
		return errors.Join(err, w.journal.save())
	}
	w.journal.Lifetime = nil
	return w.journal.save()
}

func (w *work) clean() error {
	err := w.removeLoader()
	if err == nil {
		err = w.undo(hookspec.File{})
	}
	if err != nil {
		return errors.Join(err, w.journal.save())
	}
	return w.journal.remove()
}

func notExist(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
