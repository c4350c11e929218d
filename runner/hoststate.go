package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/memo"
	"gpurig/core/passthrough"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
	"gpurig/scenarios"
)

// A hostState is a fake host in one state, or the machine at hand. It never
// changes: a change makes another one. They are shared by all scenarios that reach
// the same state, and so are their trees and Specs, which are only read.
type hostState struct {
	id     string     // names the state: equal ids, equal hosts
	sound  host.Model // without the faults: what changes are made to
	faults fault.List
	model  host.Model // what there is, under the faults
	files  []specgen.FileChange
	// recording is the text of the recorded host that this is, or was before it
	// changed; empty: the files are made of the model.
	recording string
	real      *Hardware // the machine at hand; nil: it is a fake host

	sum     func() string // digest of model and files, for reports
	tree    func() (*tree.Tree, error)
	treeSum func() string
	opened  func() (*passthrough.Host, error) // as planning reads it
	plans   memo.Map[string, product]
}

// newHostState makes the state of a host that is sound but for these faults. The
// error is a *fault.Error: such a host cannot have them.
func newHostState(specs SpecSource, id string, sound host.Model, recording string, files []specgen.FileChange, faults fault.List) (*hostState, error) {
	broken, err := fault.Break(sound, faults)
	if err != nil {
		return nil, err
	}
	m := &hostState{id: id, sound: sound, faults: faults, model: broken.Model, recording: recording, files: files}
	m.sum = sync.OnceValue(func() string { return digest(m.request()) })
	m.tree = sync.OnceValues(func() (*tree.Tree, error) { return m.request().Tree() })
	m.treeSum = sync.OnceValue(func() string {
		t, err := m.tree()
		if err != nil {
			return ""
		}
		return t.Sum()
	})
	m.opened = sync.OnceValues(func() (*passthrough.Host, error) { return m.open(specs) })
	return m, nil
}

// request is what the machine's files and Specs are made of.
func (m *hostState) request() specgen.Request {
	return specgen.Request{Model: m.sound, Recording: m.recording, Changes: m.files, Faults: m.faults}
}

// host returns the machine as targets see it.
func (m *hostState) host() (target.Host, error) {
	if m.real != nil {
		return target.Host{Root: m.real.Host.Root(), Sum: func() string { return "" }}, nil
	}
	t, err := m.tree()
	if err != nil {
		return target.Host{}, fmt.Errorf("host: %w", err)
	}
	return target.Host{Root: t, Sum: m.treeSum}, nil
}

// open opens a fake host: its files are in memory, its Specs are made by a process
// that has them at "/".
func (m *hostState) open(source SpecSource) (*passthrough.Host, error) {
	t, err := m.tree()
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	lib, err := m.request().Library(t)
	if err != nil {
		return nil, err
	}
	return passthrough.New(t, lib, passthrough.HostOptions{
		Generate: func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
			r := m.request()
			r.Options = o
			return source.Generate(ctx, r)
		},
	}), nil
}

// A hostCache has the hosts of a run, in all states that scenarios bring them to.
type hostCache struct {
	images *image.Set // their links, without the files of this machine

	source HostSource
	specs  SpecSource
	here   atomic.Pointer[hostState]    // the hardware in place of every host; nil: hosts are fake
	named  memo.Map[string, *hostState] // before any change, by name or file
	all    memo.Map[string, *hostState] // by what they are: files of the same content are one host
}

// maxStates bounds how many states of hosts are kept at a time, with their files,
// Specs and plans: a run of any length takes what is in use. Variants are run in the
// order of their hosts, so that a state is rarely made twice.
const maxStates = 24

// first returns the host of a scenario before its changes.
func (p *hostCache) first(ctx context.Context, s *scenarios.Scenario) (*hostState, error) {
	if m := p.here.Load(); m != nil {
		return m, nil
	}
	id := s.Host
	if isFile(s.Host) {
		id = s.File + ": " + s.Host
	}
	m, err := p.named.Get(ctx, id, func() (*hostState, error) {
		model, err := p.source.Host(s.Host, s.File)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", s.Host, err)
		}
		recording := ""
		if r, ok := p.source.(RecordingSource); ok {
			if recording, err = r.Recording(s.Host, s.File); err != nil {
				return nil, fmt.Errorf("host %s: %w", s.Host, err)
			}
		}
		var faults fault.List
		if f, ok := p.source.(FaultSource); ok {
			if faults, err = f.Faults(s.Host, s.File); err != nil {
				return nil, fmt.Errorf("host %s: %w", s.Host, err)
			}
		}
		m, err := newHostState(p.specs, "", model, recording, nil, faults)
		if err != nil {
			return nil, err
		}
		m.id = m.sum()
		return p.all.Get(ctx, m.id, func() (*hostState, error) { return m, nil })
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
func (p *hostCache) fault(ctx context.Context, m *hostState, text string, heal bool) (*hostState, error) {
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
func (p *hostCache) change(ctx context.Context, m *hostState, c scenarios.Change) (*hostState, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("change: %w", err)
	}
	return p.next(ctx, m, string(data), func() (host.Model, []specgen.FileChange, error) { return apply(m, c) }, m.faults)
}

// became returns the machine that m has become by what was written to l. Faults name
// their GPUs by address now, since a GPU that is given away is not numbered; one whose
// GPU is out waits until it is back.
func (p *hostCache) became(ctx context.Context, m *hostState, l *live.Host) (*hostState, error) {
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
func (p *hostCache) reboot(ctx context.Context, m *hostState) (*hostState, error) {
	return p.next(ctx, m, "reboot", func() (host.Model, []specgen.FileChange, error) {
		return rebooted(m.sound), outliveReboot(m.files), nil
	}, m.faults)
}

func (p *hostCache) next(ctx context.Context, m *hostState, step string, do func() (host.Model, []specgen.FileChange, error), faults fault.List) (*hostState, error) {
	sum := sha256.Sum256([]byte(m.id + "\n" + step))
	id := hex.EncodeToString(sum[:])
	return p.all.Get(ctx, id, func() (*hostState, error) {
		model, files, err := do()
		if err != nil {
			return nil, err
		}
		return newHostState(p.specs, id, model, m.recording, files, faults)
	})
}

// groups returns the text of the image's /etc/group; nil: it has none.
func (p *hostCache) groups(c scenarios.Container) []byte {
	img, err := p.images.With(c.Image, c.Content)
	if err != nil {
		return nil
	}
	at, err := sandbox.Resolve(img.Tree, "/etc/group")
	if err != nil {
		return nil
	}
	text, _ := img.Tree.ReadFile(at)
	return text
}

// real returns what resolves the links of an image in the directories of a path.
// An image that is not known resolves nothing.
func (p *hostCache) real(c scenarios.Container) func(string) string {
	img, err := p.images.With(c.Image, c.Content)
	if err != nil {
		return nil
	}
	return func(at string) string {
		if real, err := sandbox.Resolve(img.Tree, at); err == nil {
			return real
		}
		return at
	}
}
