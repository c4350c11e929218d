// Package live has fake hosts that change: what a program writes into sysfs does
// what it does on the real host, and the tree follows.
//
// A Host is a model and its tree. Write takes what was written to one attribute,
// changes the model as the kernel and its drivers would (bind, unbind, hot-plug,
// SR-IOV, mediated devices, vGPU), and makes the tree that of the new model; or
// it refuses with the kernel's error number and changes nothing. Change makes
// any other change of the model. Whoever shows the tree to programs is told what
// became different before Write returns.
//
// Offering the tree is for packages fusefs and machine; what a host in some
// state looks like is for package fakehw.
package live

import (
	"fmt"
	"sync"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/tree"
)

// Options adjust a Host. The zero value suits a host that is its model.
type Options struct {
	// Build makes the tree of a model; nil: fakehw.Build. It must not keep or
	// share what it returns.
	Build func(host.Model) (*tree.Tree, error)
}

// A Host is one fake host. Its methods may be called from several goroutines.
type Host struct {
	build func(host.Model) (*tree.Tree, error)

	writing sync.Mutex // one change at a time, until everybody was told
	mem     memory     // guarded by writing
	mu      sync.Mutex // guards what follows
	model   host.Model
	news    chan struct{} // closed, and made anew, when a node is closed or the host changes
	tree    *tree.Tree
	open    map[string]int    // how often a node is open, by path
	holders map[*Holders]bool // who else knows
	watches []func(Event)
}

// An Event is one change that was made.
type Event struct {
	Model   host.Model    // afterwards; not to be changed
	Changes []tree.Change // of the tree, in order of path
}

// New returns the host that m describes.
func New(m host.Model, opts Options) (*Host, error) {
	h := &Host{build: opts.Build, model: m.Clone(), open: map[string]int{}, news: make(chan struct{})}
	if h.build == nil {
		h.build = fakehw.Build
	}
	h.mem = newMemory(h.model)
	var err error
	if h.tree, err = h.build(h.model); err != nil {
		return nil, err
	}
	return h, nil
}

// Model returns a copy of the host's model as it is now.
func (h *Host) Model() host.Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.model.Clone()
}

// Tree returns the host's tree. It stays the same one and changes: hold Locker
// while reading it.
func (h *Host) Tree() *tree.Tree { return h.tree }

// Locker is what to hold while the tree is read.
func (h *Host) Locker() sync.Locker { return &h.mu }

// Watch has f called after each change, before the write that caused it returns.
// No lock is held that f could want, but f must not change the host.
func (h *Host) Watch(f func(Event)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches = append(h.watches, f)
}

// Change makes the model what f makes of it, and the tree what follows. An error
// of f, or a model that no tree can be made of, changes nothing.
func (h *Host) Change(f func(host.Model) (host.Model, error)) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	return h.change(f)
}

// change is Change for those who hold writing.
func (h *Host) change(f func(host.Model) (host.Model, error)) error {
	next, err := f(h.Model())
	if err != nil {
		return err
	}
	return h.become(next, h.mem.clone())
}

// become makes the host what model and memory say. The caller holds writing.
func (h *Host) become(next host.Model, mem memory) error {
	mem.learn(next)
	t, err := h.build(next)
	if err == nil {
		err = mem.show(t, next)
	}
	if err != nil {
		return fmt.Errorf("change host: %w", err)
	}
	h.mem = mem
	h.mu.Lock()
	changes := h.tree.Become(t)
	h.model = next.Clone()
	watches := h.watches
	h.tell()
	h.mu.Unlock()
	for _, w := range watches {
		w(Event{Model: next, Changes: changes})
	}
	return nil
}

// tell wakes the writes that wait. The caller holds mu.
func (h *Host) tell() {
	close(h.news)
	h.news = make(chan struct{})
}

// Open notes that a program has opened the node at path, and Close that it
// closed it: while a node is open its device is busy.
func (h *Host) Open(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[path]++
}

// Close is the counterpart of Open.
func (h *Host) Close(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[path]--; h.open[path] <= 0 {
		delete(h.open, path)
		h.tell()
	}
}
