package ctlsocket_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/ctlsocket"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/fakehw/profiles"
)

func host(t *testing.T) *live.Host {
	t.Helper()
	p, err := profiles.Load("t4-server")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	h, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// nobody is a user that no other test is.
func nobody() string { return "test-" + rand.Text() }

// named listens as a machine of the user would that has this name.
func named(t *testing.T, user, name string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@gpurig/machine/" + user + "/" + name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func list(t *testing.T, texts ...string) fault.List {
	t.Helper()
	l, err := fault.ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A machine is found by its host or its process, broken and healed while it
// runs, and gone when it stops.
func TestReach(t *testing.T) {
	ctx, user, h := context.Background(), nobody(), host(t)
	stop, err := ctlsocket.Serve(user, "t4-server", h)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t4-server", strconv.Itoa(os.Getpid())} {
		if m, err := ctlsocket.Find(ctx, user, name); err != nil || m.Host != "t4-server" || m.PID != os.Getpid() {
			t.Errorf("Find(%s) = %+v, %v", name, m, err)
		}
	}
	if _, err := ctlsocket.Find(ctx, user, "dgx-a100"); !errors.Is(err, ctlsocket.ErrNone) {
		t.Errorf("Find of another host = %v", err)
	}
	sound := h.Tree().Sum()
	ask := func(r ctlsocket.Request) (string, error) {
		m, err := ctlsocket.Find(ctx, user, "t4-server")
		if err == nil {
			m, err = ctlsocket.Ask(ctx, m, r)
		}
		return strings.Join(m.Faults.Texts(), " "), err
	}
	if got, err := ask(ctlsocket.Request{Add: list(t, "no-uvm", "off-bus:0")}); err != nil || got != "no-uvm off-bus:0" {
		t.Errorf("added: %q, %v", got, err)
	}
	if got, err := ask(ctlsocket.Request{Heal: list(t, "no-uvm"), Add: list(t, "no-persistenced")}); err != nil || got != "no-persistenced off-bus:0" {
		t.Errorf("healed one, added one: %q, %v", got, err)
	}
	var no *ctlsocket.Refusal
	if got, err := ask(ctlsocket.Request{Heal: list(t, "off-bus:0"), Add: list(t, "off-bus:7")}); !errors.As(err, &no) || no.Hint == "" || got != "no-persistenced off-bus:0" {
		t.Errorf("a fault that cannot be: %q, %v; the machine must stay as it was", got, err)
	}
	if got, err := ask(ctlsocket.Request{Heal: h.Faults()}); err != nil || got != "" || h.Tree().Sum() != sound {
		t.Errorf("healed: %q, %v", got, err)
	}
	stop()
	if all, err := ctlsocket.List(ctx, user); err != nil || len(all) > 0 {
		t.Errorf("after the end: %v, %v", all, err)
	}
}

// Machines in process namespaces of their own can have the same process id.
func TestTwoMachinesWithOneProcessID(t *testing.T) {
	ctx, user := context.Background(), nobody()
	l := named(t, user, "other")
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096)) // what is closed unread is a reset to whoever asked
			fmt.Fprintln(c, `{"host":"dgx-a100","faults":["no-uvm"]}`)
			c.Close()
		}
	}()
	stop, err := ctlsocket.Serve(user, "t4-server", host(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t4-server", "dgx-a100"} {
		if m, err := ctlsocket.Find(ctx, user, name); err != nil || m.Host != name {
			t.Errorf("Find(%s) = %+v, %v", name, m, err)
		}
	}
	stop()
	if m, err := ctlsocket.Find(ctx, user, "dgx-a100"); err != nil || len(m.Faults) != 1 {
		t.Errorf("after the end of the one, the other is %+v, %v", m, err)
	}
}

// A machine whose process is stopped is there, and is not called missing.
func TestASilentMachine(t *testing.T) {
	ctx, user := context.Background(), nobody()
	defer named(t, user, "silent").Close() // nobody accepts
	for _, name := range []string{"dgx-a100", strconv.Itoa(os.Getpid())} {
		if m, err := ctlsocket.Find(ctx, user, name); !errors.Is(err, ctlsocket.ErrSilent) || errors.Is(err, ctlsocket.ErrNone) || strings.ContainsAny(err.Error(), "\n/") {
			t.Errorf("Find(%s) = %+v, %v; want ErrSilent in one line", name, m, err)
		}
	}
}

// Text that is no request changes nothing and gets an answer.
func TestABadRequest(t *testing.T) {
	user, h := nobody(), host(t)
	stop, err := ctlsocket.Serve(user, "t4-server", h)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, text := range []string{"nonsense\n", `{"add":["gone"]}` + "\n", `{"add":[7]}` + "\n"} {
		names, err := ctlsocket.Sockets(user)
		if err != nil || len(names) != 1 {
			t.Fatalf("sockets: %q, %v", names, err)
		}
		c, err := net.Dial("unix", names[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 4096)
		n, err := c.Read(data)
		if err != nil || !strings.Contains(string(data[:n]), `"error":`) || len(h.Faults()) > 0 {
			t.Errorf("%q is answered %q, %v", text, data[:n], err)
		}
		c.Close()
	}
}

// What another user listens on is no machine of ours, whatever it is called.
func TestAnotherUsersSocketIsNoMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	user := nobody()
	// Who listens is the thread that says so.
	as := func(uid uintptr) {
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); err != 0 {
			t.Fatal(err)
		}
	}
	runtime.LockOSThread()
	as(65534)
	l := named(t, user, "foreign")
	as(0)
	runtime.UnlockOSThread()
	defer l.Close()
	if names, err := ctlsocket.Sockets(user); err != nil || len(names) != 1 {
		t.Fatalf("sockets: %q, %v; nothing is shown by this test", names, err)
	}
	if all, err := ctlsocket.List(t.Context(), user); err != nil || len(all) > 0 {
		t.Errorf("List = %+v, %v", all, err)
	}
}
