package specgen

import (
	"gpurig/core/host"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
)

// Live makes the host of a request as one that changes.
func (r Request) Live() (*live.Host, error) {
	return live.New(r.Model, live.Options{Faults: r.Faults, Build: func(m host.Model, gone []host.PCIFunction) (*tree.Tree, error) {
		now := r
		now.Model, now.Faults = m, nil // they are the live host's affair
		t, err := now.without(gone)
		if err != nil || now.Recording == "" {
			return t, err
		}
		return t.Clone(), nil // nobody else has this one
	}})
}
