package driverctl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/driverctl/driverctltest"
)

// A live host as small as can be: a State behind a lock.
type live struct {
	mu    sync.Mutex
	state driverctl.State
	last  driverctl.Caller
}

func (l *live) Control(_ context.Context, c driverctl.Command, from driverctl.Caller) driverctl.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = from
	next, r := driverctl.Apply(l.state, c, driverctl.Conditions{Caller: from})
	l.state = next
	return r
}

func TestTwoClientsAtOnceNeverShareASlice(t *testing.T) {
	h := &live{state: driverctl.State{Model: profile(t, "a100-mig-empty")}}
	path := driverctltest.Serve(t, h)
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 2 {
		all.Go(func() {
			for range 4 {
				r, err := driverctl.Do(t.Context(), path, driverctl.Command{Verb: driverctl.CreateGI, GPU: driverctl.ByIndex(0), Profile: 19, Start: driverctl.Any})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got[r.String()[:4]]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if n := len(h.state.Model.NVIDIAGPUs()[0].MIG.Instances); n != 7 || got["erro"] != 1 {
		t.Errorf("%d instances and %v, want 7 and one refusal", n, got)
	}
	if h.last.UID != 0 || h.last.PID != os.Getpid() {
		t.Errorf("the caller was %+v, want root of the machine, by its process", h.last)
	}
}

// What is no request is refused in words and ends its connection alone (B22).
func TestABadLineIsRefused(t *testing.T) {
	path := driverctltest.Serve(t, driverctl.HandlerFunc(func(context.Context, driverctl.Command, driverctl.Caller) driverctl.Reply { return driverctl.OK(1) }))
	for _, tc := range []struct{ name, send, want string }{
		{"two requests", "reset 0\nreset 1\n", "ok 1\nok 1\n"},
		{"no request", "shutdown 0\nreset 0\n", "error 2 control line \"shutdown 0\": unknown verb \"shutdown\"\n"},
		{"a line without its end", "reset 0", "error 2 the line has no end\n"},
		{"a line too long", strings.Repeat("x", 4*driverctl.MaxLine), "error 2 the line is longer than 256 bytes\n"},
		{"a line with a NUL", "reset 0\x00\n", "error 2 control line \"reset 0\\x00\": GPU \"0\\x00\" is neither an index nor a PCI address\n"},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, tc.send)
			conn.(*net.UnixConn).CloseWrite()
			var got strings.Builder
			buf := make([]byte, 4096)
			for {
				n, err := conn.Read(buf)
				got.Write(buf[:n])
				if err != nil {
					break
				}
			}
			if got.String() != tc.want {
				t.Errorf("%q is answered %q, want %q", tc.send, got.String(), tc.want)
			}
		})
	}
}

// Serve ends with its context, whatever its clients do.
func TestServeEndsWithItsContext(t *testing.T) {
	path := driverctltest.Serve(t, driverctl.HandlerFunc(func(ctx context.Context, _ driverctl.Command, _ driverctl.Caller) driverctl.Reply {
		<-ctx.Done()
		return driverctl.Refuse(nvml.ERROR_TIMEOUT, "the host ended")
	}))
	for range 3 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "reset 0\n")
	}
}

func TestDoSaysThatThereIsNoHost(t *testing.T) {
	_, err := driverctl.Do(t.Context(), filepath.Join(t.TempDir(), "none"), driverctl.Command{Verb: driverctl.Reset})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), `control "reset 0"`) {
		t.Errorf("Do() = %v", err)
	}
}
