// Package machinetest runs programs on fake hosts for tests.
//
// A test that uses it calls machine.Init at the start of TestMain.
package machinetest

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurig/fakehw/live"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/userspace"
)

// RequireEnv, when it is set, says that this machine allows fake ones: a test
// that Require would skip fails.
const RequireEnv = "GPURIG_REQUIRE_MACHINE"

// Able says why no fake machine can be entered here; nil: it can.
var Able = sync.OnceValue(func() error {
	h, err := host("no-gpu")
	if err == nil {
		_, err = machine.Enter(context.Background(), h, machine.Options{Command: []string{"true"}, UserNamespace: os.Geteuid() != 0})
	}
	return err
})

// Require skips a test where no fake machine can be entered: that takes root or
// user namespaces, and FUSE.
func Require(t testing.TB) {
	t.Helper()
	if err := Able(); err != nil {
		Skip(t, "no fake machine can be entered here: %v", err)
	}
}

// RequireNodes skips a test where a machine's device nodes cannot be opened: in
// a user namespace they can be seen alone, and groups are not mapped.
func RequireNodes(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: in a user namespace the nodes of a fake machine can be seen, not opened")
	}
	Require(t)
}

// Skip skips a test, or fails it where RequireEnv says that nothing may be
// missing.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Ways runs f for each way into a machine: as root, and with a user namespace.
func Ways(t *testing.T, f func(t *testing.T, o machine.Options)) {
	t.Run("as root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root")
		}
		Require(t)
		f(t, machine.Options{})
	})
	t.Run("in a user namespace", func(t *testing.T) {
		Require(t)
		f(t, machine.Options{UserNamespace: true})
	})
}

func host(profile string) (*live.Host, error) {
	p, err := profiles.Load(profile)
	if err != nil {
		return nil, err
	}
	m, err := p.Model()
	if err != nil {
		return nil, err
	}
	return live.New(m, live.Options{})
}

// Host makes a host of a shipped profile.
func Host(t testing.TB, profile string) *live.Host {
	t.Helper()
	h, err := host(profile)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Working adds the user space that works, or skips where there is no compiler.
func Working(t testing.TB, h *live.Host, o machine.Options) machine.Options {
	t.Helper()
	var warn strings.Builder
	if err := userspace.Add(t.Context(), h, &o, userspace.Options{Warn: &warn}); err != nil {
		t.Fatal(err)
	}
	if warn.Len() > 0 {
		Skip(t, "%s", warn.String())
	}
	return o
}

// Run runs a command on h and returns what it wrote to both its streams, and its
// exit code.
func Run(t testing.TB, h *live.Host, o machine.Options, command ...string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	written := make(chan string)
	go func() {
		out, _ := io.ReadAll(r) // what came until then
		written <- string(out)
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Command, o.Stdout, o.Stderr = command, w, w
	if o.Stdin == nil {
		o.Stdin = null
	}
	entered, err := machine.Enter(ctx, h, o)
	w.Close()
	out := <-written
	if err != nil {
		t.Fatalf("Enter(%q): %v\n%s", command, err, out)
	}
	return out, entered.Exit
}

// Shell is Run of a script that must succeed.
func Shell(t testing.TB, h *live.Host, o machine.Options, script string) string {
	t.Helper()
	out, exit := Run(t, h, o, "sh", "-euc", script)
	if exit != 0 {
		t.Fatalf("%s\nexit code %d, output:\n%s", script, exit, out)
	}
	return out
}
