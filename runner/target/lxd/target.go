package lxd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"gpurig/core/emit/lxc"
	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/sandbox"
)

// Options adjust a target. The zero value is LXD and finds everything itself.
type Options struct {
	Flavour lxdapi.Flavour // empty: lxdapi.LXD
	// Socket is that of a daemon to use, which others use too; Private: none but our
	// own is used. Empty: our own where Daemon is named, else one that is found
	// running, else our own.
	Socket string
	// Daemon is the program that our own daemon is, so that another version can be put
	// to the test; empty: DaemonEnv, else the one on the path.
	Daemon string
	Images *image.Set // nil: made from this machine
	Probe  string     // gpurig-probe; empty: beside our own program
	Hook   string     // cdi-hook; empty: beside our own program

	// Nesting makes containers that may have containers of their own
	// (security.nesting), with the machine's programs, read-only, below Machine.
	Nesting bool
}

// DaemonEnv is an environment variable that names LXD's daemon, as Options.Daemon.
const DaemonEnv = "GPURIG_LXD_DAEMON"

// Machine is where a container that may nest has the machine's /usr.
const Machine = "/machine"

// An LXD is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type LXD struct {
	opts Options

	mu      sync.Mutex
	servers map[string]*server // by cgroup version
	cannot  map[string]error
	alone   []*server // of our own, that serve Config.Alone, or wait to
	dead    []*server // whose daemon ended by itself, until their last container is removed
}

var (
	_ target.Target = (*LXD)(nil)
)

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *LXD {
	if opts.Images == nil {
		opts.Images = image.NewSet(nil)
	}
	if opts.Flavour == "" {
		opts.Flavour = lxdapi.LXD
	}
	if opts.Daemon == "" && opts.Flavour == lxdapi.LXD {
		opts.Daemon = os.Getenv(DaemonEnv)
	}
	return &LXD{opts: opts, servers: map[string]*server{}, cannot: map[string]error{}}
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all: no root, a program is missing, or the daemon that the user named
// cannot be used.
func Open(ctx context.Context, opts Options) (*LXD, error) {
	l := New(opts)
	if err := l.answers(ctx); err != nil {
		return nil, err
	}
	if _, err := l.able(); err != nil {
		return nil, err
	}
	return l, nil
}

// Name is part of target.Target.
func (l *LXD) Name() string { return string(l.opts.Flavour) }

// Capabilities is part of target.Target.
func (l *LXD) Capabilities() target.Capabilities { return Capabilities(l.opts.Flavour) }

// Capabilities are those of containers of LXD and Incus, simulated ones too: both do
// the same.
func Capabilities(f lxdapi.Flavour) target.Capabilities {
	return target.Capabilities{Family: "lxd", Manager: f.Title(), Nesting: true, PlainDisks: true, RootOpensNodes: true}
}

// programs are what is run, by absolute path.
type programs struct {
	sandbox.Programs
	daemon, unshare string
	socket          string // of a daemon that may run; empty: none does
	asked           bool   // the user named the socket
}

// able returns the programs, or why there can be no container.
func (l *LXD) able() (programs, *target.CannotError) {
	var p programs
	var cerr *target.CannotError
	f := l.opts.Flavour
	tools := []sandbox.Tool{{Name: "unshare", Hint: "install util-linux: apt-get install util-linux", Path: &p.unshare}}
	get := f.Hint()
	if l.opts.Daemon != "" {
		get = fmt.Sprintf("--lxd-daemon and $%s name the program that %s's daemon is; without them it is the one on the path", DaemonEnv, f.Title())
	}
	if p.socket, p.asked = l.opts.socket(os.Getenv); p.socket == "" {
		tools = append(tools, sandbox.Tool{Name: cmp.Or(l.opts.Daemon, f.Daemon()), Hint: get, Path: &p.daemon})
	} else if at, err := exec.LookPath(cmp.Or(l.opts.Daemon, f.Daemon())); err == nil && !p.asked {
		p.daemon = at // should nobody answer
	}
	p.Programs, cerr = sandbox.Find(l.Name(), l.opts.Probe, l.opts.Hook, tools...)
	return p, cerr
}

// Can is part of target.Target. It finds out by starting a daemon that gives
// containers that cgroup version; the answer is kept.
func (l *LXD) Can(ctx context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := l.opts.Images.With(c.Image, c.Content); err != nil {
		return err
	}
	if len(c.IDMap) > 0 && !slices.Equal(c.IDMap, subids) {
		return l.unable("", "the daemon's id map is %v, and %v is asked for", subids, c.IDMap)
	}
	s, err := l.server(ctx, c.Cgroup)
	if err != nil {
		return err
	}
	if cannot := liblxc.Can(l.Name(), c.Cgroup, s.liblxc()); cannot != nil {
		return cannot
	}
	if len(c.IDMap) == 0 || s.daemon != nil {
		return nil
	}
	return s.mapsIDs(l.Name())
}

// Liblxc returns the version of the daemon's, for a simulation of it; ok is false
// where there is no daemon or it says none. It starts one.
func (l *LXD) Liblxc(ctx context.Context) (v lxc.Version, ok bool) {
	s, err := l.server(ctx, "v2")
	if err != nil {
		return v, false
	}
	v = s.liblxc()
	return v, v != lxc.Version{}
}

func (l *LXD) unable(hint, why string, args ...any) *target.CannotError {
	return &target.CannotError{Target: l.Name(), Why: fmt.Sprintf(why, args...), Hint: hint}
}

// server returns the daemon for containers of one cgroup version. One of our own that
// ended by itself serves nobody any more: what was under way is broken, and who comes
// next gets another.
func (l *LXD) server(ctx context.Context, cgroup string) (*server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serverLocked(ctx, cgroup)
}

func (l *LXD) serverLocked(ctx context.Context, cgroup string) (*server, error) {
	s := l.servers[cgroup]
	if s != nil && !s.dead() {
		return s, nil
	}
	var died error
	if s != nil {
		died = errors.Join(target.ErrBroken, s.daemon.life.Why())
		delete(l.servers, cgroup)
		if s.has > 0 {
			l.dead = append(l.dead, s)
		} else if err := s.close(); err != nil {
			return nil, errors.Join(target.ErrBroken, err)
		}
	}
	if err := l.cannot[cgroup]; err != nil {
		return nil, err
	}
	p, cerr := l.able()
	if cerr != nil {
		l.cannot[cgroup] = cerr
		return nil, cerr
	}
	s, err := l.open(ctx, cgroup, p)
	if err != nil && died != nil { // this machine can: it did
		err = errors.Join(died, err)
	}
	if err == nil {
		l.servers[cgroup] = s
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, err // the caller gave up: that says nothing of the machine
	}
	if !errors.Is(err, target.ErrBroken) { // a daemon that the user named was to be had
		if !errors.As(err, &cerr) {
			cerr = l.unable("", "%v", err)
		}
		err = cerr
	}
	l.cannot[cgroup] = err
	return nil, err
}

// Create is part of target.Target.
func (l *LXD) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := l.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	s, err := l.serve(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := l.opts.Images.With(c.Image, c.Content)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	ctr, err := s.create(ctx, c, img)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.Name, errors.Join(target.ErrBroken, err, l.release(ctx, s)))
	}
	ctr.nesting = l.opts.Nesting
	ctr.leave = func(ctx context.Context) error { return l.release(ctx, s) }
	return ctr, nil
}

// serve returns the daemon for a container: that of all, or one that it has for itself
// and the others of its name.
func (l *LXD) serve(ctx context.Context, c target.Config) (*server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.serverLocked(ctx, c.Cgroup)
	if err != nil {
		return nil, err
	}
	if c.Alone == "" || s.daemon == nil {
		s.has++
		return s, nil
	}
	for _, name := range []string{c.Alone, ""} {
		for _, s := range l.alone {
			if s.alone == name && s.cgroup == c.Cgroup {
				s.alone, s.has = c.Alone, s.has+1
				return s, nil
			}
		}
	}
	p, cerr := l.able()
	if cerr != nil {
		return nil, cerr
	}
	if s, err = startServer(context.WithoutCancel(ctx), l.opts.Flavour, c.Cgroup, p, nil); err != nil {
		return nil, errors.Join(target.ErrBroken, err)
	}
	s.alone, s.has = c.Alone, 1
	l.alone = append(l.alone, s)
	return s, nil
}

// release says that a container is gone. A daemon that served it alone serves others
// then, if it still does. One that is dead is taken away.
func (l *LXD) release(ctx context.Context, s *server) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.has--; s.has > 0 {
		return nil
	}
	alone := s.alone != ""
	s.alone = ""
	if !s.dead() && (!alone || !s.lost(ctx)) {
		return nil
	}
	is := func(x *server) bool { return x == s }
	l.alone, l.dead = slices.DeleteFunc(l.alone, is), slices.DeleteFunc(l.dead, is)
	if l.servers[s.cgroup] == s {
		delete(l.servers, s.cgroup)
	}
	return s.close()
}

// Close is part of target.Target. It ends every container that is left, and the
// daemons.
func (l *LXD) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, cgroup := range []string{"v1", "v2"} {
		if s := l.servers[cgroup]; s != nil {
			errs = append(errs, s.close())
			delete(l.servers, cgroup)
		}
	}
	for _, s := range slices.Concat(l.alone, l.dead) {
		errs = append(errs, s.close())
	}
	l.alone, l.dead = nil, nil
	return errors.Join(errs...)
}
