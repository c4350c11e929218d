package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// hostViews are where a process may have the machine's own root directory: at its
// place, or where snapd puts it for the programs of a snap.
var hostViews = []string{"", "/var/lib/snapd/hostfs"}

// Join sets up a world in the mount namespace of a process that runs already, a
// daemon that others use too. Nothing is mounted there. The scratch directory is a
// new one below parent, a directory of the machine that root alone can change, and
// is removed with the world; one that a killed run left is removed now.
func Join(pid int, parent string, p Programs) (_ *World, err error) {
	k := &keeper{pid: pid, prefix: newPrefix(), nsenter: p.Nsenter}
	if err := sweepDirs(parent); err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, k.prefix)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	k.joined = dir
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
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
	if err := sweepCgroups(k.CgroupRoot()); err != nil {
		return nil, err
	}
	if err := k.copyPrograms(p); err != nil {
		return nil, err
	}
	return newWorld(k), nil
}

// sweepDirs removes the scratch directories of runs that were killed.
func sweepDirs(parent string) error {
	dirs, errs := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*-*"))
	for _, d := range dirs {
		if Dead(filepath.Base(d)) {
			errs = errors.Join(errs, os.RemoveAll(d))
		}
	}
	return errs
}
