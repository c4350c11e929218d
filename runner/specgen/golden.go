package specgen

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"gpurig/core/cdi/nvidia"
	"gpurig/fixtures/specs"
)

// Errors of checked-in Specs.
var (
	ErrNoGolden    = errors.New("no checked-in Spec for this host and these options")
	ErrStaleGolden = errors.New("the checked-in Spec is of another tree of the host; make golden rewrites it")
)

// A goldenSpec is one checked-in file of folder fixtures/specs: PROFILE.json for a
// shipped host as it is, and more/DIGEST.json.gz for what shipped scenarios ask
// for beyond that.
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

// GoldenFile returns the checked-in file that answers r: its path below
// fixtures/specs, and its text before it is compressed. res and err are what
// Generate returned for r.
func GoldenFile(r Request, res *nvidia.Result, err error) (file string, text []byte, _ error) {
	answer, err := newReply(res, err)
	if err != nil {
		return "", nil, err
	}
	r = r.plain()
	g, err := newGolden(r, answer)
	if err != nil {
		return "", nil, err
	}
	if text, err = g.text(); err != nil {
		return "", nil, err
	}
	return moreFile(g.Digest), text, nil
}

func moreFile(d Digest) string { return "more/" + string(d[:32]) + ".json.gz" }

// Compress returns the content of a file whose text GoldenFile gave.
func Compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// Expand undoes Compress.
func Expand(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return text, errors.Join(err, r.Close())
}

// more finds the file of a request that is not of a shipped host as it is.
func more(key Digest) (named, bool, error) {
	file := moreFile(key)
	data, err := specs.FS.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return named{}, false, nil
	}
	if err != nil {
		return named{}, false, err
	}
	text, err := Expand(data)
	if err != nil {
		return named{}, false, fmt.Errorf("fixtures/specs/%s: %w", file, err)
	}
	var g goldenSpec
	if err := json.Unmarshal(text, &g); err != nil {
		return named{}, false, fmt.Errorf("fixtures/specs/%s: %w", file, err)
	}
	return named{file, g}, g.Digest == key, nil
}

// goldens reads the files of shipped hosts, by digest. Only a machine that
// cannot make Specs does so.
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
	asked := key
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
		if f, ok, err = more(asked); err != nil {
			return reply{}, err
		}
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
