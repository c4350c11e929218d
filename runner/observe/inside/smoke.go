package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
	"gpurig/runner/smoke"
)

// smokeTime is when we give up a workload that takes milliseconds.
const smokeTime = 15 * time.Second

// stateEnv is where the fake host's libraries look for the name of its state's file.
const stateEnv = "GPURIG_NVML_STATE"

var _ observe.Worker = View{}

// Smoke is part of observe.Worker: it runs the program that the harness put beside
// the probe, by the container's own loader. The fake host's state is a file that the
// program inherits, so that nothing is added to the container's file system.
func (View) Smoke(w observe.Work, at observe.Workplace) (smoke.Result, error) {
	program := observe.OwnDir + "/" + smoke.Program
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return smoke.Result{}, fmt.Errorf("%s is not beside the probe: make build puts it there", smoke.Program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), smokeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, at.Loader, program)
	cmd.WaitDelay = time.Second
	cmd.Env = os.Environ()
	if w.State != "" {
		state, err := memory("nvml.state", w.State)
		if err != nil {
			return smoke.Result{}, err
		}
		defer state.Close()
		cmd.ExtraFiles = []*os.File{state} // descriptor 3 there
		cmd.Env = append(cmd.Env, stateEnv+"=/proc/self/fd/3")
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// The exit code says no more than the answer, and the first process of a container
	// may have reaped the child before we ask for it.
	err := cmd.Run()
	var r smoke.Result
	if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil {
		return r, fmt.Errorf("%s: %v, and no answer: %s", smoke.Program, err, strings.TrimSpace(errs.String()))
	}
	return r, nil
}

// memory returns a file without a name.
func memory(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
