package lxd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// nativeSuffix ends the name of a target whose manager passes GPUs itself.
const nativeSuffix = "-native"

// idleDaemons is how many daemons are kept that have no container: one takes a
// second to start, and 100 MB of memory.
const idleDaemons = 3

// A Native is the target in which LXD's own gpu device passes the GPU: the daemon
// runs on the fake machine, looks at it, and no plan is carried out. There is a
// machine and a daemon for each state of a host. It is safe for use by several
// goroutines; each of its containers belongs to one at a time.
type Native struct {
	opts Options

	mu      sync.Mutex
	servers map[nativeKey]*nativeServer
	dead    []*nativeServer // ended by themselves, until their last container is removed
	clock   int             // counts uses
	seen    map[string]bool // versions of the daemons
	server  lxdapi.Server   // what the last of them says it is; zero: none ran yet
}

type nativeKey struct{ host, cgroup, alone string }

// A nativeServer is the daemon on one machine.
type nativeServer struct {
	key  nativeKey
	open func() (*server, error) // once
	runs atomic.Pointer[server]  // when it was opened
	used int                     // by containers
	last int                     // when
}

func (s *nativeServer) over() bool {
	srv := s.runs.Load()
	return srv != nil && srv.dead()
}

var (
	_ target.Target = (*Native)(nil)
	_ target.Native = (*nativeContainer)(nil)
	_ target.Runner = (*nativeContainer)(nil)
)

// OpenNative returns the target, or a *target.CannotError where this machine can
// make no container at all.
func OpenNative(opts Options) (*Native, error) {
	n := NewNative(opts)
	if _, err := n.able(); err != nil {
		return nil, err
	}
	return n, nil
}

// NewNative returns the target. Nothing is started before it is needed.
func NewNative(opts Options) *Native {
	o := New(opts).opts
	o.Socket = Private // one that runs already is on the machine at hand
	return &Native{opts: o, servers: map[nativeKey]*nativeServer{}, seen: map[string]bool{}}
}

// Name is part of target.Target.
func (n *Native) Name() string { return string(n.opts.Flavour) + nativeSuffix }

// Capabilities is part of target.Target: the same devices are asked for in two ways.
func (n *Native) Capabilities() target.Capabilities {
	c := Capabilities(n.opts.Flavour)
	c.PlanTarget = string(n.opts.Flavour)
	return c
}

func (n *Native) able() (programs, *target.CannotError) {
	p, err := (&LXD{opts: n.opts}).able()
	if err != nil {
		err.Target = n.Name()
	}
	return p, err
}

// Can is part of target.Target. Whether the daemon runs is seen at a start: until
// then there is no host to run it on.
func (n *Native) Can(ctx context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := n.opts.Images.With(c.Image, c.Content); err != nil {
		return err
	}
	if len(c.IDMap) > 0 && !slices.Equal(c.IDMap, subids) {
		return n.unable("the daemon's id map is %v, and %v is asked for", subids, c.IDMap)
	}
	if _, err := n.able(); err != nil {
		return err
	}
	return nil
}

func (n *Native) unable(why string, args ...any) *target.CannotError {
	return &target.CannotError{Target: n.Name(), Why: fmt.Sprintf(why, args...)}
}

// Create is part of target.Target.
func (n *Native) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := n.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := n.opts.Images.With(c.Image, c.Content)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return &nativeContainer{target: n, config: c, image: img}, nil
}

// take returns the daemon on a host, for one container more. One that ended by itself
// takes none.
func (n *Native) take(ctx context.Context, h target.Host, c target.Config) (*nativeServer, *server, error) {
	key := nativeKey{h.Sum(), c.Cgroup, c.Alone}
	n.mu.Lock()
	s := n.servers[key]
	if s != nil && s.over() {
		delete(n.servers, key)
		if s.used > 0 {
			n.dead = append(n.dead, s)
		} else if err := s.close(); err != nil {
			n.mu.Unlock()
			return nil, nil, errors.Join(target.ErrBroken, err)
		}
		s = nil
	}
	if s == nil {
		s = &nativeServer{key: key}
		s.open = sync.OnceValues(func() (*server, error) {
			p, cerr := n.able()
			if cerr != nil {
				return nil, cerr
			}
			// Not the context of one of those who wait for it.
			srv, err := startServer(context.WithoutCancel(ctx), n.opts.Flavour, c.Cgroup, p, h.Enter)
			if err != nil && !errors.Is(err, target.ErrBroken) {
				err = n.unable("%s on the fake machine: %v", n.opts.Flavour, err)
			}
			s.runs.Store(srv)
			return srv, err
		})
		n.servers[key] = s
	}
	n.clock++
	s.used, s.last = s.used+1, n.clock
	n.mu.Unlock()
	srv, err := s.open()
	if err != nil {
		return nil, nil, errors.Join(err, n.release(s))
	}
	n.mu.Lock()
	n.server = srv.api.Server()
	n.seen[n.server.Version] = true
	n.mu.Unlock()
	return s, srv, nil
}

// said is what the daemons say that they are.
func (n *Native) said() lxdapi.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server
}

// Versions are those of the daemons that ran so far, sorted.
func (n *Native) Versions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.seen))
}

// Daemons is how many run, each on a machine of its own.
func (n *Native) Daemons() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.servers)
}

// release gives a daemon back. Of those that nobody uses, those used last are kept.
func (n *Native) release(of *nativeServer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	of.used--
	if at := slices.Index(n.dead, of); at >= 0 && of.used == 0 {
		n.dead = slices.Delete(n.dead, at, at+1)
		return of.close()
	}
	var idle []nativeKey
	for k, s := range n.servers {
		if s.used == 0 {
			idle = append(idle, k)
		}
	}
	slices.SortFunc(idle, func(a, b nativeKey) int { return n.servers[b].last - n.servers[a].last })
	var errs []error
	keep := 0
	for _, k := range idle {
		if keep < idleDaemons && k.alone == "" && !n.servers[k].over() { // nobody else asks for one that serves a name alone
			keep++
			continue
		}
		errs = append(errs, n.servers[k].close())
		delete(n.servers, k)
	}
	return errors.Join(errs...)
}

func (s *nativeServer) close() error {
	srv, err := s.open()
	if err != nil {
		return nil // it never ran, as was said to who asked for it
	}
	return srv.close()
}

// Close is part of target.Target.
func (n *Native) Close(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for k, s := range n.servers {
		errs = append(errs, s.close())
		delete(n.servers, k)
	}
	for _, s := range n.dead {
		errs = append(errs, s.close())
	}
	n.dead = nil
	return errors.Join(errs...)
}

// A nativeContainer is an instance of the daemon on the host that it was last
// started on. Its root goes with it from host to host.
type nativeContainer struct {
	target  *Native
	config  target.Config
	image   *image.Image
	devices map[string]map[string]string
	home    *nativeServer // of now
	now     *Container    // nil: before the first start
	removed bool
}

// Ask is part of target.Native.
func (c *nativeContainer) Ask(devices map[string]map[string]string) { c.devices = devices }

// Start is part of target.Container. There is no plan to carry out.
func (c *nativeContainer) Start(ctx context.Context, h target.Host, _ plan.Plan) error {
	if err := target.Startable(c.Running(), c.removed); err != nil {
		return err
	}
	if h.Enter == nil {
		return c.target.unable("the host is not one that programs can be run on")
	}
	// All daemons are the same program: what one has no word for is known before a
	// machine and a daemon are started for it.
	if _, err := c.asked(c.target.said()); err != nil {
		return err
	}
	if err := c.moveTo(ctx, h); err != nil {
		return err
	}
	if err := c.give(); err != nil {
		return err
	}
	return c.now.Start(ctx, h, plan.Plan{})
}

// moveTo makes the container one of the daemon on h.
func (c *nativeContainer) moveTo(ctx context.Context, h target.Host) error {
	key := nativeKey{h.Sum(), c.config.Cgroup, c.config.Alone}
	if c.now != nil && key == c.home.key {
		return nil
	}
	home, s, err := c.target.take(ctx, h, c.config)
	if err != nil {
		return err
	}
	next, err := s.create(ctx, c.config, c.image)
	if err != nil {
		return fmt.Errorf("create %s: %w", c.config.Name, errors.Join(target.ErrBroken, err, c.target.release(home)))
	}
	before, was := c.now, c.home
	c.now, c.home = next, home
	if before == nil {
		return nil
	}
	err = moveRoot(ctx, before, next)
	if err = errors.Join(err, before.Remove(ctx), c.target.release(was)); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// moveRoot gives a container the root that it had with another daemon.
func moveRoot(ctx context.Context, from, to *Container) error {
	src, dst := from.server.Outside(rootDir(from.name)), to.server.Outside(rootDir(to.name))
	if err := os.RemoveAll(dst); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", src, dst).CombinedOutput(); err != nil {
		return fmt.Errorf("move the root of %s: %s (%w)", from.config.Name, strings.TrimSpace(string(out)), err)
	}
	return nil
}

// Plug is part of target.Container.
func (c *nativeContainer) Plug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, h, p, (*Container).Plug)
}

// Unplug is part of target.Container.
func (c *nativeContainer) Unplug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, h, p, (*Container).Unplug)
}

func (c *nativeContainer) change(ctx context.Context, h target.Host, p plan.Plan, how func(*Container, context.Context, target.Host, plan.Plan) error) error {
	if !c.Running() {
		return target.ErrNotRunning
	}
	if h.Sum() != c.home.key.host {
		return c.target.unable("the host has changed since the container was started, and the daemon's machine stays as it is")
	}
	if err := c.give(); err != nil {
		return err
	}
	return how(c.now, ctx, h, plan.Plan{})
}

// Run is part of target.Runner.
func (c *nativeContainer) Run(ctx context.Context, p observe.Program) (observe.Ran, error) {
	if !c.Running() {
		return observe.Ran{}, target.ErrNotRunning
	}
	return c.now.Run(ctx, p)
}

// Warnings is part of target.Container: no hook of ours runs.
func (c *nativeContainer) Warnings() ([]hookspec.Warning, error) { return nil, nil }

// Observe is part of target.Container.
func (c *nativeContainer) Observe(ctx context.Context, r observe.Request) (observe.Observation, error) {
	if !c.Running() {
		return observe.Observation{}, target.ErrNotRunning
	}
	return c.now.Observe(ctx, r)
}

// Stop is part of target.Container.
func (c *nativeContainer) Stop(ctx context.Context) error {
	if !c.Running() {
		return target.ErrNotRunning
	}
	return c.now.Stop(ctx)
}

// Crash is part of target.Container.
func (c *nativeContainer) Crash(ctx context.Context) error {
	if !c.Running() {
		return target.ErrNotRunning
	}
	return c.now.Crash(ctx)
}

// Running is part of target.Container.
func (c *nativeContainer) Running() bool { return c.now != nil && c.now.Running() }

// Configuration is part of target.Container: the devices, as LXD's YAML has them.
func (c *nativeContainer) Configuration() string {
	if c.now == nil {
		return ""
	}
	return c.now.Configuration()
}

// Remove is part of target.Container.
func (c *nativeContainer) Remove(ctx context.Context) error {
	if c.removed || c.now == nil {
		c.removed = true
		return nil
	}
	c.removed = true
	return errors.Join(c.now.Remove(ctx), c.target.release(c.home))
}
