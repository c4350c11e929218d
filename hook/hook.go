// Package hook is cdi-hook: it carries out a hook file inside one container's
// root file system, with the host's privileges, although the image may be
// hostile.
//
// It reads one file of the host, does only what the file says, resolves every
// path inside the root (package inroot), runs no program but itself, and reads no
// environment variables but five LXC_* names. Running it twice has the same result as
// once. Its changes are in a journal beside the hook file and can be undone.
//
// The work is done by a second process of the same program (worker.go), since a
// file system can block a process for ever; the first one (supervise.go) answers
// the container manager in time and limits the output.
//
// Package stage says what is done in the root. Decisions about the host are made by
// package translate; package hookspec defines the file.
package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/calls"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
)

// Exit codes, part of the interface: LXC and OCI runtimes fail the start on any
// but ExitOK.
const (
	ExitOK     = 0
	ExitFailed = 1 // something could not be done; what was done is journalled
	ExitUsage  = 2 // a wrong call, or a hook file that is not acceptable
)

// Run does one job until ctx ends. The notes are things that went otherwise than
// the file says without being a failure, one line each. report is told each step
// before it is taken; nil: nobody listens.
func Run(ctx context.Context, job Job, report func(step string)) (notes []string, err error) {
	return run(ctx, job, report, func(*inroot.Root, string) ([]string, error) { return nil, nil })
}

// run is Run; limit is called between opening the root and reading anything in it.
func run(ctx context.Context, job Job, report func(step string), limit func(*inroot.Root, string) (lacks []string, err error)) (notes []string, err error) {
	s := stage.Steps{Context: ctx, Report: report}
	if err := s.Next("open %s", job.File); err != nil {
		return nil, err
	}
	held, err := lock(ctx, job.File)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	file, err := readFile(job.File)
	if err != nil {
		return nil, err
	}
	if job.Container != "" {
		if err := file.CheckContainer(job.Container); err != nil {
			return nil, &UsageError{Msg: fmt.Sprintf("%s %v", job.File, err),
				Hint: "a copied or renamed container needs a hook file of its own, which gpurig translate --name writes"}
		}
	}
	if job.Inside && inUserNamespace() { // we are the container's root already
		file.Owner = self()
	}
	if err := s.Next("open the container's root"); err != nil {
		return nil, err
	}
	root, err := job.open(inroot.Options{Owner: inroot.Owner(file.Owner), Tag: tag(job.File), Walk: job.Walk})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if job.Stage == Apply {
		if err := admit(root, file); err != nil {
			return nil, err
		}
	}
	o := stage.Options{Root: root, Journal: journalOf(job.File, root), Steps: s, Runs: runs}
	if job.OfALife {
		if o.Lifetime, err = thisLifetime(); err != nil {
			return nil, err
		}
	}
	lacks, err := limit(root, job.File)
	if err != nil {
		return nil, err
	}
	leave, err := root.Enter()
	if err != nil {
		return nil, err
	}
	res, err := stage.Run(job.Stage, file, o)
	leave()
	notes = res.Notes
	if len(lacks) > 0 && job.Stage == lastOfAStart(file) {
		notes = append(notes, fmt.Sprintf("this kernel has no %s, or does not let us use it: cdi-hook works with fewer limits of its own (gpurig doctor)", strings.Join(lacks, " and no ")))
	}
	for _, w := range res.Warnings {
		notes = append(notes, hookspec.LibraryShadowed+": "+w.String())
	}
	if err == nil {
		if werr := leaveWarnings(job, file.Owner, res.Warnings); werr != nil {
			notes = append(notes, fmt.Sprintf("warnings are in no file: %v", werr))
		}
	}
	if err == nil && job.Stage == Clean {
		err = held.remove()
	}
	return notes, err
}

// lastOfAStart is the stage in which is said, once for each start, what the machine
// lacks.
func lastOfAStart(f hookspec.File) Stage {
	if len(f.Links)+len(f.LibraryDirs)+len(f.Modes) > 0 {
		return Apply
	}
	return Prepare
}

// admit looks, as the host sees them, at what the plan mounts into the container:
// by these files and folders reads may leave the image.
func admit(root *inroot.Root, file hookspec.File) error {
	for _, m := range file.MountPoints {
		if m.Source == "" {
			continue
		}
		var st unix.Stat_t
		err := calls.Again(func() error { return unix.Stat(m.Source, &st) })
		if err == unix.EACCES { // to the container's root, who runs us: what is mounted is not known then
			continue
		}
		if err != nil {
			return fmt.Errorf("what is mounted on %s: %w", m.Path, &fs.PathError{Op: "stat", Path: m.Source, Err: err})
		}
		root.Admit(m.Path, st)
	}
	return nil
}

func readFile(name string) (hookspec.File, error) {
	f, err := openTrusted(name)
	if err != nil {
		return hookspec.File{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hookspec.MaxBytes+1))
	if err != nil {
		return hookspec.File{}, err
	}
	file, err := hookspec.Parse(data)
	if err != nil {
		return hookspec.File{}, fmt.Errorf("%s: %w", name, err)
	}
	return file, nil
}

// tag tells the temporaries of one hook file from those of another.
func tag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}

// A HintError is an error that its reader can do something about.
type HintError struct {
	Err  error
	Hint string // one sentence
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// exitCode tells the reader's mistakes from the machine's.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*hookspec.ParseError](err); ok || errors.Is(err, ErrUntrusted) {
		return ExitUsage
	}
	return ExitFailed
}
