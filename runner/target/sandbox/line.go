package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
	"gpurig/runner/observe/inside"
	"gpurig/runner/smoke"
	"gpurig/runner/target"
)

// How long we wait for what normally takes milliseconds, before we call it
// broken.
const (
	startTime = 30 * time.Second
	stopTime  = 20 * time.Second
	lookTime  = 20 * time.Second
)

// ErrEnded says that what should have started a container ended instead.
var ErrEnded = errors.New("it ended instead of the container's start")

// ErrStillRunning says that a program did not end after its container was told to.
var ErrStillRunning = errors.New("still running")

// A Line leads to the probe, the first process of a container.
type Line struct {
	conn *net.UnixConn
	dec  *json.Decoder
	PID  int // of the first process, as we see it
}

// A Run is one life of a container: the program that started it, which lives as
// long as it does, and the line to the probe.
type Run struct {
	Line
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan struct{} // closed after cmd was waited for
	err    error         // of that; read it after ended
}

// Listen makes the socket that the probe calls, in dir below the scratch
// directory, beside the probe and the smoke workload. It is the only folder of ours that the container
// sees.
func (w *Sandbox) Listen(dir string) (*net.UnixListener, error) {
	own := w.Outside(dir)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, err
	}
	for name, from := range map[string]string{"probe": ProbePath, smoke.Program: SmokePath} {
		to := filepath.Join(own, name)
		if exists(to) || !exists(w.Outside(from)) {
			continue
		}
		if err := os.Link(w.Outside(from), to); err != nil {
			return nil, err
		}
	}
	at := filepath.Join(own, inside.SocketName)
	if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The container's root may be anybody to the machine.
	return l, os.Chmod(at, 0o666)
}

// Launch runs cmd, which starts a container, and waits for the probe's call on
// l. The error is ErrEnded when cmd ended before, with what it said in Output,
// or target.ErrBroken. cmd is not to be bound to a context: a container outlives
// the call that starts it.
func Launch(ctx context.Context, cmd *exec.Cmd, l *net.UnixListener) (*Run, error) {
	r := &Run{cmd: cmd, output: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.output, r.output
	cmd.WaitDelay = time.Second // a process of the container may hold the pipe a little longer
	err := cmd.Start()
	if err != nil {
		return nil, errors.Join(target.ErrBroken, err)
	}
	go func() {
		r.err = cmd.Wait()
		close(r.ended)
	}()
	if r.Line, err = Accept(ctx, l, r.ended); err != nil && !errors.Is(err, ErrEnded) {
		r.Kill()
	}
	return r, err
}

// Accept waits for the probe's call on l. The error is ErrEnded when ended is
// closed before, or target.ErrBroken.
func Accept(ctx context.Context, l *net.UnixListener, ended <-chan struct{}) (Line, error) {
	type call struct {
		conn *net.UnixConn
		err  error
	}
	calls := make(chan call, 1)
	go func() {
		conn, err := l.AcceptUnix()
		calls <- call{conn, err}
	}()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case got := <-calls:
		if got.err != nil {
			return Line{}, errors.Join(target.ErrBroken, got.err)
		}
		line := Line{conn: got.conn, dec: json.NewDecoder(got.conn)}
		return line, line.peer()
	case <-ended:
		return Line{}, ErrEnded
	case <-ctx.Done():
		return Line{}, errors.Join(target.ErrBroken, context.Cause(ctx))
	case <-timer.C:
		return Line{}, fmt.Errorf("no answer from the container after %s: %w", startTime, target.ErrBroken)
	}
}

// peer learns the process id of the container's first process.
func (l *Line) peer() error {
	pid, err := peer(l.conn)
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	l.PID = pid
	return nil
}

// Lost says how a run came to its end by itself: its program or the container's first
// process was killed. Nil: both are there.
func (r *Run) Lost() error {
	select {
	case <-r.ended:
		lines := strings.Split(strings.TrimSpace(r.Output()), "\n")
		return &target.EndedError{Program: programOf(r.cmd), How: howEnded(r.err), Words: lines[len(lines)-1]}
	default:
	}
	return r.Line.Lost()
}

// Lost says that the container's first process was killed; nil: it is there.
func (l *Line) Lost() error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.PID))
	_, state, _ := bytes.Cut(stat, []byte(") ")) // a zombie's parent is about to see it
	if err != nil || bytes.HasPrefix(state, []byte("Z")) || bytes.HasPrefix(state, []byte("X")) {
		return &target.EndedError{Program: "the container's first process", How: "killed"}
	}
	return nil
}

// Judged is an error of something that was done to a running container: where that ended
// by itself meanwhile, which lost says, the error is of that, and target.ErrBroken.
func Judged(err error, lost func() error) error {
	if err == nil {
		return nil
	}
	for range 50 { // its end shows a moment after what follows from it
		if ended := lost(); ended != nil {
			return errors.Join(ended, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// Killed says that the program was killed, or the container's first process, whose status
// programs hand on, after they have ended; nil: they came to their own end, whatever that
// was.
func (r *Run) Killed() error {
	if <-r.ended; !killed(r.err) {
		return nil
	}
	return r.Lost()
}

// Died is Killed of a start: a program that ended well, and before the container's first
// process called, is one whose container was killed. lxc-start says nothing of that.
func (r *Run) Died() error {
	if <-r.ended; r.err == nil {
		return &target.EndedError{Program: "the container's first process", How: "killed"}
	}
	return r.Killed()
}

// killed says that somebody killed the process that err is the end of.
func killed(err error) bool {
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || status.ExitStatus() == 128+int(unix.SIGKILL))
}

func howEnded(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// programOf names what a command runs, which may be in a namespace (Command).
func programOf(cmd *exec.Cmd) string {
	if filepath.Base(cmd.Args[0]) == "nsenter" && len(cmd.Args) > 2 {
		return filepath.Base(cmd.Args[2])
	}
	return filepath.Base(cmd.Args[0])
}

// Output is what the program has said, standard output and error. It is to be
// read after the program has ended.
func (r *Run) Output() string { return r.output.String() }

// Kill ends the program at once, and no hook runs. The container is not ended by
// that: see KillAll.
func (r *Run) Kill() {
	_ = r.cmd.Process.Kill() // an error means that it has ended
	<-r.ended
}

// KillAll is Kill, and kills the container's first process too, before the
// program's end is waited for: the container may hold the program's streams.
func (r *Run) KillAll() error {
	defer r.Close()
	_ = r.cmd.Process.Kill()
	err := error(nil)
	if r.PID != 0 {
		err = unix.Kill(r.PID, unix.SIGKILL)
	}
	<-r.ended
	if err == unix.ESRCH {
		return nil
	}
	return err
}

// Close hangs up; the probe ends then.
func (l *Line) Close() {
	if l.conn != nil {
		l.conn.Close()
	}
}

// Stop sends a signal to the container's first process and waits for the
// program's end. said is the program's own complaint; err is target.ErrBroken.
func (r *Run) Stop(sig unix.Signal) (said, err error) {
	defer r.Close()
	if err := unix.Kill(r.PID, sig); err != nil && err != unix.ESRCH {
		r.Kill()
		return nil, errors.Join(target.ErrBroken, err)
	}
	select {
	case <-r.ended:
		return r.err, nil
	case <-time.After(stopTime):
		r.Kill()
		return nil, fmt.Errorf("%w after %s: %w", ErrStillRunning, stopTime, target.ErrBroken)
	}
}

// Look has the probe make an observation.
func (l *Line) Look(req observe.Request) (observe.Observation, error) {
	a, err := l.ask(inside.Order{Request: req})
	return a.Observation, err
}

// RunProgram has the probe run a program of the container to its end.
func (l *Line) RunProgram(p observe.Program) (observe.Ran, error) {
	a, err := l.ask(inside.Order{Run: &p})
	if err == nil && a.Ran == nil {
		err = errors.New("the probe ran nothing")
	}
	if err != nil {
		return observe.Ran{}, fmt.Errorf("run %s: %w", p.Command[0], errors.Join(target.ErrBroken, err))
	}
	return *a.Ran, nil
}

func (l *Line) ask(o inside.Order) (a inside.Answer, err error) {
	if err := l.conn.SetDeadline(time.Now().Add(lookTime)); err != nil {
		return a, err
	}
	if err := json.NewEncoder(l.conn).Encode(o); err != nil {
		return a, err
	}
	if err := l.dec.Decode(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}
