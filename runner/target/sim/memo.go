package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"gpurig/core/plan"
)

// maxMemo bounds what one memo remembers; a full one starts over.
const maxMemo = 512

// A memo remembers results that are made from the same things again and again:
// many scenarios start one image with one driver. The empty key is none.
type memo[T any] struct {
	mu sync.Mutex
	m  map[string]T
}

// get returns what was remembered for key, or makes and remembers it. Two
// goroutines may make it twice. Errors are not remembered.
func (c *memo[T]) get(key string, make func() (T, error)) (T, error) {
	if key == "" {
		return make()
	}
	c.mu.Lock()
	v, ok := c.m[key]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := make()
	if err == nil {
		c.mu.Lock()
		if c.m == nil || len(c.m) >= maxMemo {
			c.m = map[string]T{}
		}
		c.m[key] = v
		c.mu.Unlock()
	}
	return v, err
}

// A digest makes keys: every text and number that goes in counts, and so does
// where it ends.
type digest struct{ b []byte }

func newDigest() *digest { return &digest{make([]byte, 0, 16<<10)} }

func (d *digest) text(list ...string) {
	d.number(uint64(len(list)))
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

func (d *digest) bool(b bool) {
	if b {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digest) key() string {
	sum := sha256.Sum256(d.b)
	return string(sum[:])
}

// plan adds every field of p. A test sets each field in turn and wants another
// key.
func (d *digest) plan(p plan.Plan) {
	d.text(p.Devices...)
	d.number(uint64(len(p.Nodes)))
	for _, n := range p.Nodes {
		d.text(n.Path, n.Source, string(n.Type), n.Permissions)
		d.number(uint64(n.Num.Major), uint64(n.Num.Minor), uint64(n.Mode), uint64(n.UID), uint64(n.GID))
		d.bool(n.Own)
		d.text(n.Owners...)
	}
	d.number(uint64(len(p.Mounts)))
	for _, m := range p.Mounts {
		d.text(m.Type, m.Source, m.Target)
		d.bool(m.Dir)
		d.text(m.Options...)
		d.text(m.Owners...)
	}
	d.number(uint64(len(p.Links)))
	for _, l := range p.Links {
		d.text(l.Path, l.Target)
		d.text(l.Owners...)
	}
	d.text(p.LibraryDirs...)
	d.owners(p.LibraryOwners)
	d.number(uint64(len(p.Modes)))
	for _, m := range p.Modes {
		d.text(m.Path)
		d.number(uint64(m.Mode))
		d.text(m.Owners...)
	}
	d.number(uint64(len(p.Env)))
	for _, v := range p.Env {
		d.text(v.Name, v.Value)
		d.text(v.Owners...)
	}
	d.number(uint64(len(p.Groups)))
	for _, g := range p.Groups {
		d.number(uint64(g))
	}
	d.owners(p.GroupOwners)
	d.bool(p.Strict)
	d.number(uint64(len(p.Notes)))
	for _, n := range p.Notes {
		d.text(n.Device, n.Edit, n.What, n.Reason, n.Detail)
		d.bool(n.Done)
	}
}

func (d *digest) owners(list []plan.Owners) {
	d.number(uint64(len(list)))
	for _, o := range list {
		d.text(o...)
	}
}
