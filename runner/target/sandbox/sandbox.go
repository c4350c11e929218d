// Package sandbox holds what real containers of one cgroup version share: a private
// mount namespace with images, roots, fake machines and our programs in it.
//
// A helper process holds the namespace. It ends with this process, and everything in
// the namespace with it. The targets say what to start there; nothing of it is
// visible on the machine.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// bigFile is from where on a file of an image is linked into each root instead
// of being written again. Nothing writes into a file in place there: the hook
// and package tree's like replace files.
const bigFile = 16 << 10

// A Sandbox is safe for use by several goroutines.
type Sandbox struct {
	*nsHolder

	mu    sync.Mutex
	hosts map[string]*machine
	blobs map[blobKey]string        // big files of images, where they are
	files map[observe.FileID]string // of hosts that plans asked for, by their paths there
}

// Open sets up a sandbox in which programs find cgroups of one version, "v1" or
// "v2". runtime is a folder of the machine that gets a tmpfs there, for state
// that the programs keep at a path of their own; it is made where it is missing.
// Empty: there is none.
func Open(cgroup, runtime string, p Programs) (*Sandbox, error) {
	return OpenOn(nil, cgroup, runtime, p)
}

// OpenOn is Open on a fake machine: programs find its devices, and the driver's
// files. enter is target.Host's.
func OpenOn(enter target.Enter, cgroup, runtime string, p Programs) (*Sandbox, error) {
	k, err := startNSHolder(cgroup, runtime, p, enter)
	if err != nil {
		return nil, err
	}
	return newSandbox(k), nil
}

func newSandbox(k *nsHolder) *Sandbox {
	return &Sandbox{nsHolder: k, hosts: map[string]*machine{}, blobs: map[blobKey]string{}, files: map[observe.FileID]string{}}
}

// Close ends the namespace and removes our cgroups. Containers in it end too.
func (w *Sandbox) Close() error { return w.close() }

// A machine is the files of one host that plans have asked for so far.
type machine struct {
	mu   sync.Mutex
	dir  string // below the scratch directory
	done map[string]bool
}

// WriteRoot writes an image to dir, which must not exist, its ids as the host
// numbers them.
func (w *Sandbox) WriteRoot(ctx context.Context, img *image.Image, ids []plan.IDMap, dir string) error {
	small, big := tree.New(), map[string]*tree.Entry{}
	err := img.Tree.Walk(func(p string, e *tree.Entry) error {
		uid, gid := OnHost(ids, e.UID), OnHost(ids, e.GID)
		var err error
		switch {
		case e.Mode.IsDir():
			err = small.Mkdir(p, e.Mode.Perm())
		case e.IsLink():
			err = small.Symlink(p, e.Target)
		case e.Mode.IsRegular() && len(e.Data) >= bigFile:
			big[p] = &tree.Entry{Info: host.Info{Mode: e.Mode, UID: uid, GID: gid}, Data: e.Data}
			return nil
		case e.Mode.IsRegular():
			err = small.WriteFile(p, e.Data, e.Mode.Perm())
		case e.Mode&fs.ModeSocket != 0:
			err = small.Socket(p, e.Mode.Perm())
		case e.Mode&fs.ModeNamedPipe != 0:
			err = small.Fifo(p, e.Mode.Perm())
		default:
			return fmt.Errorf("image %s: %s: %v in an image", img.Name, p, e.Mode.Type())
		}
		if err != nil {
			return err
		}
		return small.Chown(p, uid, gid)
	})
	if err != nil {
		return err
	}
	if err := complete(disk.Write(ctx, small, w.Outside(dir), disk.Options{})); err != nil {
		return err
	}
	for p, e := range big {
		blob, err := w.blob(e)
		if err != nil {
			return err
		}
		if err := os.Link(blob, filepath.Join(w.Outside(dir), p)); err != nil {
			return err
		}
	}
	return nil
}

// complete makes an error of what disk.Write could not make.
func complete(missing []disk.Missing, err error) error {
	for _, m := range missing {
		err = errors.Join(err, errors.New(m.String()))
	}
	return err
}

// OnHost returns the host's id for a container's.
func OnHost(ids []plan.IDMap, id uint32) uint32 {
	for _, m := range ids {
		if id >= m.Container && id-m.Container < m.Count {
			return m.Host + id - m.Container
		}
	}
	return id
}

// A blobKey tells big files of images apart. Their bytes are shared between images and
// never change, so where they are will do; the key keeps them there.
type blobKey struct {
	data     *byte
	size     int
	mode     fs.FileMode
	uid, gid uint32
}

// blob returns a file on disk that has a big file's contents, mode and owner.
func (w *Sandbox) blob(e *tree.Entry) (string, error) {
	key := blobKey{&e.Data[0], len(e.Data), e.Mode, e.UID, e.GID}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.blobs[key]; ok {
		return at, nil
	}
	at := w.Outside(fmt.Sprintf("blobs/%d", len(w.blobs)+1))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(at, e.Data, 0o600); err != nil {
		return "", err
	}
	if err := os.Chown(at, int(e.UID), int(e.GID)); err != nil {
		return "", err
	}
	if err := os.Chmod(at, e.Mode.Perm()); err != nil {
		return "", err
	}
	w.blobs[key] = at
	return at, nil
}

// Host returns the prefix of a plan's sources in the namespace, with every
// source of p there. A machine that is not a tree in memory is used as it is.
func (w *Sandbox) Host(ctx context.Context, h target.Host, p plan.Plan) (string, error) {
	t, ok := h.Root.(*tree.Tree)
	if !ok {
		return w.realRoot(h.Root, p)
	}
	sum := h.Sum()
	var works map[string]string
	if h.Works != nil {
		var err error
		if works, err = h.Works(ctx); err != nil {
			return "", fmt.Errorf("libraries that work: %w", err)
		}
		sum += "+works"
	}
	w.mu.Lock()
	m := w.hosts[sum]
	if m == nil {
		m = &machine{dir: fmt.Sprintf("hosts/%d", len(w.hosts)+1), done: map[string]bool{}}
		w.hosts[sum] = m
	}
	w.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, source := range sources(p) {
		if m.done[source] {
			continue
		}
		err := m.take(ctx, t, source, w.Outside(m.dir), works)
		if err == nil {
			err = w.learn(t, w.Outside(m.dir), source)
		}
		if err != nil {
			return "", fmt.Errorf("files of the machine: %w", err)
		}
	}
	return w.Inside(m.dir), nil
}

// realRoot is for a machine that is there: its files are at their own paths.
func (w *Sandbox) realRoot(r host.Root, p plan.Plan) (string, error) {
	d, ok := r.(interface{ Dir() string })
	if !ok {
		return "", fmt.Errorf("a host of type %T has no files that could be mounted: %w", r, target.ErrBroken)
	}
	for _, source := range sources(p) {
		if err := w.learn(r, d.Dir(), source); err != nil {
			return "", fmt.Errorf("files of the machine: %w", err)
		}
	}
	if d.Dir() == "/" {
		return "", nil
	}
	return d.Dir(), nil
}

func sources(p plan.Plan) []string {
	var out []string
	for _, n := range p.Nodes {
		if !n.Own {
			out = append(out, n.Source)
		}
	}
	for _, m := range p.Mounts {
		if m.Type == "" {
			out = append(out, m.Source)
		}
	}
	return out
}

// take writes what source leads to, at the path of source itself. What the host
// does not have is left out: who mounts it shall say so.
//
// works has the files of the host whose content is that of a file here.
func (m *machine) take(ctx context.Context, t *tree.Tree, source, dir string, works map[string]string) error {
	real, err := host.Resolve(t, source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := t.Entry(real)
	if err != nil {
		return err
	}
	if file, ok := works[real]; ok {
		other := *e
		if other.Data, err = os.ReadFile(file); err != nil {
			return err
		}
		e = &other
	}
	at := filepath.Join(dir, source)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	m.done[source] = true
	if source == real || !e.Mode.IsRegular() {
		return place(ctx, at, e)
	}
	// The file has one identity, by whatever links of the host it is named.
	if err := m.take(ctx, t, real, dir, works); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(dir, real), at); !os.IsExist(err) {
		return err
	}
	return nil
}

// place writes e to the path at. What is there stays; a folder that is there
// because an earlier source lay in it gets the rest.
func place(ctx context.Context, at string, e *tree.Entry) error {
	if st, err := os.Lstat(at); err == nil {
		if !st.IsDir() || !e.Mode.IsDir() {
			return nil
		}
		for name, c := range e.Children {
			if err := place(ctx, filepath.Join(at, name), c); err != nil {
				return err
			}
		}
		return nil
	}
	one := tree.New()
	if err := graft(one, "/"+filepath.Base(at), e); err != nil {
		return err
	}
	return complete(disk.Write(ctx, one, filepath.Dir(at), disk.Options{Mknod: true}))
}

// graft puts e and all below it into a tree.
func graft(t *tree.Tree, at string, e *tree.Entry) error {
	var err error
	switch mode := e.Mode; {
	case mode.IsDir():
		err = t.Mkdir(at, mode.Perm())
	case e.IsLink():
		err = t.Symlink(at, e.Target)
	case mode.IsRegular():
		err = t.WriteFile(at, e.Data, mode.Perm())
	case e.IsDevice():
		err = t.Mknod(device.Node{Path: at, Type: e.DeviceType(), Num: e.Num, Mode: e.Mode.Perm(), UID: e.UID, GID: e.GID})
	case mode&fs.ModeSocket != 0:
		err = t.Socket(at, mode.Perm())
	case mode&fs.ModeNamedPipe != 0:
		err = t.Fifo(at, mode.Perm())
	}
	if err != nil {
		return err
	}
	if err := t.Chown(at, e.UID, e.GID); err != nil {
		return err
	}
	for name, c := range e.Children {
		if err := graft(t, path.Join(at, name), c); err != nil {
			return err
		}
	}
	return nil
}
