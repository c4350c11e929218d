package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// hostViews are where a process may have the machine's own root directory: at its
// place, or where snapd puts it for the programs of a snap.
var hostViews = []string{"", "/var/lib/snapd/hostfs"}

// Join sets up a sandbox in the mount namespace of a process that runs already, a
// daemon that others use too. Nothing is mounted there. The scratch directory is a
// new one below parent, a directory of the machine that root alone can change, and
// is removed with the sandbox; one that a killed run left is removed now.
func Join(pid int, parent string, p Programs) (_ *Sandbox, err error) {
	k := &nsHolder{pid: pid, nsenter: p.Nsenter}
	if err := sweepDirs(parent); err != nil {
		return nil, err
	}
	if k.parents, err = cgroupParents(k.outsideRoot()); err != nil {
		return nil, err
	}
	if err := sweepCgroups(k.parents); err != nil {
		return nil, err
	}
	if k.prefix, k.claim, err = claimPrefix(append(slices.Clip(k.parents), parent)); err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, k.prefix)
	k.joined = dir
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	for _, view := range hostViews {
		seen, err := os.Stat(filepath.Join("/proc", fmt.Sprint(pid), "root", view, dir))
		if err == nil && os.SameFile(st, seen) {
			k.scratch = filepath.Join(view, dir)
			break
		}
	}
	if k.scratch == "" {
		return nil, fmt.Errorf("process %d does not see %s: it has a root directory of its own", pid, dir)
	}
	if err := k.copyPrograms(p); err != nil {
		return nil, err
	}
	return newSandbox(k), nil
}

// Left returns what tells of a name in a daemon, the process pid, whether it starts with
// the Prefix of a run that has ended, and that joined it with this parent.
func Left(pid int, parent string) (func(name string) bool, error) {
	parents, err := cgroupParents(rootOf(pid))
	if err != nil {
		return nil, err
	}
	parents = append(parents, parent)
	return func(name string) bool { return left(parents, name) }, nil
}

// sweepDirs removes the scratch directories of runs that were killed.
func sweepDirs(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, prefixStart+"*-*"))
	return errors.Join(err, sweep(dirs, os.RemoveAll))
}
