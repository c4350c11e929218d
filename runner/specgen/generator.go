package specgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gpurig/core/cdi/nvidia"
	"gpurig/fakehw/mntns"
)

// ErrNeedsSpec marks a request that nothing on this machine can answer: it
// allows no fake root directory, and no checked-in Spec fits. A runner skips
// what needs it.
var ErrNeedsSpec = errors.New("needs a new Spec")

// A NeedsSpecError says why a Spec cannot be had here.
type NeedsSpecError struct {
	Golden error  // why no checked-in Spec answers
	Err    error  // why none can be made
	Hint   string // what to allow, one sentence
}

func (e *NeedsSpecError) Error() string {
	return fmt.Sprintf("%v: %v, and %v", ErrNeedsSpec, e.Golden, e.Err)
}

// Unwrap offers the sentinel and both causes.
func (e *NeedsSpecError) Unwrap() []error { return []error{ErrNeedsSpec, e.Golden, e.Err} }

// Options adjust a Generator. The zero value makes Specs and keeps them in
// memory.
type Options struct {
	Children int    // child processes at most; zero: one for each processor
	CacheDir string // keeps Specs on disk too, see cachedir.Dir; empty: not
	// NoChild answers from checked-in Specs alone, as on a machine that allows
	// no fake root directory.
	NoChild bool
	// Session is passed on to the child processes.
	Session mntns.Options
}

// Stats counts where Specs came from.
type Stats struct{ Memory, Disk, Golden, Made int64 }

// A Generator makes Specs and keeps them. Its methods may be called from several
// goroutines.
type Generator struct {
	opts     Options
	disk     *diskCache // nil: none
	sessions []*mntns.Session
	made     sync.Map // Digest to *entry
	trees    sync.Map // Digest of a host to the sum of its tree; only used with golden Specs
	unable   atomic.Pointer[mntns.Error]
	kept     atomic.Int64 // Specs that were put into made
	stats    struct{ memory, disk, golden, made atomic.Int64 }
}

// An entry is one Spec, perhaps still being made.
type entry struct {
	done  chan struct{} // closed when made
	reply reply
	err   error
}

// maxKept is how many Specs are kept in memory at most.
const maxKept = 512

// New returns a generator. No child starts before it is needed.
func New(opts Options) *Generator {
	if opts.Children <= 0 {
		opts.Children = runtime.NumCPU()
	}
	g := &Generator{opts: opts}
	if opts.CacheDir != "" {
		g.disk = newDiskCache(opts.CacheDir)
	}
	for range opts.Children {
		g.sessions = append(g.sessions, mntns.NewSession(opts.Session))
	}
	return g
}

// Close ends the child processes.
func (g *Generator) Close() error {
	var errs []error
	for _, s := range g.sessions {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Stats returns the counts so far.
func (g *Generator) Stats() Stats {
	return Stats{Memory: g.stats.memory.Load(), Disk: g.stats.disk.Load(), Golden: g.stats.golden.Load(), Made: g.stats.made.Load()}
}

// Generate returns the Spec of r. The result is shared by all who ask for the
// same: it must not be changed.
//
// A refusal of the product is a *refuse.Error of package nvidia, and is kept like a
// Spec. Where no Spec can be had the error is a *NeedsSpecError. Other
// errors are faults of ours or of the machine and are not kept.
func (g *Generator) Generate(ctx context.Context, r Request) (*nvidia.Result, error) {
	if err := r.NVML.Validate(); err != nil {
		return nil, err
	}
	r = r.plain()
	key, err := r.Digest()
	if err != nil {
		return nil, err
	}
	for {
		mine := &entry{done: make(chan struct{})}
		found, taken := g.made.LoadOrStore(key, mine)
		e := found.(*entry)
		if !taken {
			e.reply, e.err = g.make(ctx, key, r)
			switch {
			case e.err != nil:
				g.made.Delete(key)
			case g.kept.Add(1)%maxKept == 0:
				g.made.Clear() // who waits has its entry
			}
			close(e.done)
			if e.err != nil {
				return nil, e.err
			}
			return e.reply.answer()
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a CDI Spec: %w", context.Cause(ctx))
		}
		// Whoever made it may have been interrupted, which is no answer for us.
		if e.err == nil {
			g.stats.memory.Add(1)
			return e.reply.answer()
		}
		if ctx.Err() != nil || !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return nil, e.err
		}
	}
}

// make looks on disk, then generates, then falls back on what is checked in.
func (g *Generator) make(ctx context.Context, key Digest, r Request) (reply, error) {
	if g.disk != nil {
		if found, ok := g.disk.load(key); ok {
			g.stats.disk.Add(1)
			return found, nil
		}
	}
	made, err := g.ask(ctx, r)
	if err == nil {
		g.stats.made.Add(1)
		if g.disk != nil {
			g.disk.store(key, made)
		}
		return made, nil
	}
	why, unable := errors.AsType[*mntns.Error](err)
	if !unable || !errors.Is(err, mntns.ErrUnable) {
		return reply{}, err
	}
	found, goldenErr := g.golden(key, r)
	if goldenErr != nil {
		return reply{}, &NeedsSpecError{Golden: goldenErr, Err: why, Hint: why.Hint}
	}
	g.stats.golden.Add(1)
	return found, nil
}

// ask has a child generate. The same host goes to the same child, which has its
// files set up already.
func (g *Generator) ask(ctx context.Context, r Request) (reply, error) {
	if g.opts.NoChild {
		return reply{}, &mntns.Error{Err: fmt.Errorf("%w: checked-in Specs were asked for", mntns.ErrUnable)}
	}
	if why := g.unable.Load(); why != nil {
		return reply{}, why
	}
	host, err := r.hostDigest()
	if err != nil {
		return reply{}, err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return reply{}, fmt.Errorf("request: %w", err)
	}
	var n int
	for _, c := range []byte(host) {
		n += int(c)
	}
	out, err := g.sessions[n%len(g.sessions)].Do(ctx, kind, data)
	if err != nil {
		if e, ok := errors.AsType[*mntns.Error](err); ok && errors.Is(err, mntns.ErrUnable) {
			g.unable.Store(e)
		}
		return reply{}, err
	}
	return parseReply(out)
}
