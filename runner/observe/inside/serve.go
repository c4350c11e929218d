package inside

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
)

// SocketName is the name of the harness's listening socket within the folder
// that Init is given.
const SocketName = "s"

// An Answer is what the probe says to one request, as one line of JSON.
type Answer struct {
	Ran         *observe.Ran        `json:"ran,omitempty"` // of an Order that runs a program
	Observation observe.Observation `json:"observation"`
	Error       string              `json:"error,omitempty"` // the request could not be read
}

// ErrNotContainer is why Guard refuses.
var ErrNotContainer = errors.New("not in a container")

// Guard refuses to look at a machine that is no container: opening every device
// node of a real machine may start its watchdog. Container managers say
// "container=" in the environment of the first process
// (https://systemd.io/CONTAINER_INTERFACE), lxc-execute in own, the caller's.
func Guard(v observe.View, own []string) error {
	env, err := v.Environ()
	if err != nil {
		return err
	}
	for _, e := range append(env, own...) {
		if name, value, _ := strings.Cut(e, "="); name == "container" && value != "" {
			return nil
		}
	}
	return fmt.Errorf("%w: the first process has no variable \"container\", and neither have we", ErrNotContainer)
}

// Serve answers requests, one JSON text each, until in ends.
func Serve(v observe.View, in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var o Order
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			// What follows a broken text cannot be told apart from it.
			_ = enc.Encode(Answer{Error: fmt.Sprintf("request: %v", err)})
			return fmt.Errorf("request: %w", err)
		}
		var a Answer
		if o.Run != nil {
			a = runProgram(*o.Run)
		} else {
			a.Observation = observe.Look(v, o.Request)
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// Init is the first process of a container. It connects to the socket in dir,
// on which the harness listens outside, and answers there. It ends when told to
// by a signal (liblxc sends SIGPWR to stop a container, then SIGTERM is what
// people try) or when the harness hangs up, so that a container never outlives
// its harness. Until then it reaps the processes that are left to it.
func Init(v observe.View, dir string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGPWR, unix.SIGTERM, unix.SIGINT)
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	go reap(child)

	conn, err := net.Dial("unix", filepath.Join(dir, SocketName))
	if err != nil {
		return fmt.Errorf("reach the harness: %w", err)
	}
	defer conn.Close()
	served := make(chan error, 1)
	go func() { served <- Serve(v, conn, conn) }()
	select {
	case <-stop:
		return nil
	case err := <-served:
		return err
	}
}

// reap waits for orphans: a container's first process inherits them all.
func reap(child <-chan os.Signal) {
	for range child {
		children.Lock()
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
		children.Unlock()
	}
}
