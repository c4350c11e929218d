package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// prefixStart starts the names of what is ours on the machine; the process id, for
// people, and a count follow.
const prefixStart = "gpurig-"

// prefixed is how a name starts that is a Prefix, or has one.
var prefixed = regexp.MustCompile(`^` + prefixStart + `[0-9]+-[0-9]+(-|$)`)

var prefixes atomic.Int64 // of this process, so that its names differ

func newPrefix() string { return fmt.Sprintf("%s%d-%d", prefixStart, os.Getpid(), prefixes.Add(1)) }

// A claim is what a run that lives holds on its directories: locks that the kernel lets
// go of when it ends, however it ends. Process ids would not do: runs in two process
// namespaces have the same cgroups, and may have the same directories.
type claim []*os.File

// claimPrefix makes a directory that is ours in each of parents, by a name that is new
// in all of them. Where nothing can be made, nothing will be.
func claimPrefix(parents []string) (prefix string, c claim, err error) {
	for {
		prefix = newPrefix()
		var made []string
		for _, parent := range parents {
			dir := filepath.Join(parent, prefix)
			if err = os.Mkdir(dir, 0o755); unmakeable(err) {
				err = nil
				continue
			}
			var f *os.File
			if err == nil {
				made = append(made, dir)
				f, err = lock(dir)
			}
			if err != nil {
				break
			}
			c = append(c, f)
		}
		if err == nil {
			return prefix, c, nil
		}
		for _, dir := range made {
			_ = os.Remove(dir) // a sweep may have been faster
		}
		c.release()
		c = nil
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, errHeld) {
			return "", nil, err
		}
	}
}

func unmakeable(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func (c claim) release() {
	for _, f := range c {
		f.Close()
	}
}

var errHeld = errors.New("somebody else has it, or took it away")

// lock opens a directory and locks it, until it is closed. The error may be errHeld.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errHeld
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = errHeld
	}
	if err == nil { // it may have been removed before we had the lock
		was, err1 := f.Stat()
		is, err2 := os.Stat(dir)
		if err1 != nil || err2 != nil || !os.SameFile(was, is) {
			err = errHeld
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep has remove take away each of dirs, of which no run that lives has a claim.
func sweep(dirs []string, remove func(dir string) error) error {
	var errs []error
	for _, d := range dirs {
		f, err := lock(d)
		if errors.Is(err, errHeld) {
			continue
		}
		if err == nil {
			err = remove(d)
			f.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// left reports whether a name starts with a prefix that no run that lives has a claim on
// in any of parents: whatever has it was left behind.
func left(parents []string, name string) bool {
	prefix := strings.TrimSuffix(prefixed.FindString(name), "-")
	return prefix != "" && !slices.ContainsFunc(parents, func(parent string) bool {
		dir := filepath.Join(parent, prefix)
		f, err := lock(dir)
		if err == nil {
			f.Close()
			return false
		}
		_, err = os.Lstat(dir)
		return !errors.Is(err, fs.ErrNotExist)
	})
}
