package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/world"
	"gpurig/scenarios"
)

// A machine is a fake host in one state. It never changes: a change makes
// another machine. Machines are shared by all scenarios that reach the same
// state, and so are their trees and Specs, which are only read.
type machine struct {
	id     string     // names the state: equal ids, equal machines
	sound  host.Model // without the faults: what changes are made to
	faults fault.List
	model  host.Model // what there is, under the faults
	files  []specgen.FileChange
	// recording is the text of the recorded host that this is, or was before it
	// changed; empty: the files are made of the model.
	recording string
	real      *Hardware // the machine at hand; nil: it is a fake host

	sum   func() string // digest of model and files, for reports
	tree  func() (built, error)
	disk  func() (onDisk, error) // Specs in the CDI directories
	specs keep[string, *nvidia.Result]
	walks keep[string, walked]
}

type built struct {
	tree *tree.Tree
	sum  string
}

type onDisk struct {
	sources  cdi.Specs
	problems []cdi.Problem
}

// newMachine makes a machine of the host without faults. The error is a
// *fault.Error: such a host cannot have them.
func newMachine(id string, sound host.Model, recording string, files []specgen.FileChange, faults fault.List) (*machine, error) {
	broken, err := fault.Break(sound, faults)
	if err != nil {
		return nil, err
	}
	m := &machine{id: id, sound: sound, faults: faults, model: broken.Model, recording: recording, files: files}
	m.sum = sync.OnceValue(func() string { return digest(m.request()) })
	m.tree = sync.OnceValues(func() (built, error) {
		t, err := m.request().Tree()
		if err != nil {
			return built{}, err
		}
		return built{t, t.Sum()}, nil
	})
	m.disk = sync.OnceValues(func() (onDisk, error) {
		t, err := m.tree()
		if err != nil {
			return onDisk{}, err
		}
		sources, problems := cdi.ReadDirs(t.tree, cdi.DefaultDirs())
		return onDisk{sources, problems}, nil
	})
	return m, nil
}

// request is what the machine's files and Specs are made of.
func (m *machine) request() specgen.Request {
	return specgen.Request{Model: m.sound, Recording: m.recording, Changes: m.files, Faults: m.faults}
}

// host returns the machine as targets see it.
func (m *machine) host() (target.Host, error) {
	if m.real != nil {
		return target.Host{Root: m.real.Root}, nil
	}
	t, err := m.tree()
	if err != nil {
		return target.Host{}, fmt.Errorf("host %s: %w", m.id, err)
	}
	return target.Host{Root: t.tree, Sum: t.sum}, nil
}

// root returns the machine's files.
func (m *machine) root() (host.Root, error) {
	h, err := m.host()
	return h.Root, err
}

// generate returns the Spec of one of the generator's modes.
func (m *machine) generate(ctx context.Context, source SpecSource, mode string) (*nvidia.Result, error) {
	return m.specs.get(ctx, mode, func() (*nvidia.Result, error) {
		if m.real != nil {
			return m.real.generate(ctx, mode)
		}
		r := m.request()
		r.Options = specgen.HostOptions(m.model, nvidia.Options{Mode: mode})
		return source.Generate(ctx, r)
	})
}

// A keep remembers what was made for a key, errors too, except those of a
// caller who gave up. The zero keep is ready.
type keep[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]*kept[V]
}

type kept[V any] struct {
	done chan struct{}
	v    V
	err  error
}

func (k *keep[K, V]) get(ctx context.Context, key K, make_ func() (V, error)) (V, error) {
	for {
		k.mu.Lock()
		e, ok := k.made[key]
		if !ok {
			e = &kept[V]{done: make(chan struct{})}
			if k.made == nil {
				k.made = map[K]*kept[V]{}
			}
			k.made[key] = e
		}
		k.mu.Unlock()
		if !ok {
			e.err = errors.New("made by a goroutine that panicked")
			func() {
				defer close(e.done)
				e.v, e.err = make_()
			}()
			if e.err != nil && ctx.Err() != nil {
				k.mu.Lock()
				delete(k.made, key)
				k.mu.Unlock()
			}
			return e.v, e.err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			var zero V
			return zero, fmt.Errorf("wait: %w", context.Cause(ctx))
		}
		// Whoever made it may have given up, which is no answer for us.
		if e.err == nil || ctx.Err() != nil || !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return e.v, e.err
		}
		k.mu.Lock()
		if k.made[key] == e {
			delete(k.made, key)
		}
		k.mu.Unlock()
	}
}

// A park has all machines of a run.
type park struct {
	images *image.Set // their links, without the files of this machine

	hosts HostSource
	here  atomic.Pointer[machine] // the hardware in place of every host; nil: hosts are fake
	all   keep[string, *machine]
}

// first returns the host of a scenario before its changes.
func (p *park) first(ctx context.Context, s *scenarios.Scenario) (*machine, error) {
	if m := p.here.Load(); m != nil {
		return m, nil
	}
	id := s.Host
	if isFile(s.Host) {
		id = s.File + ": " + s.Host
	}
	m, err := p.all.get(ctx, id, func() (*machine, error) {
		model, err := p.hosts.Host(s.Host, s.File)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", s.Host, err)
		}
		recording := ""
		if r, ok := p.hosts.(RecordingSource); ok {
			if recording, err = r.Recording(s.Host, s.File); err != nil {
				return nil, fmt.Errorf("host %s: %w", s.Host, err)
			}
		}
		var faults fault.List
		if f, ok := p.hosts.(FaultSource); ok {
			if faults, err = f.Faults(s.Host, s.File); err != nil {
				return nil, fmt.Errorf("host %s: %w", s.Host, err)
			}
		}
		return newMachine(id, model, recording, nil, faults)
	})
	if err == nil && s.Driver != "" {
		m, err = p.change(ctx, m, scenarios.Change{Driver: s.Driver})
	}
	if err == nil && len(s.Specs) > 0 {
		m, err = p.change(ctx, m, scenarios.Change{Files: s.Specs})
	}
	for i, c := range s.Changes {
		if err != nil {
			break
		}
		if m, err = p.change(ctx, m, c); err != nil {
			err = fmt.Errorf("changes[%d]: %w", i, err)
		}
	}
	for _, text := range s.Faults {
		if err == nil {
			m, err = p.fault(ctx, m, text, false)
		}
	}
	return m, err
}

// fault returns the machine with one fault more, or without one that it has.
func (p *park) fault(ctx context.Context, m *machine, text string, heal bool) (*machine, error) {
	f, err := fault.Parse(text)
	if err != nil {
		return nil, err
	}
	change := m.faults.With
	if heal {
		change = m.faults.Without
	}
	faults, err := change(f)
	if err != nil {
		return nil, err
	}
	step := fmt.Sprintf("faults %q", faults.Texts())
	return p.next(ctx, m, step, func() (host.Model, []specgen.FileChange, error) { return m.sound, m.files, nil }, faults)
}

func isFile(name string) bool {
	return strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".txtar")
}

// change returns the machine that m becomes by c.
func (p *park) change(ctx context.Context, m *machine, c scenarios.Change) (*machine, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("change: %w", err)
	}
	return p.next(ctx, m, string(data), func() (host.Model, []specgen.FileChange, error) { return apply(m, c) }, m.faults)
}

// became returns the machine that m has become by what was written to l. Faults name
// their GPUs by address now, since a GPU that is given away is not numbered; one whose
// GPU is out waits until it is back.
func (p *park) became(ctx context.Context, m *machine, l *live.Host) (*machine, error) {
	sound := l.Sound()
	var faults fault.List
	for _, f := range l.Pinned() {
		if _, err := fault.Break(sound, append(slices.Clone(faults), f)); err == nil {
			faults = append(faults, f)
		}
	}
	sum := digest(sound)
	if sum == digest(m.sound) {
		return m, nil
	}
	step := fmt.Sprintf("became %s, faults %q", sum, faults.Texts())
	return p.next(ctx, m, step, func() (host.Model, []specgen.FileChange, error) { return sound, m.files, nil }, faults)
}

// reboot returns the machine after a reboot: lazily made nodes are gone, and so
// is what was changed below /run. Faults stay until they are healed.
func (p *park) reboot(ctx context.Context, m *machine) (*machine, error) {
	return p.next(ctx, m, "reboot", func() (host.Model, []specgen.FileChange, error) {
		return rebooted(m.sound), outliveReboot(m.files), nil
	}, m.faults)
}

func (p *park) next(ctx context.Context, m *machine, step string, do func() (host.Model, []specgen.FileChange, error), faults fault.List) (*machine, error) {
	sum := sha256.Sum256([]byte(m.id + "\n" + step))
	id := hex.EncodeToString(sum[:])
	return p.all.get(ctx, id, func() (*machine, error) {
		model, files, err := do()
		if err != nil {
			return nil, err
		}
		return newMachine(id, model, m.recording, files, faults)
	})
}

// real returns what resolves the links of an image in the directories of a path.
// An image that is not known resolves nothing.
func (p *park) real(c scenarios.Container) func(string) string {
	img, err := p.images.With(c.Image, c.Content)
	if err != nil {
		return nil
	}
	return func(at string) string {
		if real, err := world.Resolve(img.Tree, at); err == nil {
			return real
		}
		return at
	}
}
