package lxd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// Where things are: liblxc's locks, and, below the scratch directory, the
// daemon's state and log.
const (
	runtimeDir = "/run/lxc"
	stateDir   = "lxd"
	logFile    = "lxd.log" // of its own
	socketName = stateDir + "/unix.socket"
)

// subids are what the daemon may give to containers: it gives all of it to each.
var subids = []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}

// startTime is how long a daemon may take to answer. It takes a second.
const startTime = 60 * time.Second

// A daemon is a private daemon, in a process namespace of its own whose first
// process is ours: the daemon can be restarted without its containers.
type daemon struct {
	sandbox *sandbox.Sandbox
	flavour lxdapi.Flavour
	program string
	unshare string // of util-linux
	pidns   *sandbox.PIDNS
	life    *sandbox.Service // nil: never started
}

// newDaemon sets up the namespaces, and starts no daemon yet.
func newDaemon(w *sandbox.Sandbox, f lxdapi.Flavour, p programs) (*daemon, error) {
	d := &daemon{sandbox: w, flavour: f, program: p.daemon, unshare: p.unshare}
	for _, dir := range []string{stateDir, "empty"} {
		if err := os.Mkdir(w.Outside(dir), 0o711); err != nil {
			return nil, err
		}
	}
	return d, d.boot()
}

// boot makes the namespaces.
func (d *daemon) boot() (err error) {
	d.pidns, err = d.sandbox.NewPIDNS(d.unshare, "root", subids)
	return err
}

// command returns a program to be run in the daemon's namespaces.
func (d *daemon) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := d.pidns.Command(ctx, program, args...)
	cmd.Env = append(cmd.Env,
		d.flavour.DirVariable()+"="+d.sandbox.Inside(stateDir),
		// No further configuration of the machine, such as LXCFS's.
		strings.ToUpper(string(d.flavour))+"_LXC_TEMPLATE_CONFIG="+d.sandbox.Inside("empty"))
	return cmd
}

// start starts the daemon and waits until it answers.
func (d *daemon) start(ctx context.Context) (*lxdapi.Client, error) {
	life, err := d.sandbox.Serve(string(d.flavour), d.command(context.Background(), d.program, "--logfile", d.sandbox.Inside(logFile)), logFile)
	if err != nil {
		return nil, err
	}
	d.life = life
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	for {
		api, err := lxdapi.Dial(ctx, d.sandbox.Outside(socketName))
		if err == nil {
			api.Explain(life.Why)
			return api, d.ready(ctx, api)
		}
		if !errors.Is(err, lxdapi.ErrConnection) {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-life.Ended():
			return nil, fmt.Errorf("%s ended: %s", d.flavour, life.LastWords())
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit.C:
			return nil, fmt.Errorf("%s does not answer after %s: %s (%w)", d.flavour, startTime, life.LastWords(), target.ErrBroken)
		}
	}
}

// ready waits until the daemon has done what it does at its start: before, it
// answers, and refuses some requests.
func (d *daemon) ready(ctx context.Context, api *lxdapi.Client) error {
	out, err := d.command(ctx, d.program, "waitready", "--timeout=60").CombinedOutput()
	if err != nil {
		api.Close()
		return fmt.Errorf("%s waitready: %s (%w)", d.flavour, strings.TrimSpace(string(out)), err)
	}
	return nil
}

// stop ends the daemon with a signal; containers stay. SIGTERM is a restart in
// good order, SIGKILL is the daemon's death.
func (d *daemon) stop(sig unix.Signal) error {
	pid, err := sandbox.Listener(d.sandbox.Outside(socketName))
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, sig); err != nil {
		return err
	}
	select {
	case <-d.life.Ended():
		return nil
	case <-time.After(startTime):
		return fmt.Errorf("%s still runs %s after signal %d", d.flavour, startTime, sig)
	}
}

// close ends every process of the namespace.
func (d *daemon) close() error {
	if d.pidns == nil { // a reboot failed
		return nil
	}
	err := d.pidns.Close()
	if d.life != nil {
		<-d.life.Ended()
	}
	return err
}
