package sim

import (
	"context"
	"fmt"
	"io/fs"

	"gpurig/hook/stage"
	"gpurig/runner/target"
)

// A journal is the hook's, in memory. It outlives a crash.
type journal struct {
	of   string
	data []byte // nil: none
}

func (j *journal) Name() string { return "of " + j.of }

func (j *journal) Read() ([]byte, error) {
	if j.data == nil {
		return nil, fs.ErrNotExist
	}
	return j.data, nil
}

func (j *journal) Write(data []byte) error {
	j.data = data
	return nil
}

func (j *journal) Remove() error {
	j.data = nil
	return nil
}

// hook does what cdi-hook does at a stage, by the same code. key says what libraries
// are where; empty: that is not known.
func (c *Container) hook(s *mountNS, at stage.Stage, key string) error {
	if err := c.file.CheckContainer(c.config.Name); err != nil && c.sim.oci == "" { // no OCI runtime says the name
		return fmt.Errorf("cdi-hook: the hook file %w", err)
	}
	scans := 0
	res, err := stage.Run(at, c.file, stage.Options{
		Root: c.rootIn(s), Journal: &c.journal, Steps: stage.Steps{Context: context.Background()},
		Remember: func(read func() stage.Scan) stage.Scan {
			if scans++; key != "" {
				key += string(rune(scans)) // the first makes links, the second finds them
			}
			scan, _ := c.sim.scans.get(key, func() (stage.Scan, error) { return read(), nil })
			return scan
		},
	})
	if err != nil {
		return fmt.Errorf("cdi-hook: %w", err)
	}
	if at == stage.Apply {
		c.warnings = res.Warnings
	}
	return nil
}

// rootIn is the container's root as its hooks work in it, as mounted in s.
func (c *Container) rootIn(s *mountNS) root {
	uid, _ := inside(c.conf.UIDs, c.file.Owner.UID)
	return root{mountNS: s, uid: uid, owner: c.file.Owner}
}

// cacheKey says what a loader cache is made from: the image, the host, and what
// of the host is where in the image. Empty where that is not known: the root was
// used before, or the host has no sum.
func (c *Container) cacheKey(h target.Host) string {
	if !c.fresh || h.Sum == "" {
		return ""
	}
	d := newDigest()
	d.text(c.image.Sum, h.Sum)
	d.number(uint64(len(c.conf.Mounts)))
	for _, m := range c.conf.Mounts {
		d.text(m.Source, m.Target)
	}
	d.number(uint64(len(c.file.Links)))
	for _, l := range c.file.Links {
		d.text(l.Path, l.Target)
	}
	d.text(c.file.LibraryDirs...)
	return d.key()
}
