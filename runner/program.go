package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// programTime bounds the life of a program on the host, programOutput, in bytes, what
// is kept of what it says.
const (
	programTime   = time.Minute
	programOutput = 64 << 10
)

// An exitError is how a program ended that ran on a host.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// program runs a program on the host or in a container, and judges how it ends.
func (s *session) program(ctx context.Context, r *scenarios.Run) error {
	if s.target.Capabilities().Simulated {
		s.notes = append(s.notes, fmt.Sprintf("step %s: not applicable: programs are not simulated", s.step))
		return nil
	}
	ran, err := s.runsIn(ctx, r)
	if err != nil {
		if cannot, ok := errors.AsType[*target.CannotError](err); ok {
			return &skipError{cannot.Why}
		}
		return err
	}
	found := func(what, want, got string) {
		s.found = append(s.found, reports.Finding{Station: string(verdict.Inside), Step: s.step, Container: r.In, What: what, Want: want, Got: got})
	}
	name := strings.Join(r.Program, " ")
	said := strings.TrimSpace(ran.Output)
	if ran.Code != r.Exit {
		found(name, fmt.Sprintf("exit code %d", r.Exit), fmt.Sprintf("%d: %s", ran.Code, said))
		return nil
	}
	for _, text := range r.Says {
		if !strings.Contains(ran.Output, text) {
			found("output of "+name, fmt.Sprintf("%q", text), fmt.Sprintf("%q", said))
		}
	}
	for _, text := range r.Omits {
		if strings.Contains(ran.Output, text) {
			found("output of "+name, fmt.Sprintf("nothing of %q", text), fmt.Sprintf("%q", said))
		}
	}
	return nil
}

// runsIn runs the program where it is to run.
func (s *session) runsIn(ctx context.Context, r *scenarios.Run) (observe.Ran, error) {
	if r.In == "" {
		return s.onHost(ctx, r.Program)
	}
	c := s.ctrs[r.In]
	if !c.running() {
		return observe.Ran{}, s.notRunning(c)
	}
	s.unjudged(c)
	real, ok := c.real.(target.Runner)
	if !ok {
		return observe.Ran{}, &target.CannotError{Target: s.target.Name(), Why: fmt.Sprintf("no program can be run in a container of %s", s.target.Name())}
	}
	p := observe.Program{Command: r.Program}
	if r.Nested {
		p.Command = append([]string{observe.OwnDir + "/probe", "nested"}, r.Program...)
	}
	if s.host.state.real == nil {
		var err error
		if p.State, err = s.nvmlState(); err != nil {
			return observe.Ran{}, err
		}
	}
	return real.Run(ctx, p)
}

// onHost runs a program on the host as it is now: the machine at hand, or a fake one
// that nobody else is on, whose changes end with the program.
func (s *session) onHost(ctx context.Context, command []string) (observe.Ran, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, programTime, fmt.Errorf("%s has not ended after %s", command[0], programTime))
	defer cancel()
	if s.host.state.real != nil {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		return ended(ctx, out, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return observe.Ran{}, err
	}
	defer r.Close()
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(r) // what came until then
		said <- text
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		w.Close()
		return observe.Ran{}, err
	}
	defer null.Close()
	err = s.host.state.enter(ctx, command, null, w, w)
	w.Close()
	return ended(ctx, <-said, err)
}

func ended(ctx context.Context, out []byte, err error) (observe.Ran, error) {
	ran := observe.Ran{Output: string(out[:min(len(out), programOutput)])}
	code, coded := errors.AsType[exitError](err)
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return ran, fmt.Errorf("%w: %w", target.ErrBroken, context.Cause(ctx))
	case coded:
		ran.Code = int(code)
	case exited:
		ran.Code = exit.ExitCode()
	case err != nil:
		return ran, fmt.Errorf("%w: %w", target.ErrBroken, err)
	}
	return ran, nil
}
