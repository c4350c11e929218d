package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/vfiouser"
	"gpurig/runner/observe"
	"gpurig/runner/observe/guest"
)

// A Guest is a virtual machine that has booted. It is used by one goroutine at a time.
type Guest struct {
	dir     string
	cmd     *exec.Cmd
	ended   chan struct{}
	monitor *qmp
	serial  net.Conn
	lines   *bufio.Reader
	errs    strings.Builder // of QEMU

	mu     sync.Mutex
	served map[string]*served // by id of the device
	said   []error            // by those that serve
}

// A served is a function that a process of ours is behind.
type served struct {
	*vfiouser.Function
	device   device
	listener *net.UnixListener
	done     chan struct{}
}

// bounded bounds a boot, and everything else that a guest does. An emulated one boots in
// 5 s where it has a processor to itself.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	const patience = 5 * time.Minute
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("the guest does not answer within %s", patience))
}

// memory is what a guest has, in MiB: a kernel and one program need no more.
const memory = "256"

// Boot starts a machine with the root ports and functions that the arguments of
// core/vfio name, and waits until its first process answers. The functions are those of
// from, in the order of the arguments. Nil arguments make a machine without any.
func Boot(ctx context.Context, p Programs, arguments []string, from host.Root, functions []pci.BDF) (*Guest, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	ports, passed, err := devices(arguments)
	if err == nil && len(passed) != len(functions) {
		err = fmt.Errorf("%d functions, and %d in the arguments", len(functions), len(passed))
	}
	if err != nil {
		return nil, err
	}
	g := &Guest{ended: make(chan struct{}), served: map[string]*served{}}
	if g.dir, err = os.MkdirTemp("", "gpurig-vm-"); err != nil {
		return nil, err
	}
	args := []string{"-nodefaults", "-no-user-config", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", memory, "-display", "none", "-no-reboot",
		// Ports tell of hot-plug on their own, as large BARs need it.
		"-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
		"-kernel", p.Kernel, "-initrd", g.dir + "/initrd", "-append", "console=ttyS0 quiet panic=-1 -- machine",
		"-chardev", "file,id=console,path=" + g.dir + "/console", "-serial", "chardev:console",
		"-chardev", "socket,id=guest,fd=3", "-serial", "chardev:guest",
		"-chardev", "socket,id=qmp,fd=4", "-mon", "chardev=qmp,mode=control"}
	for i, d := range passed {
		if passed[i], err = g.serve(d, from, functions[i]); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	for _, d := range passed {
		ports = append(ports, d.text())
	}
	for _, d := range ports {
		args = append(args, "-device", d)
	}
	if err := g.start(ctx, p, args); err != nil {
		return nil, errors.Join(g.explained(err), g.Close())
	}
	return g, nil
}

// start runs QEMU and waits for the guest.
func (g *Guest) start(ctx context.Context, p Programs, args []string) error {
	first, err := initrd(p.Probe)
	if err != nil {
		return err
	}
	if err := os.WriteFile(g.dir+"/initrd", first, 0o600); err != nil {
		return err
	}
	serial, theirSerial, err := pair("guest")
	if err != nil {
		return err
	}
	defer theirSerial.Close()
	g.serial, g.lines = serial, bufio.NewReader(serial)
	control, theirQMP, err := pair("qmp")
	if err != nil {
		return err
	}
	defer theirQMP.Close()
	g.cmd = exec.Command(p.QEMU[0], append(p.QEMU[1:len(p.QEMU):len(p.QEMU)], args...)...)
	g.cmd.ExtraFiles = []*os.File{theirSerial, theirQMP}
	g.cmd.Stderr = &g.errs
	g.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // it is this thread whose end QEMU does not survive
		defer runtime.UnlockOSThread()
		err := g.cmd.Start()
		started <- err
		if err == nil {
			_ = g.cmd.Wait() // how it ended shows in errs
			close(g.ended)
		}
	}()
	if err := <-started; err != nil {
		g.cmd = nil
		return errors.Join(err, control.Close())
	}
	theirSerial.Close()
	theirQMP.Close()
	g.monitor = newQMP(control)
	if err := g.monitor.greet(ctx); err != nil {
		return err
	}
	_, err = g.answer(ctx)
	return err
}

// pair makes a connection whose other end a child gets.
func pair(name string) (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	defer mine.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// serve has a process of ours behind a device.
func (g *Guest) serve(d device, from host.Root, b pci.BDF) (device, error) {
	id, _ := d["id"].(string)
	if id == "" || g.served[id] != nil {
		return nil, fmt.Errorf("device %q: want an id of its own", id)
	}
	f, err := vfiouser.Open(from, b)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(g.dir, id)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d["socket"] = map[string]string{"type": "unix", "path": path}
	s := &served{Function: f, device: d, listener: l, done: make(chan struct{})}
	g.served[id] = s
	go func() {
		defer close(s.done)
		if err := f.Serve(l, g.heard); err != nil {
			g.heard(err)
		}
	}()
	return d, nil
}

// heard keeps what those that serve have to say.
func (g *Guest) heard(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = append(g.said, err)
}

// end stops serving.
func (s *served) end() error {
	err := errors.Join(s.listener.Close(), s.Close())
	<-s.done
	return err
}

// answer reads a line of the guest.
func (g *Guest) answer(ctx context.Context) (guest.Answer, error) {
	defer until(ctx, g.serial)()
	var a guest.Answer
	line, err := g.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return a, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return a, errors.New("the machine has ended")
	case err == nil && a.Error != "":
		err = errors.New(a.Error)
	}
	return a, err
}

// Look asks the guest what it sees.
func (g *Guest) Look(ctx context.Context) ([]observe.GuestFunction, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := fmt.Fprintln(g.serial, guest.Look); err != nil {
		return nil, g.explained(err)
	}
	a, err := g.answer(ctx)
	g.mu.Lock()
	err = errors.Join(append(g.said, err)...)
	g.mu.Unlock()
	if err != nil {
		return nil, g.explained(err)
	}
	return a.Functions, nil
}

// Until looks again until what the guest sees is as wanted, or ctx ends: what it sees
// last is returned with the error.
func (g *Guest) Until(ctx context.Context, wanted func([]observe.GuestFunction) bool) ([]observe.GuestFunction, error) {
	for {
		seen, err := g.Look(context.WithoutCancel(ctx)) // half an answer is none to go on from
		if err != nil || wanted(seen) {
			return seen, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return seen, context.Cause(ctx)
		}
	}
}

// Plug plugs the devices of a plan's arguments into the running machine, whose root ports
// they name. A port tells its guest when it gets function 0, so that one is last.
func (g *Guest) Plug(ctx context.Context, arguments []string, from host.Root, functions []pci.BDF) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, passed, err := devices(arguments)
	if err == nil && len(passed) != len(functions) {
		err = fmt.Errorf("%d functions, and %d in the arguments", len(functions), len(passed))
	}
	if err != nil {
		return err
	}
	for i := range passed {
		i = len(passed) - 1 - i
		d, err := g.serve(passed[i], from, functions[i])
		if err != nil {
			return err
		}
		if err := g.monitor.execute(ctx, "device_add", d); err != nil {
			return g.explained(err)
		}
	}
	return nil
}

// Unplug asks the guest to let the device with this id go, as a person who presses the
// button of its slot, and waits until it has. All functions of its slot go with it.
// QEMU 11.1 does not survive it if one of them has MSI-X.
func (g *Guest) Unplug(ctx context.Context, id string) error {
	s := g.served[id]
	if s == nil {
		return fmt.Errorf("no device %q", id)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := g.monitor.execute(ctx, "device_del", map[string]string{"id": id}); err != nil {
		return g.explained(err)
	}
	var errs []error
	for other, o := range g.served {
		if o.device["bus"] != s.device["bus"] {
			continue
		}
		if err := g.monitor.await(ctx, "DEVICE_DELETED", other); err != nil {
			return errors.Join(append(errs, g.explained(err))...)
		}
		errs = append(errs, o.end())
		delete(g.served, other)
	}
	return errors.Join(errs...)
}

// Lose has the device with this id fall off the bus.
func (g *Guest) Lose(id string) error {
	s := g.served[id]
	if s == nil {
		return fmt.Errorf("no device %q", id)
	}
	s.Lose()
	return nil
}

// explained adds what QEMU and the guest's console said last.
func (g *Guest) explained(err error) error {
	console, _ := os.ReadFile(g.dir + "/console")
	select {
	case <-g.ended: // then nobody writes to errs
		err = fmt.Errorf("%w: %s; %s", err, g.cmd.ProcessState, strings.TrimSpace(g.errs.String()))
	case <-time.After(time.Second): // its connections end before it does
	}
	if n := len(console); n > 0 {
		err = fmt.Errorf("%w; the console's end: %s", err, strings.TrimSpace(string(console[max(0, n-500):])))
	}
	return err
}

// Close ends the machine, as by power loss, and everything of it.
func (g *Guest) Close() error {
	var errs []error
	if g.cmd != nil {
		g.cmd.Process.Kill()
		<-g.ended
	}
	if g.monitor != nil {
		errs = append(errs, g.monitor.conn.Close())
	}
	if g.serial != nil {
		errs = append(errs, g.serial.Close())
	}
	for id, s := range g.served {
		errs = append(errs, s.end())
		delete(g.served, id)
	}
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}
