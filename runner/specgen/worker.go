package specgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
)

// kind is what this package registers with mntns.
const kind = "specgen"

func init() {
	w := &worker{trim: true}
	mntns.Register(kind, mntns.Handler{Build: w.build, Run: w.run})
}

// keep is how many trees a child keeps, as many as mntns keeps set up.
const keep = 8

// A worker answers requests in the child, one at a time.
type worker struct {
	trim  bool    // see trimMinors
	trees []built // most recently used first
}

type built struct {
	host Digest
	tree *tree.Tree
}

// build returns the same tree for the same host, which tells mntns that the
// files are there already.
func (w *worker) build(data []byte) (*tree.Tree, error) {
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	sum, err := r.hostDigest()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(w.trees, func(b built) bool { return b.host == sum })
	if i < 0 {
		t, err := r.Tree()
		if err != nil {
			return nil, err
		}
		if w.trim {
			if err := trimMinors(t, r.Model); err != nil { // faults take instances away and make none
				return nil, err
			}
		}
		w.trees = append([]built{{sum, t}}, w.trees...)
	} else {
		b := w.trees[i]
		w.trees = append([]built{b}, slices.Delete(w.trees, i, i+1)...)
	}
	w.trees = w.trees[:min(len(w.trees), keep)]
	return w.trees[0].tree, nil
}

// run generates with the fake host at "/".
func (w *worker) run(ctx context.Context, v mntns.View, data []byte) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	lib, err := r.Library(v.Tree)
	if err != nil {
		return nil, err
	}
	result, err := nvidia.Generate(ctx, v.Tree, lib, r.Options)
	if err == nil && len(v.Missing) > 0 {
		fixOwners(result.Spec, v.Tree)
	}
	out, err := newReply(result, err)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// Library returns the host's NVML; t is what Tree returned. It answers in this
// process, so that taking its file away would change nothing if it were not looked
// for here.
func (r Request) Library(t *tree.Tree) (*nvmlfake.Library, error) {
	b, err := r.Broken()
	if err != nil {
		return nil, err
	}
	m, opts := b.Model, b.NVML(r.NVML)
	if u := m.Userspace; u != nil && u.LibDir != "" {
		there, err := host.Exists(t, path.Join("/", u.DriverRoot, u.LibDir, "libnvidia-ml.so.1"))
		if err != nil {
			return nil, fmt.Errorf("NVML of the host: %w", err)
		}
		if _, asked := opts.Fail["Init"]; !there && !asked {
			opts.Fail = maps.Clone(opts.Fail)
			if opts.Fail == nil {
				opts.Fail = map[string]nvml.Return{}
			}
			opts.Fail["Init"] = nvml.ERROR_LIBRARY_NOT_FOUND
		}
	}
	return nvmlfake.New(m, opts), nil
}

// fixOwners puts the groups of the fake host where the kernel showed its
// placeholder, as it does in a user namespace that does not know them.
func fixOwners(spec *specs.Spec, t *tree.Tree) {
	done := map[*specs.DeviceNode]bool{}
	fixEdits(&spec.ContainerEdits, t, done)
	for i := range spec.Devices {
		fixEdits(&spec.Devices[i].ContainerEdits, t, done)
	}
}

func fixEdits(e *specs.ContainerEdits, t *tree.Tree, done map[*specs.DeviceNode]bool) {
	var gids []uint32
	for _, n := range e.DeviceNodes {
		if n.GID == nil {
			continue
		}
		if info, err := t.Lstat(hostPath(n)); err == nil && *n.GID == mntns.Overflow && !done[n] {
			gid := info.GID
			n.GID, done[n] = &gid, true
		}
		if n.FileMode != nil && n.FileMode.Perm()&worldRW != worldRW {
			gids = append(gids, *n.GID)
		}
	}
	// nvcdi adds the groups of nodes that not everybody may use; a device whose
	// nodes are in the common edits may have them as well, so others stay.
	if i := slices.Index(e.AdditionalGIDs, mntns.Overflow); i >= 0 {
		e.AdditionalGIDs = append(slices.Delete(e.AdditionalGIDs, i, i+1), gids...)
		slices.Sort(e.AdditionalGIDs)
		e.AdditionalGIDs = slices.Compact(e.AdditionalGIDs)
	}
}

const worldRW = fs.FileMode(0o006)

func hostPath(n *specs.DeviceNode) string {
	if n.HostPath != "" {
		return n.HostPath
	}
	return n.Path
}
