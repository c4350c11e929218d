package hook

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

// maxMemory is what the worker can take before the kernel refuses it more.
const maxMemory = 256 << 20

// worker does the job in a process of its own and returns the exit code.
func worker(args []string, stdin io.Reader, stepsOut, errOut io.Writer) int {
	runtime.LockOSThread() // one thread does all, so that faults can be counted
	quiet := &limited{w: errOut, left: maxOutput}
	signal.Ignore(unix.SIGPIPE, unix.SIGXFSZ) // the calls tell us
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	env := takeEnvironment()
	err := settle()
	if err == nil {
		err = boundMemory()
	}
	var job Job
	if err == nil {
		job, err = parseJob(args, env, stdin)
	}
	var notes []string
	if err == nil {
		notes, err = Run(ctx, job, func(step string) { fmt.Fprintln(stepsOut, printable(step)) })
	}
	say(quiet, notes, err)
	return exitCode(err)
}

// boundMemory makes an image that is too much for us a failure of ours, not of
// the machine, and keeps what we read out of core files.
func boundMemory() error {
	for what, limit := range map[int]uint64{unix.RLIMIT_DATA: maxMemory, unix.RLIMIT_CORE: 0} {
		var now unix.Rlimit
		if err := unix.Getrlimit(what, &now); err != nil {
			return fmt.Errorf("getrlimit: %w", err)
		}
		limit = min(limit, now.Max)
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	return nil
}

// environment are the only variables that are ever read.
var environment = []string{"LXC_HOOK_TYPE", "LXC_ROOTFS_MOUNT", "LXC_ROOTFS_PATH", "LXC_PID"}

// takeEnvironment reads what we may read and clears the rest.
func takeEnvironment() map[string]string {
	env := map[string]string{}
	for _, name := range environment {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	os.Clearenv()
	return env
}
