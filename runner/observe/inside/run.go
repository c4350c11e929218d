package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"gpurig/runner/observe"
)

// An Order is what the probe is asked: to look, or to run a program and not to look.
type Order struct {
	observe.Request
	Run *observe.Program `json:"run,omitempty"`
}

// runTime bounds the life of a program that is run; outputMax, in bytes, what is kept
// of what it says.
const (
	runTime   = 15 * time.Second
	outputMax = 64 << 10
)

// children is held while a program of ours runs: the first process of a container reaps
// all that ends, and with it the exit status that we ask for.
var children sync.Mutex

// runProgram runs a program as we are, in the environment of every container.
func runProgram(p observe.Program) Answer {
	command := p.Command
	children.Lock()
	defer children.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if p.State != "" {
		state, err := memory("nvml.state", p.State)
		if err != nil {
			return Answer{Error: err.Error()}
		}
		defer state.Close()
		cmd.ExtraFiles, cmd.Env = []*os.File{state}, append(cmd.Env, stateEnv+"=/proc/self/fd/3", "GPURIG_DEV_ROOT=/") // whose nodes are looked at
	}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	ran := observe.Ran{Output: string(out.Bytes()[:min(out.Len(), outputMax)])}
	if ctx.Err() != nil {
		return Answer{Error: fmt.Sprintf("%s has not ended after %s", command[0], runTime)}
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
	case exited:
		ran.Code = exit.ExitCode()
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			ran.Code = 128 + int(st.Signal())
		}
	default:
		ran.Code, ran.Output = 127, err.Error()
	}
	return Answer{Ran: &ran}
}
