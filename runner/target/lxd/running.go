package lxd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/lxc"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// Private, as Options.Socket, stands for a daemon of our own.
const Private = "private"

// joinDir is where our files are for a daemon that is not ours: root alone can
// change it, and programs may be run from it.
const joinDir = "/var/lib"

// socket returns that of a daemon that may run already, and whether the user named
// it. The variables are those that the daemon's own client knows.
func (o Options) socket(getenv func(string) string) (path string, asked bool) {
	switch o.Socket {
	case Private:
		return "", false
	case "":
	default:
		return o.Socket, true
	}
	if o.Daemon != "" {
		return "", false
	}
	if s := getenv(strings.ToUpper(string(o.Flavour)) + "_SOCKET"); s != "" {
		return s, true
	}
	if d := getenv(o.Flavour.DirVariable()); d != "" {
		return filepath.Join(d, "unix.socket"), true
	}
	if found := o.Flavour.Sockets(); len(found) > 0 {
		return found[0], false
	}
	return "", false
}

// askTime is how long a daemon may take to say what it is.
const askTime = 2 * time.Second

// Running is the version of liblxc that the daemon of this machine has, found as a target
// finds it; ok is false where none runs, or we may not ask.
func Running(ctx context.Context, f lxdapi.Flavour) (v lxc.Version, ok bool) {
	socket, _ := Options{Flavour: f}.socket(os.Getenv)
	if socket == "" {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	api, err := lxdapi.Dial(ctx, socket)
	if err != nil {
		return v, false
	}
	defer api.Close()
	v, err = lxc.ParseVersion(api.Server().DriverVer)
	return v, err == nil && api.Server().Flavour == f
}

// open returns the daemon that runs already, or one of our own. One that was only
// found, and does not answer, is as none.
func (l *LXD) open(ctx context.Context, cgroup string, p programs) (*server, error) {
	if p.socket == "" {
		return startServer(ctx, l.opts.Flavour, cgroup, p, nil)
	}
	s, err := l.join(ctx, cgroup, p)
	if errors.Is(err, lxdapi.ErrConnection) && !p.asked && p.daemon != "" {
		return startServer(ctx, l.opts.Flavour, cgroup, p, nil)
	}
	return s, err
}

// answerTime is how long a daemon that the user named may take: systemd starts one
// when it is first asked.
const answerTime = 30 * time.Second

// answers says why the daemon that the user named, if any, cannot be used. Who may not
// ask it needs root first of all, which able says.
func (l *LXD) answers(ctx context.Context) error {
	socket, asked := l.opts.socket(os.Getenv)
	if !asked {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer for %s", answerTime))
	defer cancel()
	api, err := l.dial(ctx, socket)
	switch {
	case err == nil:
		api.Close()
		return nil
	case os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission):
		return nil
	}
	return l.unusable(socket, err)
}

// dial returns the daemon that listens on socket, if it is one that can be used.
func (l *LXD) dial(ctx context.Context, socket string) (*lxdapi.Client, error) {
	api, err := lxdapi.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	if f := api.Server().Flavour; f != l.opts.Flavour {
		err = fmt.Errorf("it is %s", f.Title())
	} else if why := tooOld(api.Server()); why != "" {
		err = errors.New(why)
	}
	if err != nil {
		api.Close()
		return nil, err
	}
	return api, nil
}

func (l *LXD) unusable(socket string, why error) *target.CannotError {
	return l.unable("start the daemon, name another one, or ask for one of our own: --lxd-socket "+Private, "the daemon at %s: %v", socket, why)
}

// join uses the daemon that listens on p.socket. It gets a storage pool of ours, and
// names that no one else has.
func (l *LXD) join(ctx context.Context, cgroup string, p programs) (_ *server, err error) {
	api, err := l.dial(ctx, p.socket)
	if err != nil {
		if ctx.Err() != nil || !p.asked {
			return nil, err
		}
		return nil, errors.Join(target.ErrBroken, l.unusable(p.socket, err))
	}
	s := &server{api: api, images: map[string]func() error{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	pid, err := listener(p.socket, api.Server())
	if err != nil {
		return nil, err
	}
	if has, err := cgroupOf(pid); err != nil {
		return nil, err
	} else if has != cgroup {
		return nil, l.unable("a daemon of our own can have either: --lxd-socket "+Private, "containers of the daemon at %s have cgroup %s, and %s is asked for", p.socket, has, cgroup)
	}
	s.pid, s.nsenter = pid, p.Nsenter
	// What a run that was killed left in the daemon holds its files and cgroups.
	left, err := sandbox.Left(pid, joinDir)
	if err != nil {
		return nil, err
	}
	if err := s.clear(ctx, left); err != nil {
		return nil, err
	}
	if s.Sandbox, err = sandbox.Join(pid, joinDir, p.Programs); err != nil {
		return nil, err
	}
	return s, s.createPool(ctx)
}

// listener is the daemon's process, as we see it: who listens on its socket, or, if
// that is systemd, which hands sockets on, the process that the daemon says it is.
func listener(socket string, s lxdapi.Server) (int, error) {
	pid, err := sandbox.Listener(socket)
	if err == nil && pid == 1 {
		pid = s.PID
	}
	return pid, err
}

// oldest is the extension of the API without which a server knows none of our calls:
// LXD 3.19 brought it, and every Incus has it.
const oldest = "instances"

// tooOld says why a server cannot be used; empty: it can.
func tooOld(s lxdapi.Server) string {
	if s.Has(oldest) {
		return ""
	}
	return fmt.Sprintf("%s %s is too old: its API has no extension %s", s.Flavour, s.Version, oldest)
}

// cgroupOf is the version of cgroups that a process finds.
func cgroupOf(pid int) (string, error) {
	var st unix.Statfs_t
	at := fmt.Sprintf("/proc/%d/root/sys/fs/cgroup", pid)
	if err := unix.Statfs(at, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: at, Err: err}
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "v2", nil
	}
	return "v1", nil
}

// mapsIDs says why a daemon that is not ours gives containers other ids than
// scenarios ask for; nil: it gives those.
func (s *server) mapsIDs(name string) error {
	for _, list := range []string{"/etc/subuid", "/etc/subgid"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", s.pid, list))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(target.ErrBroken, err)
		}
		want := fmt.Sprintf("root:%d:%d", subids[0].Host, subids[0].Count)
		var roots []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "root:") {
				roots = append(roots, strings.TrimSpace(line))
			}
		}
		if !slices.Equal(roots, []string{want}) {
			return &target.CannotError{Target: name, Why: fmt.Sprintf("the daemon maps ids by %s, which has %q for root; scenarios ask for %s", list, roots, want),
				Hint: "use a daemon of our own: --lxd-socket " + Private}
		}
	}
	return nil
}

// leave removes all of ours from a daemon that stays.
func (s *server) leave() error {
	if s.Sandbox == nil {
		return nil
	}
	ours := func(name string) bool { return name == s.Prefix() || strings.HasPrefix(name, s.Prefix()+"-") }
	if err := s.clear(context.Background(), ours); err != nil {
		return fmt.Errorf("left in the daemon, with names that start with %s: %w", s.Prefix(), err)
	}
	return nil
}

// clear removes containers, images and storage pools by their names.
func (s *server) clear(ctx context.Context, which func(name string) bool) error {
	var errs []error
	for _, kind := range []struct {
		list   func(context.Context) ([]string, error)
		remove func(context.Context, string) error
	}{
		{s.api.Instances, s.removed},
		{s.api.Aliases, s.api.DeleteImage},
		{s.api.Pools, s.api.DeletePool},
	} {
		names, err := kind.list(ctx)
		errs = append(errs, err)
		for _, name := range names {
			if which(name) {
				errs = append(errs, kind.remove(ctx, name))
			}
		}
	}
	return errors.Join(errs...)
}
