package machine

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/live"
	"gpurig/fakehw/mntns"
)

// WithTree runs a command that finds the whole tree of h mounted on dir, and all
// else as it is, and waits for it. The mount is in the command's own namespace
// and nowhere else; who is not root is, as in Enter, root in a user namespace.
// Of Options, what is laid over the machine is not looked at.
//
// Errors are as Enter's.
func WithTree(ctx context.Context, h *live.Host, dir string, o Options) (Entered, error) {
	if !initialised.Load() {
		return Entered{}, &Error{Err: ErrNotInit}
	}
	o = withDefaults(o)
	p, err := begin(way{user: o.UserNamespace || !privileged(), tree: true}, o)
	if err != nil {
		return Entered{}, unable(err)
	}
	defer p.finish()
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	out, f, err := p.tree(ctx, h, dir, o)
	switch {
	case f != nil && f.Start != 0:
		return Entered{Exit: f.Start}, &Error{Err: fmt.Errorf("%w: %s", ErrStart, f.Text)}
	case f != nil:
		return Entered{}, &Error{Err: fmt.Errorf("%w: %s", ErrUnable, f.Text), Hint: f.Hint}
	case ctx.Err() != nil:
		return Entered{}, &Error{Err: context.Cause(ctx)}
	case err != nil:
		return Entered{}, &Error{Err: fmt.Errorf("%w: %w", ErrLost, err)}
	}
	return out, nil
}

// tree serves h and waits for the command's end.
func (p *process) tree(ctx context.Context, h *live.Host, dir string, o Options) (Entered, *failure, error) {
	fds, err := p.w.receiveFDs(1)
	if err != nil {
		return Entered{}, nil, err
	}
	if len(fds) == 0 {
		m, err := p.w.receive()
		return Entered{}, m.Failed, err
	}
	if _, err := fusefs.Serve(ctx, h.Tree(), fds[0], fusefs.Options{Lock: h.Locker(), Write: h.Write, Watch: h.WatchTree, OneOwner: p.user}); err != nil {
		return Entered{}, nil, err
	}
	s := &setup{Tree: dir, Command: o.Command, Env: o.Env}
	if s.Dir, err = os.Getwd(); err != nil {
		s.Dir = "/"
	}
	foreground, back := withTerminal(o)
	defer back()
	s.Terminal = foreground
	if err := p.w.send(message{Setup: s}); err != nil {
		return Entered{}, nil, err
	}
	plain := func(err error) (Entered, *failure, error) { return Entered{}, nil, err }
	return p.converse(ctx, &server{up: make(chan struct{}), done: make(chan struct{}, 1)}, o, plain)
}

// firstOfTree is the life of the process that mounts a tree and runs the command
// beside it. The result is its exit status.
func firstOfTree(parentNS string) int {
	c := newChild(false)
	fail := func(err error) int {
		_ = c.w.send(message{Failed: &failure{Text: err.Error()}})
		return 1
	}
	conn, mnt, err := c.treeMount(parentNS)
	if err != nil {
		_ = c.w.sendFDs()
		return fail(err)
	}
	if c.w.sendFDs(conn) != nil {
		return 1 // nobody listens
	}
	unix.Close(conn)
	m, err := c.w.receive()
	if err != nil || m.Setup == nil {
		return 1
	}
	if err := attach(mnt, m.Setup.Tree); err != nil {
		return fail(err)
	}
	unix.Close(mnt)
	return c.run(m.Setup)
}

// treeMount makes the mount, which is not attached yet, in a namespace that is
// proven to be ours (A41).
func (c *child) treeMount(parentNS string) (conn, mnt int, err error) {
	if err := mntns.Prove(parentNS); err != nil {
		return -1, -1, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return -1, -1, os.NewSyscallError("prctl", err) // orphans of the command are ours to end
	}
	return fusefs.Connect(fusefs.Options{}, true)
}
