package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"gpurig/fakehw/cachedir"
	"gpurig/runner/smoke"
	"gpurig/runner/target"
)

// A Tool is a program that a target needs.
type Tool struct {
	Name string
	Hint string  // how to get it
	Path *string // gets the absolute path
}

// Find looks for what a sandbox needs, and for further tools on the path, for a
// target that can make no container without. probe and hook are where ours are;
// empty: beside our own program.
func Find(name, probe, hook string, tools ...Tool) (Programs, *target.CannotError) {
	var p Programs
	cannot := func(hint, why string, args ...any) *target.CannotError {
		return &target.CannotError{Target: name, Why: fmt.Sprintf(why, args...), Hint: hint}
	}
	if os.Geteuid() != 0 {
		return p, cannot("run as root, or use --target sim", "needs root")
	}
	for _, t := range append(tools, Tool{"nsenter", "install util-linux: apt-get install util-linux", &p.Nsenter}) {
		path, err := exec.LookPath(t.Name)
		if err != nil {
			if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
				return p, cannot(t.Hint, "%s is no program that can be run", t.Name)
			}
			return p, cannot(t.Hint, "there is no %s", t.Name)
		}
		if *t.Path, err = filepath.Abs(path); err != nil {
			return p, cannot("", "%s: %v", t.Name, err)
		}
	}
	var err error
	for _, t := range []struct {
		to          *string
		given, name string
	}{{&p.Probe, probe, "gpurig-probe"}, {&p.Hook, hook, "cdi-hook"}} {
		if *t.to, err = beside(t.given, t.name); err != nil {
			return p, cannot("build it: make build puts all programs into one folder", "there is no %s: %v", t.name, err)
		}
	}
	if probe != "" {
		probe = filepath.Join(filepath.Dir(probe), smoke.Program)
	}
	if p.Smoke, err = beside(probe, smoke.Program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, cannot("build it: make build puts all programs into one folder", "there is no %s: %v", smoke.Program, err)
	}
	return p, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// beside returns a program that was given, or one that lies where ours does.
func beside(given, name string) (string, error) {
	if given == "" {
		return cachedir.Beside(name)
	}
	if _, err := os.Stat(given); err != nil {
		return "", err
	}
	return filepath.Abs(given)
}
