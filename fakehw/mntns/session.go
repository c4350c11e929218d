package mntns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hidden is the argument that makes this program a child. It is no word that a
// command line would hold by chance.
const hidden = "--gpurig-mntns-child"

// Options adjust a Session. The zero value works.
type Options struct {
	// Env is the child's whole environment besides PATH; empty: nothing else.
	Env []string
	// UserNamespace takes the unprivileged way even where we are root.
	UserNamespace bool
	// Single ends the child after each request, while the caller goes on: for
	// programs that ask once. Close waits for it.
	Single bool
}

// A Session is one child process, started when first needed and again when it
// was lost. Its methods may be called from several goroutines; requests wait
// for each other. Use several sessions to work in parallel.
type Session struct {
	opts   Options
	turn   chan struct{} // holds one token: whose turn it is
	child  *child        // guarded by turn
	mu     sync.Mutex
	closed bool
	done   chan struct{}  // closed by Close
	ending sync.WaitGroup // children that end by themselves
}

// NewSession returns a session without a child.
func NewSession(opts Options) *Session {
	return &Session{opts: opts, turn: make(chan struct{}, 1), done: make(chan struct{})}
}

// Do has the child carry out one request and returns the reply. The error is an
// *Error: it wraps ErrRemote when Build or Run refused, ErrUnable when this
// machine cannot do it at all, ErrLost when the child died (the next Do starts
// another), and the context's cause when it ended first, which ends the child.
func (s *Session) Do(ctx context.Context, kind string, request []byte) ([]byte, error) {
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return nil, &Error{Kind: kind, Err: ErrClosed}
	case <-ctx.Done():
		return nil, &Error{Kind: kind, Err: context.Cause(ctx)}
	}
	defer func() { <-s.turn }()
	select {
	case <-s.done:
		return nil, &Error{Kind: kind, Err: ErrClosed}
	default:
	}
	if _, ok := handler(kind); !ok {
		return nil, &Error{Kind: kind, Err: ErrUnknownKind}
	}
	if s.child == nil {
		c, err := startChild(ctx, s.opts)
		if err != nil {
			return nil, err
		}
		s.child = c
	}
	f, err := s.child.ask(ctx, frame{word: kind, body: request})
	if err != nil {
		s.child.end()
		s.child = nil
		return nil, &Error{Kind: kind, Err: err}
	}
	if s.opts.Single {
		s.ending.Go(s.child.end)
		s.child = nil
	}
	if f.status != statusOK {
		return nil, &Error{Kind: kind, Err: remoteError{string(f.body)}, Hint: f.word}
	}
	return f.body, nil
}

// Close ends the child, waiting for the request under way, and everything it
// mounted with it. A second call does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.child != nil {
		s.child.end()
		s.child = nil
	}
	s.ending.Wait()
	return nil
}

// Once is a Session for a single request.
func Once(ctx context.Context, kind string, request []byte) ([]byte, error) {
	s := NewSession(Options{})
	defer s.Close()
	return s.Do(ctx, kind, request)
}

// A child is the running process.
type child struct {
	cmd    *exec.Cmd
	in     *os.File // requests
	out    *os.File // replies
	stderr *tail
	gone   chan struct{} // closed after Wait
}

func startChild(ctx context.Context, opts Options) (*child, error) {
	registry.Lock()
	ready := registry.ready
	registry.Unlock()
	if !ready {
		return nil, &Error{Err: ErrNotInit}
	}
	c, err := spawn(opts)
	if err != nil {
		return nil, unable(err)
	}
	f, err := c.await(ctx) // the child says that its namespace is ready
	switch {
	case err != nil:
		c.end()
		if errors.Is(err, ErrLost) {
			return nil, unable(err)
		}
		return nil, &Error{Err: err}
	case f.status == statusSetup:
		c.end()
		return nil, unable(remoteError{string(f.body)})
	}
	return c, nil
}

// spawn starts the process. It does not wait for it.
func spawn(opts Options) (*child, error) {
	way, err := chooseWay(opts)
	if err != nil {
		return nil, err
	}
	parent, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, fmt.Errorf("read our own mount namespace: %w", err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	c := &child{in: inW, out: outR, stderr: &tail{}, gone: make(chan struct{})}
	c.cmd = exec.Command("/proc/self/exe", hidden, parent)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = inR, outW, c.stderr
	c.cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, opts.Env...)
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		c.cmd.Env = append(c.cmd.Env, "GOCOVERDIR="+dir)
	}
	c.cmd.Dir = "/"
	c.cmd.WaitDelay = time.Second
	c.cmd.SysProcAttr = way.attr()

	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that
		// forked ends, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		inR.Close()
		outW.Close()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // how it ended shows in the pipe and in stderr
			close(c.gone)
		}
	}()
	if err := <-started; err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf("start a child in a %s: %w", way, err)
	}
	return c, nil
}

// ask sends a request and awaits the reply.
func (c *child) ask(ctx context.Context, f frame) (frame, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	defer stop()
	if err := writeFrame(c.in, f); err != nil {
		return frame{}, c.why(ctx, err)
	}
	return c.await(ctx)
}

func (c *child) await(ctx context.Context) (frame, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	defer stop()
	f, err := readFrame(c.out)
	if err != nil {
		return frame{}, c.why(ctx, err)
	}
	return f, nil
}

// why explains a broken pipe.
func (c *child) why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = c.cmd.Process.Kill()
	select {
	case <-c.gone:
	case <-time.After(2 * time.Second):
		return fmt.Errorf("%w: %w, and it does not end", ErrLost, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) {
		if line := c.stderr.first(); line != "" {
			return fmt.Errorf("%w: it wrote: %s", ErrLost, line)
		}
		return fmt.Errorf("%w: %v", ErrLost, c.cmd.ProcessState)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// end lets the child finish, by force if it does not.
func (c *child) end() {
	c.in.Close()
	c.out.Close()
	select {
	case <-c.gone:
		return
	case <-time.After(500 * time.Millisecond):
	}
	_ = c.cmd.Process.Kill()
	select {
	case <-c.gone:
	case <-time.After(5 * time.Second): // stuck in the kernel: leave it (F24)
	}
}

// A tail keeps the first 8 KiB of what a child writes to stderr.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 8<<10 - t.buf.Len(); room > 0 {
		t.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *tail) first() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(t.buf.String()), "\n")
	return strings.ToValidUTF8(line, "?")
}
