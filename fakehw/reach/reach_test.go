package reach_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/reach"
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

// folder is short: the path of a socket has 107 bytes.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reach")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
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
	ctx, dir, h := context.Background(), folder(t), host(t)
	stop, err := reach.Serve(dir, "t4-server", h)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t4-server", strconv.Itoa(os.Getpid())} {
		if m, err := reach.Find(ctx, dir, name); err != nil || m.Host != "t4-server" || m.PID != os.Getpid() {
			t.Errorf("Find(%s) = %+v, %v", name, m, err)
		}
	}
	if _, err := reach.Find(ctx, dir, "dgx-a100"); !errors.Is(err, reach.ErrNone) {
		t.Errorf("Find of another host = %v", err)
	}
	sound := h.Tree().Sum()
	ask := func(r reach.Request) (string, error) {
		m, err := reach.Find(ctx, dir, "t4-server")
		if err == nil {
			m, err = reach.Ask(ctx, dir, m, r)
		}
		return strings.Join(m.Faults.Texts(), " "), err
	}
	if got, err := ask(reach.Request{Add: list(t, "no-uvm", "off-bus:0")}); err != nil || got != "no-uvm off-bus:0" {
		t.Errorf("added: %q, %v", got, err)
	}
	if got, err := ask(reach.Request{Heal: list(t, "no-uvm"), Add: list(t, "no-persistenced")}); err != nil || got != "no-persistenced off-bus:0" {
		t.Errorf("healed one, added one: %q, %v", got, err)
	}
	var no *reach.Refusal
	if got, err := ask(reach.Request{Heal: list(t, "off-bus:0"), Add: list(t, "off-bus:7")}); !errors.As(err, &no) || no.Hint == "" || got != "no-persistenced off-bus:0" {
		t.Errorf("a fault that cannot be: %q, %v; the machine must stay as it was", got, err)
	}
	if got, err := ask(reach.Request{Heal: h.Faults()}); err != nil || got != "" || h.Tree().Sum() != sound {
		t.Errorf("healed: %q, %v", got, err)
	}
	stop()
	if all, err := reach.List(ctx, dir); err != nil || len(all) > 0 {
		t.Errorf("after the end: %v, %v", all, err)
	}
	if left, err := os.ReadDir(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there with %v, %v", left, err)
	}
}

// What a killed machine leaves is no machine, and is taken away.
func TestALeftSocketIsTakenAway(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "999999999.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if all, err := reach.List(context.Background(), dir); err != nil || len(all) > 0 {
		t.Errorf("List = %v, %v", all, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// The next machine takes away what a killed one has left, without being asked (F29).
func TestTheNextMachineSweeps(t *testing.T) {
	dir := folder(t)
	left := filepath.Join(dir, "999999999-1.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	stop, err := reach.Serve(dir, "t4-server", host(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(left); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the socket is still there")
		}
	}
}

// Machines in process namespaces of their own can have the same process id.
func TestTwoMachinesWithOneProcessID(t *testing.T) {
	ctx, dir := context.Background(), folder(t)
	other := filepath.Join(dir, strconv.Itoa(os.Getpid())+"-1.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: other, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
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
	stop, err := reach.Serve(dir, "t4-server", host(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t4-server", "dgx-a100"} {
		if m, err := reach.Find(ctx, dir, name); err != nil || m.Host != name {
			t.Errorf("Find(%s) = %+v, %v", name, m, err)
		}
	}
	stop()
	if m, err := reach.Find(ctx, dir, "dgx-a100"); err != nil || len(m.Faults) != 1 {
		t.Errorf("after the end of the one, the other is %+v, %v", m, err)
	}
}

// A machine whose process is stopped is there, and is not called missing.
func TestASilentMachine(t *testing.T) {
	ctx, dir := context.Background(), folder(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "7-1.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts
	for _, name := range []string{"dgx-a100", strconv.Itoa(os.Getpid())} {
		if m, err := reach.Find(ctx, dir, name); !errors.Is(err, reach.ErrSilent) || errors.Is(err, reach.ErrNone) || strings.ContainsAny(err.Error(), "\n/") {
			t.Errorf("Find(%s) = %+v, %v; want ErrSilent in one line", name, m, err)
		}
	}
}

// Text that is no request changes nothing and gets an answer.
func TestABadRequest(t *testing.T) {
	dir, h := folder(t), host(t)
	stop, err := reach.Serve(dir, "t4-server", h)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, text := range []string{"nonsense\n", `{"add":["gone"]}` + "\n", `{"add":[7]}` + "\n"} {
		names, err := filepath.Glob(dir + "/*.sock")
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

// A folder that others can write to may have anybody's sockets: it is not used.
func TestAnOpenFolderIsRefused(t *testing.T) {
	dir := folder(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if stop, err := reach.Serve(dir, "x", host(t)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("Serve = %v", err)
		if err == nil {
			stop()
		}
	}
	if _, err := reach.List(context.Background(), dir); !errors.Is(err, os.ErrPermission) {
		t.Errorf("List = %v", err)
	}
}
