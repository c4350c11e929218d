package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gpurig/fakehw/cachedir"
	"gpurig/runner/target"
)

// Program is main of the programs that are this command line.
func Program() {
	Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := Main(ctx, Stdio(), os.Args[1:])
	stop()
	os.Exit(code)
}

// Docker opens the target of that name, or docker-cdi. It is set in the program gpurig-docker
// alone: the library that it takes looks around for some milliseconds in every
// process that has it, which is as long as gpurig takes for most of what it does.
// Where it is not set, gpurig becomes that program.
var Docker func(cdi bool) (target.Target, error)

func openDocker(cdi bool) (target.Target, error) {
	if Docker != nil {
		return Docker(cdi)
	}
	p, err := cachedir.Beside("gpurig-docker")
	if errors.Is(err, os.ErrNotExist) {
		return nil, &target.CannotError{Target: "docker", Why: fmt.Sprintf("there is no gpurig-docker: %v", err), Hint: "make build puts all programs into one folder"}
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Exec(p, append([]string{p}, os.Args[1:]...), os.Environ())
	return nil, fmt.Errorf("%s: %w", p, err)
}
