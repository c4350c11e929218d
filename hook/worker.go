package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxMemory is what a run can take before the kernel refuses it more; from
// softMemory on it collects garbage.
const (
	maxMemory  = 256 << 20
	softMemory = 128 << 20
)

// worker does the job in a process of its own and returns the exit code.
func worker(args []string, stdin io.Reader, stepsOut, errOut io.Writer) int {
	quiet := &limited{w: errOut, left: maxOutput}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	job, err := parseJob(args, takeEnvironment(), stdin)
	if err != nil {
		say(quiet, nil, err)
		return exitCode(err)
	}
	return perform(ctx, job, quiet, func(step string) { fmt.Fprintln(stepsOut, printable(step)) })
}

// alone does the job in this very process, on file systems that answer: there is
// nothing then that its own clock could not end.
func alone(job Job, limits Limits, out io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var last atomic.Value
	last.Store("none")
	end := func(why string) {
		cancel(errors.New(why))
		time.AfterFunc(limits.Grace, func() {
			say(out, nil, fmt.Errorf("%s; the last step was: %s", why, last.Load()))
			os.Exit(ExitFailed)
		})
	}
	defer time.AfterFunc(limits.Run, func() { end(fmt.Sprintf("not done after %s", limits.Run)) }).Stop()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() { end("ended by " + unix.SignalName((<-signals).(syscall.Signal))) }()
	return perform(ctx, job, out, func(step string) { last.Store(step) })
}

// perform settles this process, does the job and says what there is to say.
func perform(ctx context.Context, job Job, out io.Writer, report func(step string)) int {
	runtime.LockOSThread() // one thread does all, so that faults can be counted
	debug.SetGCPercent(-1) // a run ends before its garbage matters, or collects from softMemory on
	debug.SetMemoryLimit(softMemory)
	signal.Ignore(unix.SIGPIPE, unix.SIGXFSZ) // the calls tell us
	err := settle()
	if err == nil {
		err = boundMemory()
	}
	var notes []string
	if err == nil {
		notes, err = run(ctx, job, report, confine)
	}
	say(out, notes, err)
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
var environment = []string{"LXC_HOOK_TYPE", "LXC_NAME", "LXC_ROOTFS_MOUNT", "LXC_ROOTFS_PATH", "LXC_PID"}

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
