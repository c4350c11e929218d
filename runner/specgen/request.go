// Package specgen generates the NVIDIA CDI Spec of a fake host, once for each host
// and set of options.
//
// The generator is NVIDIA's, which opens /sys, /proc and /dev by name. So it
// runs in a child process whose root directory is the fake host (package mntns):
// a program that uses this package calls mntns.Init at the start of main, and of
// each TestMain. Results are cached in memory and, on request, on disk.
// If this machine allows no such child, Specs that were checked in (folder
// fixtures/specs) are used for the shipped hosts; one that is missing there is an
// error that says so.
//
// The meaning of a Spec, and the Specs of other vendors, are left to other packages.
package specgen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
	"gpurig/fixtures/hosts"
)

// A Request is everything that a Spec depends on. It is a value: equal requests
// have equal Specs.
type Request struct {
	Model host.Model `json:"model"`
	// Recording is the text of the recorded host that Model is, or was before
	// changes to it; empty: the host is made of Model alone.
	Recording string           `json:"recording,omitempty"`
	Changes   []FileChange     `json:"changes,omitempty"` // to the files of the host, in this order
	Faults    fault.List       `json:"faults,omitempty"`  // over all of it
	NVML      nvmlfake.Options `json:"nvml,omitzero"`
	Options   nvidia.Options   `json:"options,omitzero"`
}

// A FileChange changes one path of a fake host. Exactly one field beside Path is
// set.
type FileChange struct {
	Path   string       `json:"path"`
	Remove bool         `json:"remove,omitempty"` // with all below it
	File   *string      `json:"file,omitempty"`   // content of a regular file, 0644
	Link   string       `json:"link,omitempty"`   // target of a symbolic link
	Dir    bool         `json:"dir,omitempty"`    // a directory, 0755
	Node   *device.Node `json:"node,omitempty"`   // its path is Path
	Mode   *fs.FileMode `json:"mode,omitempty"`   // permission bits of what is there, links followed
}

// ErrBadChange marks a FileChange that cannot be made.
var ErrBadChange = errors.New("change of a file")

// Broken is the host under its faults. The error is a *fault.Error.
func (r Request) Broken() (fault.Broken, error) { return fault.Break(r.Model, r.Faults) }

// Tree builds the host, makes the changes, and breaks it. It is what the
// generator sees.
func (r Request) Tree() (*tree.Tree, error) { return r.without(nil) }

// without is Tree of a host from which functions were pulled out.
func (r Request) without(gone []host.PCIFunction) (*tree.Tree, error) {
	b, err := r.Broken()
	if err != nil {
		return nil, err
	}
	t, err := r.base(b.Model, gone)
	if err != nil {
		return nil, err
	}
	for _, c := range r.Changes {
		if err := c.apply(t); err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrBadChange, c.Path, err)
		}
	}
	return t, b.Edit(t)
}

// base builds the host m before the changes to its files. A recorded host is as
// it was recorded; what became of its model is done to its files.
func (r Request) base(m host.Model, gone []host.PCIFunction) (*tree.Tree, error) {
	if r.Recording == "" {
		return fakehw.BuildWithout(m, gone)
	}
	f, err := hosts.Parse("recorded host", []byte(r.Recording))
	if err != nil {
		return nil, err
	}
	rec, err := capture.Replay(f)
	if err != nil {
		return nil, err
	}
	was, _, err := rec.Broken()
	if err != nil {
		return nil, err
	}
	if same, err := equalModels(was, m); err != nil || same {
		return rec.Tree, err
	}
	before, err := fakehw.Build(was)
	if err != nil {
		return nil, err
	}
	after, err := fakehw.Build(m)
	if err != nil {
		return nil, err
	}
	return capture.Changed(rec.Tree, before, after)
}

// equalModels compares what is told of two hosts: a list that is empty says as
// much as one that is not there.
func equalModels(a, b host.Model) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return bytes.Equal(x, y), err
}

func (c FileChange) apply(t *tree.Tree) error {
	set := 0
	for _, is := range []bool{c.Remove, c.File != nil, c.Link != "", c.Dir, c.Node != nil, c.Mode != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("want one of remove, file, link, dir, node and mode, not %d", set)
	}
	switch {
	case c.Remove:
		return t.Remove(c.Path)
	case c.File != nil:
		return t.WriteFile(c.Path, []byte(*c.File), 0o644)
	case c.Link != "":
		return t.Symlink(c.Path, c.Link)
	case c.Dir:
		return t.Mkdir(c.Path, 0o755)
	case c.Mode != nil:
		return t.Chmod(c.Path, *c.Mode)
	}
	n := *c.Node
	n.Path = c.Path
	return t.Mknod(n)
}

// plain writes what means the same the same way, so that requests of equal meaning
// are equal.
func (r Request) plain() Request {
	if r.Options.Mode == "auto" {
		r.Options.Mode = ""
	}
	return r
}

// A Digest names a request's content, SHA-256 in hex.
type Digest string

// Digest is the key under which the Spec is kept.
func (r Request) Digest() (Digest, error) { return digest(r) }

// hostDigest names the host alone: requests that share it share a tree.
func (r Request) hostDigest() (Digest, error) {
	return digest(Request{Model: r.Model, Recording: r.Recording, Changes: r.Changes, Faults: r.Faults})
}

func digest(r Request) (Digest, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("digest of a host: %w", err)
	}
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:])), nil
}
