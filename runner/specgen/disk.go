package specgen

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gpurig/fakehw/cachedir"
)

// builds is how many programs' Specs are kept on disk. A Spec depends on the
// generator and on what fake hosts look like, so each build has a folder.
const builds = 4

// A diskCache keeps replies as files. It is a convenience: whatever cannot be
// read or written counts as not there.
type diskCache struct {
	dir  string // of this build; empty: no cache
	once sync.Once
	root string
}

func newDiskCache(root string) *diskCache { return &diskCache{root: root} }

// open finds this build's folder, and removes those of builds long gone.
func (c *diskCache) open() string {
	c.once.Do(func() {
		id, err := buildID("/proc/self/exe")
		if err != nil {
			return
		}
		specs := filepath.Join(c.root, "specs")
		dir := filepath.Join(specs, id)
		if cachedir.Make(dir, 0o700) != nil {
			return // another user's say what root's container gets: nothing is kept then
		}
		c.dir = dir
		prune(specs, id)
	})
	return c.dir
}

// prune keeps the folders that were written to last.
func prune(specs, current string) {
	entries, err := os.ReadDir(specs)
	if err != nil {
		return
	}
	type build struct {
		path string
		used int64
	}
	var old []build
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != current {
			old = append(old, build{filepath.Join(specs, e.Name()), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(old, func(a, b build) int { return cmp.Compare(b.used, a.used) })
	for _, b := range old[min(len(old), builds-1):] {
		_ = os.RemoveAll(b.path) // the next run tries again
	}
}

// load returns what is kept under key.
func (c *diskCache) load(key Digest) (reply, bool) {
	dir := c.open()
	if dir == "" {
		return reply{}, false
	}
	data, err := os.ReadFile(filepath.Join(dir, string(key)+".json"))
	if err != nil {
		return reply{}, false
	}
	r, err := parseReply(data)
	return r, err == nil
}

// store keeps r. Readers see the whole file or none.
func (c *diskCache) store(key Digest, r reply) {
	dir := c.open()
	if dir == "" {
		return
	}
	data, err := json.Marshal(r)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if errors.Join(err, f.Close()) == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, string(key)+".json"))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// buildID reads the identity that the Go linker gave the program, which changes
// with any code in it.
func buildID(exe string) (string, error) {
	f, err := elf.Open(exe)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return "", errors.New("no Go build id")
	}
	data, err := s.Data()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}
