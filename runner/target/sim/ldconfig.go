package sim

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"

	"gpurig/core/ldcache"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

var _ target.Runner = (*Container)(nil)

// Run is part of target.Runner. Of programs, ldconfig alone is simulated.
func (c *Container) Run(_ context.Context, p observe.Program) (observe.Ran, error) {
	program, args := p.Command[0], p.Command[1:]
	if c.running == nil {
		return observe.Ran{}, fmt.Errorf("run %s in %s: %w", program, c.config.Name, target.ErrNotRunning)
	}
	if program != image.Ldconfig || len(args) > 0 {
		return observe.Ran{}, &target.CannotError{Target: c.sim.Name(), Why: fmt.Sprintf("%s %q is not simulated", program, args)}
	}
	if info, err := c.running.Lstat(program); err != nil || !info.Mode.IsRegular() {
		return observe.Ran{Code: 127, Output: program + ": not found"}, nil
	}
	if err := ldconfig(c.running.mountNS); err != nil {
		return observe.Ran{Code: 1, Output: err.Error()}, nil
	}
	return observe.Ran{}, nil
}

// ldconfig does what the image's own does: it makes the links of SONAMEs in the folders
// of the configuration, and then a cache. A link that it cannot make it leaves out with a
// warning, a cache ends it.
func ldconfig(s *mountNS) error {
	v := cacheView{s}
	folders, _ := ldcache.Conf(v)
	built := ldcache.Build(v, folders)
	for _, l := range built.Links {
		if d, err := s.own(l.Real); err == nil {
			_ = d.put(l.Name, newLink(l.Target, 0))
		}
	}
	if len(built.Links) > 0 {
		built = ldcache.Build(v, folders)
	}
	if program, err := s.ReadFile(image.Ldconfig); err == nil {
		built.Cache.Generator = generator(program)
	}
	dir, err := s.Resolve(path.Dir(ldcache.File))
	if err != nil {
		return err
	}
	d, err := s.own(dir)
	if err != nil {
		return err
	}
	name := path.Base(ldcache.File)
	if e := d.child(name); e != nil && e.Mode.IsDir() {
		return &fs.PathError{Op: "rename", Path: ldcache.File, Err: fs.ErrExist}
	}
	return d.put(name, newFile(built.Cache.Marshal(), 0o644, 0))
}

// cacheView shows a space to package ldcache.
type cacheView struct{ *mountNS }

// Lstat is part of ldcache.View.
func (v cacheView) Lstat(p string) (ldcache.Info, error) {
	i, err := v.mountNS.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}

// generator is what a program of glibc calls itself in a cache, "ldconfig (GNU libc)
// stable release version 2.36"; empty: it is none.
func generator(program []byte) string {
	_, rest, found := bytes.Cut(program, []byte("\x00ldconfig ("))
	name, _, ended := bytes.Cut(rest, []byte{0})
	if !found || !ended {
		return ""
	}
	return "ldconfig (" + string(name)
}
