package live

// A Holders reports whether a process holds the node at path open. The process
// with the id except, as this machine has it, does not count; 0 is none.
type Holders func(path string, except int) bool

// AskHolders has f asked, besides what Open and Close say, whenever it matters
// if a node is open. It is called without a lock that f could want. The result
// ends that.
func (h *Host) AskHolders(f Holders) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holders == nil {
		h.holders = map[*Holders]bool{}
	}
	h.holders[&f] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.holders, &f)
	}
}

// held reports whether a process other than except holds the node at path open.
// The lock mu must not be held.
func (h *Host) held(path string, except int) bool {
	h.mu.Lock()
	open := h.open[path] > 0
	var ask []Holders
	for f := range h.holders {
		ask = append(ask, *f)
	}
	h.mu.Unlock()
	for _, f := range ask {
		open = open || f(path, except)
	}
	return open
}
