package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
)

// ErrImpossible marks a fault that a host cannot have.
var ErrImpossible = fakehw.ErrImpossible

func impossible(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrImpossible, fmt.Sprintf(format, args...))
}

// A Broken is a host under faults.
type Broken struct {
	Model host.Model // what fakehw.Build makes the files of

	healthy host.Model
	edits   []func(*tree.Tree) error // what the model does not tell, done to the files
	// What NVML answers otherwise than such a host's: codes by call, GPUs whose
	// persistence mode stays on; GPUs that CUDA has lost.
	codes      map[string]nvml.Return
	persistent []int
	offBus     []int
	xids       []nvmlfake.Xid
}

// Break returns the host m under faults; m is not changed. The error is an
// *Error that names the first fault which such a host cannot have, or cannot have
// beside the others.
func Break(m host.Model, faults List) (Broken, error) {
	b := Broken{Model: m, healthy: m}
	for i, f := range faults {
		if err := kinds[rank(f.kind)].act(&b, f); err != nil {
			return Broken{}, because(m, faults[:i], f, err)
		}
	}
	return b, nil
}

// BreakNow is Break of a host that changes while it is broken: a fault of which
// the subject is not there now (a GPU that was pulled out) waits until it is.
func BreakNow(m host.Model, faults List) Broken {
	b := Broken{Model: m, healthy: m}
	for _, f := range faults {
		was := b
		was.codes = maps.Clone(b.codes)
		if kinds[rank(f.kind)].act(&b, f) != nil {
			b = was
		}
	}
	return b
}

// Pinned returns f with its GPU named by what never changes, the PCI address, as
// NVML numbers the GPUs of m. A GPU without an address keeps its index.
func (f Fault) Pinned(m host.Model) Fault {
	b := Broken{Model: m, healthy: m}
	if f.gpu == "" {
		return f
	}
	if g, err := b.gpu(f.gpu); err == nil && g.PCI != nil {
		f.gpu = g.PCI.BDF.String()
	}
	return f
}

// NVML returns opts, which is about the GPUs of b.Model, with what the faults
// make of the library.
func (b Broken) NVML(opts nvmlfake.Options) nvmlfake.Options {
	if len(b.codes) > 0 {
		fail := maps.Clone(b.codes)
		maps.Copy(fail, opts.Fail)
		opts.Fail = fail
	}
	opts.OffBus = slices.Concat(opts.OffBus, b.offBus)
	opts.Xids = slices.Concat(opts.Xids, b.xids)
	if len(b.persistent) > 0 {
		set := map[int]bool{}
		for _, i := range b.persistent {
			set[i] = true
		}
		maps.Copy(set, opts.Persistence)
		opts.Persistence = set
	}
	return opts
}

// because says why f cannot be: for itself, or since others are there.
func because(m host.Model, before List, f Fault, err error) error {
	var e *fakehw.ChangeError
	if errors.As(err, &e) { // it names the change, which is the fault
		err = e.Err
	}
	alone := Broken{Model: m, healthy: m}
	if kinds[rank(f.kind)].act(&alone, f) != nil {
		return &Error{Fault: f, Err: err, Hint: "gpurig host show tells what the host has."}
	}
	why := strings.TrimPrefix(err.Error(), ErrImpossible.Error()+": ")
	return &Error{Fault: f, Err: fmt.Errorf("%w: beside %s, %s", ErrConflict, strings.Join(before.Texts(), " and "), why),
		Hint: "Leave one of them out, or heal it first."}
}

// Edit does to the files of the host, built of the model, what is left to do. An
// error names the fault.
func (b Broken) Edit(t *tree.Tree) error {
	for _, edit := range b.edits {
		if err := edit(t); err != nil {
			return err
		}
	}
	return nil
}

// edit adds an edit for the fault f.
func (b *Broken) edit(f Fault, do func(*tree.Tree) error) {
	b.edits = append(b.edits, func(t *tree.Tree) error {
		if err := do(t); err != nil {
			return &Error{Fault: f, Err: err}
		}
		return nil
	})
}

// Tree builds the files of the host.
func (b Broken) Tree() (*tree.Tree, error) {
	t, err := fakehw.Build(b.Model)
	if err != nil {
		return nil, err
	}
	return t, b.Edit(t)
}

// gpu finds a GPU by its NVML index or PCI address on the healthy host, as it is
// now.
func (b *Broken) gpu(name string) (*host.GPU, error) {
	at := -1
	for i, g := range b.healthy.GPUs {
		if g.Index >= 0 && fmt.Sprint(g.Index) == name || g.PCI != nil && g.PCI.BDF.String() == name {
			at = i
		}
	}
	if at < 0 {
		return nil, impossible("no GPU %s; there are %s", name, known(b.healthy))
	}
	was := b.healthy.GPUs[at]
	for i, g := range b.Model.GPUs {
		if g.Platform == was.Platform && (g.PCI == nil) == (was.PCI == nil) && (g.PCI == nil || g.PCI.BDF == was.PCI.BDF) {
			return &b.Model.GPUs[i], nil
		}
	}
	return nil, impossible("GPU %s is not on the host any more", name)
}

// known lists the GPUs of a host.
func known(m host.Model) string {
	var out []string
	for _, g := range m.GPUs {
		s := g.Platform
		if g.PCI != nil {
			s = g.PCI.BDF.String()
		}
		if g.Index >= 0 {
			s = fmt.Sprintf("%d (%s)", g.Index, s)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
