package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gpurig/runner/target"
)

// A Service is one life of a daemon, from its start to its end.
type Service struct {
	name  string
	logs  []string // files of what it says, as we see them: the first is of standard output and error
	cmd   *exec.Cmd
	ended chan struct{}
}

// Serve starts a daemon, called name in messages. It writes to the file name.said
// below the scratch directory, and, where it has a log of its own, to that.
func (w *Sandbox) Serve(name string, cmd *exec.Cmd, logs ...string) (*Service, error) {
	s := &Service{name: name, cmd: cmd, ended: make(chan struct{}), logs: []string{w.Outside(name + ".said")}}
	for _, l := range logs {
		s.logs = append(s.logs, w.Outside(l))
	}
	// A file, and no pipe of ours: what the daemon starts holds it longer.
	said, err := os.OpenFile(s.logs[0], os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		close(s.ended)
	}()
	return s, nil
}

// Ended is closed when the daemon has ended.
func (s *Service) Ended() <-chan struct{} { return s.ended }

// Over reports whether the daemon has ended.
func (s *Service) Over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// dying is how long a daemon that answers no more may take to be gone.
const dying = 2 * time.Second

// Why says how a daemon ended that gives no answer; nil: it runs.
func (s *Service) Why() error {
	select {
	case <-s.ended:
		return s.end()
	case <-time.After(dying):
		return nil
	}
}

// LastWords is the last that the daemon said.
func (s *Service) LastWords() string { return lastWords(s.lines()) }

func (s *Service) lines() []string {
	for _, l := range s.logs {
		if text, err := os.ReadFile(l); err == nil && len(strings.TrimSpace(string(text))) > 0 {
			return strings.Split(strings.TrimSpace(string(text)), "\n")
		}
	}
	return nil
}

func (s *Service) end() *target.EndedError {
	lines := s.lines()
	return &target.EndedError{Program: s.name, How: s.cmd.ProcessState.String(), Words: lastWords(lines), Log: evidence(lines)}
}

// fatal are the words that a program in Go ends with: its stack follows.
var fatal = []string{"panic: ", "fatal error: "}

// dies is where in what a program said it begins to die; -1: it does not tell.
func dies(lines []string) int {
	return slices.IndexFunc(lines, func(l string) bool {
		return slices.ContainsFunc(fatal, func(f string) bool { return strings.HasPrefix(l, f) })
	})
}

func lastWords(lines []string) string {
	switch at := dies(lines); {
	case at >= 0:
		return lines[at]
	case len(lines) > 0:
		return lines[len(lines)-1]
	}
	return ""
}

// kept is how many lines are evidence.
const kept = 12

func evidence(lines []string) []string {
	if at := dies(lines); at >= 0 {
		return lines[at:min(at+kept, len(lines))]
	}
	return lines[max(0, len(lines)-kept):]
}
