// Package live has fake hosts that change: a write to sysfs has the effect that
// it has on a real host, and the tree is updated.
//
// A Host is a model and its tree. Write takes what was written to one attribute,
// changes the model as the kernel and its drivers would (bind, unbind, hot-plug,
// SR-IOV, mediated devices, vGPU), and updates the tree; or it fails with the
// kernel's error number and changes nothing. Change makes any other change of
// the model. Whoever serves the tree to programs is told what changed before Write
// returns.
//
// Packages fusefs and machine serve the tree; package fakehw says what a host in a
// given state looks like.
package live

import (
	"fmt"
	"sync"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/tree"
)

// Options adjust a Host. The zero value suits a host that is its model.
type Options struct {
	// Build makes the tree of a model from which functions were pulled out; nil:
	// fakehw.BuildWithout. It must not keep or share what it returns.
	Build func(m host.Model, gone []host.PCIFunction) (*tree.Tree, error)
	// Faults are what is broken at first; see SetFaults.
	Faults fault.List
}

// A Host is one fake host. Its methods may be called from several goroutines.
type Host struct {
	build func(m host.Model, gone []host.PCIFunction) (*tree.Tree, error)

	writing sync.Mutex // one change at a time, until everybody was told
	mem     memory     // guarded by writing
	mu      sync.Mutex // guards what follows
	model   host.Model // without the faults
	broken  fault.Broken
	faults  fault.List
	pinned  fault.List    // faults, by what their GPUs are named for good
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
	h := &Host{build: fakehw.BuildWithout, model: m.Clone(), open: map[string]int{}, news: make(chan struct{})}
	if opts.Build != nil {
		h.build = opts.Build
	}
	h.mem = newMemory(h.model)
	var err error
	if h.broken, err = fault.Break(h.model, opts.Faults); err != nil {
		return nil, err
	}
	h.faults, h.pinned = opts.Faults, pin(opts.Faults, h.model, nil, nil)
	if h.tree, err = h.files(h.broken, h.mem); err != nil {
		return nil, err
	}
	return h, nil
}

// Model returns a copy of the host's model as it is now, under its faults.
func (h *Host) Model() host.Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken.Model.Clone()
}

// Sound returns a copy of the model without the faults.
func (h *Host) Sound() host.Model {
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

// WatchTree is Watch for who only offers the tree.
func (h *Host) WatchTree(f func([]tree.Change)) { h.Watch(func(e Event) { f(e.Changes) }) }

// Change makes the model what f makes of it, and the tree what follows. Faults are
// not in the model that f gets: they lie over what it makes. An error of f, or a model that no tree can be made of, changes nothing.
func (h *Host) Change(f func(host.Model) (host.Model, error)) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	return h.change(f)
}

// change is Change for those who hold writing.
func (h *Host) change(f func(host.Model) (host.Model, error)) error {
	next, err := f(h.Sound())
	if err != nil {
		return err
	}
	return h.become(next, h.mem.clone())
}

// become makes the host what model and memory say. The caller holds writing.
func (h *Host) become(next host.Model, mem memory) error {
	mem.learn(next)
	b := fault.BreakNow(next.Clone(), h.pinned)
	t, err := h.files(b, mem)
	if err != nil {
		return fmt.Errorf("change host: %w", err)
	}
	h.mem = mem
	h.mu.Lock()
	changes := h.tree.Update(t)
	h.model, h.broken = next.Clone(), b
	watches := h.watches
	h.tell()
	h.mu.Unlock()
	for _, w := range watches {
		w(Event{Model: b.Model.Clone(), Changes: changes})
	}
	return nil
}

// files makes the tree of a host.
func (h *Host) files(b fault.Broken, mem memory) (*tree.Tree, error) {
	t, err := h.build(b.Model, mem.gone)
	if err == nil {
		err = mem.show(t, b.Model)
	}
	if err == nil {
		err = b.Edit(t)
	}
	return t, err
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
