package specgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"gpurig/fixtures/specs"
)

// Errors of checked-in Specs.
var (
	ErrNoGolden    = errors.New("no checked-in Spec for this host and these options")
	ErrStaleGolden = errors.New("the checked-in Spec is of another tree of the host; make golden rewrites it")
)

// A goldenSpec is one checked-in file, NAME.json in folder fixtures/specs.
type goldenSpec struct {
	Digest Digest `json:"digest"` // of the request
	Tree   string `json:"tree"`   // sum of the host's tree
	reply
}

// newGolden is what the file of a request holds, with r's answer.
func newGolden(r Request, answer reply) (goldenSpec, error) {
	key, err := r.Digest()
	if err != nil {
		return goldenSpec{}, err
	}
	t, err := r.Tree()
	if err != nil {
		return goldenSpec{}, err
	}
	return goldenSpec{Digest: key, Tree: t.Sum(), reply: answer}, nil
}

// text is the file's content.
func (g goldenSpec) text() ([]byte, error) {
	data, err := json.MarshalIndent(g, "", "  ")
	return append(data, '\n'), err
}

// goldens reads all files, by digest. Only a machine that cannot make Specs
// does so.
var goldens = sync.OnceValues(func() (map[Digest]named, error) {
	files, err := fs.Glob(specs.FS, "*.json")
	if err != nil {
		return nil, err
	}
	out := map[Digest]named{}
	for _, f := range files {
		data, err := specs.FS.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var g goldenSpec
		if err := json.Unmarshal(data, &g); err != nil {
			return nil, fmt.Errorf("fixtures/specs/%s: %w", path.Base(f), err)
		}
		out[g.Digest] = named{path.Base(f), g}
	}
	return out, nil
})

type named struct {
	file string
	goldenSpec
}

// golden finds a checked-in Spec. Its host must have exactly the same files.
func (g *Generator) golden(key Digest, r Request) (reply, error) {
	all, err := goldens()
	if err != nil {
		return reply{}, err
	}
	f, ok := all[key]
	if mode := r.Options.Mode; !ok && mode != "" {
		// The file may be of the mode that was detected, which is this one.
		r.Options.Mode = ""
		if key, err = r.Digest(); err != nil {
			return reply{}, err
		}
		f, ok = all[key]
		ok = ok && f.Result != nil && f.Result.Mode == mode
	}
	if !ok {
		return reply{}, ErrNoGolden
	}
	sum, err := g.treeSum(r)
	if err != nil {
		return reply{}, err
	}
	if f.Tree != sum {
		return reply{}, fmt.Errorf("%s: %w", f.file, ErrStaleGolden)
	}
	return f.reply, nil
}

// treeSum builds a host once, to see that it is what a Spec was made from.
func (g *Generator) treeSum(r Request) (string, error) {
	key, err := r.hostDigest()
	if err != nil {
		return "", err
	}
	if sum, ok := g.trees.Load(key); ok {
		return sum.(string), nil
	}
	t, err := r.Tree()
	if err != nil {
		return "", err
	}
	sum := t.Sum()
	g.trees.Store(key, sum)
	return sum, nil
}
