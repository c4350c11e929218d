package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io/fs"

	"gpurig/fakehw/tree"
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
		Remember: func(read func() stage.Scan) (scan stage.Scan) {
			look := func() (stage.Scan, error) {
				s.still(func() { scan = read() })
				return scan, nil
			}
			if key == "" {
				scan, _ = look()
				return scan
			}
			scans++ // the first makes links, the second finds them
			scan, _ = c.sim.scans.Get(context.Background(), key+string(rune(scans)), look)
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

// cacheKey is a digest of all that a loader cache is made from: the image, what of the
// host is where in it, and what the hook is told. Empty where that is not known: the
// root was used before, or the host is no tree.
func (c *Container) cacheKey(h target.Host) string {
	t, isTree := h.Root.(*tree.Tree)
	if !c.fresh || !isTree {
		return ""
	}
	told := c.file
	told.Container, told.Spec = "", ""
	data, err := json.Marshal(told)
	if err != nil {
		return ""
	}
	d := digest{b: data}
	d.text(fmt.Sprintf("%p %v", c.image, c.conf.UIDs)) // an image is made once
	for _, m := range c.conf.Mounts {
		d.text(m.Source, m.Target)
		if e, err := t.Follow(m.Source); err == nil {
			d.entry(e)
		}
	}
	return d.key()
}

// A digest makes keys: every text and number that goes in counts, and so does where
// it ends.
type digest struct{ b []byte }

func (d *digest) text(list ...string) {
	for _, s := range list {
		d.number(uint64(len(s)))
		d.b = append(d.b, s...)
	}
}

func (d *digest) number(list ...uint64) {
	for _, n := range list {
		d.b = binary.AppendUvarint(d.b, n)
	}
}

// entry adds what is in e and below it.
func (d *digest) entry(e *tree.Entry) {
	d.number(uint64(e.Mode), uint64(e.UID), uint64(e.GID), uint64(e.Size), uint64(len(e.Children)), uint64(len(e.Data)), maphash.Bytes(seed, e.Data))
	d.text(e.Target)
	for _, name := range e.Names() {
		d.text(name)
		d.entry(e.Children[name])
	}
}

func (d *digest) key() string {
	sum := sha256.Sum256(d.b)
	return string(sum[:])
}
