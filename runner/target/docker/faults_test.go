package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

var config = target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"}

func host(t *testing.T, driver string) target.Host {
	t.Helper()
	h, err := targettest.Host(driver)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func create(t *testing.T, d target.Target) target.Container {
	t.Helper()
	c, err := d.Create(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(t *testing.T, c target.Container, driver string) {
	t.Helper()
	if err := c.Start(t.Context(), host(t, driver), targettest.Plan(driver, false)); err != nil {
		t.Fatal(err)
	}
}

// What is no fault of the product is broken, with the cause, and leaves nothing.
func TestFaultsAreBroken(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault func(context.Context, target.Container) error
		want  string
		dead  bool // the engine is gone, and what it stores with Close
	}{
		{"the engine dies", func(_ context.Context, c target.Container) error { return docker.EngineOf(c).Kill() }, "dockerd ended: signal: killed", true},
		{"no socket", func(_ context.Context, c target.Container) error { return docker.RemoveSocket(c) }, "connect to the docker API", true},
		{"no image", docker.RemoveImage, "No such image", false},
		{"the name is taken", docker.TakeName, "already in use", false},
		{"the disk is full", docker.Fill, "no space left on device", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, ctx := requireDocker(t, config).d, t.Context()
			c := create(t, d)
			if err := tc.fault(ctx, c); err != nil {
				t.Fatal(err)
			}
			err := c.Start(ctx, host(t, targettest.Version), targettest.Plan(targettest.Version, false))
			if !errors.Is(err, target.ErrBroken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start() = %v; want ErrBroken with %q", err, tc.want)
			}
			if c.Running() {
				t.Error("it runs")
			}
			if tc.dead {
				return
			}
			if err := c.Remove(ctx); err != nil {
				t.Errorf("Remove() = %v", err)
			}
			taken := 0
			if tc.name == "the name is taken" {
				taken = 1 // somebody else's, which is not ours to remove
			}
			if n, _, err := docker.Stored(ctx, c); n != taken || err != nil {
				t.Errorf("the engine has %d containers, %v; want %d", n, err, taken)
			}
		})
	}
}

// A container that was created anew several times takes its images along.
func TestNothingIsLeftInTheEngine(t *testing.T) {
	d := requireDocker(t, config).d
	c := create(t, d)
	_, before, err := docker.Stored(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"535.183.01", targettest.Version, "535.183.01"} {
		begin(t, c, driver)
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, during, err := docker.Stored(t.Context(), c); during != before+2 || err != nil {
		t.Errorf("%d images after two changes of the plan, %v; %d before", during, err, before)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, after, err := docker.Stored(t.Context(), c); n != 0 || after != before || err != nil {
		t.Errorf("the engine has %d containers and %d images, %v; want none and %d", n, after, err, before)
	}
}

// An engine that loses power has its container after the machine is up again, and
// starts it with the driver that is there then, as the simulation does.
func TestRebootWithDriverUpgrade(t *testing.T) {
	r := requireDocker(t, config)
	s, err := sim.NewEngine(r.images, observe.Docker)
	if err != nil {
		t.Fatal(err)
	}
	var seen []observe.Observation
	alone := config
	alone.Alone = "reboot"
	other := create(t, r.d) // of another engine, which goes on
	begin(t, other, targettest.Version)
	for _, d := range []target.Target{s, r.d} {
		c, err := d.Create(t.Context(), alone)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, c, "535.183.01")
		if err := c.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		if served, ok := c.(target.Served); ok {
			if err := served.RebootHost(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		begin(t, c, targettest.Version)
		o, err := c.Observe(t.Context(), targettest.Request())
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, o)
		if err := c.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, d := range observe.Diff(seen[0], seen[1]) {
		t.Errorf("simulated | real: %s", d)
	}
	if _, err := other.Observe(t.Context(), targettest.Request()); err != nil {
		t.Errorf("a container of another engine after the reboot: %v", err)
	}
	if err := other.(target.Served).RebootHost(t.Context(), true); !errors.Is(err, target.ErrBroken) {
		t.Errorf("RebootHost() of an engine that others use = %v; want ErrBroken", err)
	}
}

// An engine that dies is no fault of the product: what it was doing is broken, with how
// it ended, and who comes next gets another.
func TestEngineThatDiesIsReplaced(t *testing.T) {
	d, ctx := requireDocker(t, config).d, t.Context()
	c := create(t, d)
	begin(t, c, targettest.Version)
	dead := docker.EngineOf(c)
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	err := c.Stop(ctx)
	ended, ok := errors.AsType[*target.EndedError](err)
	if !errors.Is(err, target.ErrBroken) || !ok || ended.How != "signal: killed" || len(ended.Log) == 0 {
		t.Errorf("Stop() without an engine = %v (%+v); want ErrBroken, how it ended, and its log", err, ended)
	}
	next := create(t, d)
	begin(t, next, targettest.Version)
	if docker.EngineOf(next) == dead {
		t.Error("the dead engine serves the next container")
	}
	if err := errors.Join(c.Remove(ctx), next.Remove(ctx)); err != nil {
		t.Errorf("Remove() = %v", err)
	}
}

// A containerd that dies below its engine is no fault of the product either.
func TestContainerdThatDiesIsBroken(t *testing.T) {
	d, ctx := requireDocker(t, config).d, t.Context()
	c := create(t, d)
	begin(t, c, targettest.Version)
	for _, pid := range ours(t, "containerd") {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	next, err := d.Create(ctx, config)
	if err == nil {
		err = next.Start(ctx, host(t, targettest.Version), targettest.Plan(targettest.Version, false))
	}
	if err != nil && !errors.Is(err, target.ErrBroken) { // the engine starts another, which may be faster
		t.Errorf("Start() without containerd = %v; want ErrBroken", err)
	}
	for range 20 { // the one that the engine started anew
		if err = c.Remove(ctx); err == nil {
			break
		}
	}
	if next != nil {
		err = errors.Join(err, next.Remove(ctx))
	}
	if err != nil {
		t.Errorf("Remove() = %v", err)
	}
}

// ours are the processes of a name that descend from this one.
func ours(t *testing.T, name string) []int {
	t.Helper()
	var out []int
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range comms {
		comm, err := os.ReadFile(p)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		for up := pid; up > 1; {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", up))
			if err != nil {
				break
			}
			fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			if up, _ = strconv.Atoi(fields[1]); up == os.Getpid() {
				out = append(out, pid)
				break
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no %s of ours runs", name)
	}
	return out
}

// An engine that is too old, or is none, is refused with the cause.
func TestEngineThatCannotBeUsed(t *testing.T) {
	for _, tc := range []struct {
		name, api string
		code      int
		want      string
	}{
		{"too old", "1.24", http.StatusOK, "minimum supported API version"},
		{"an error", "1.41", http.StatusInternalServerError, "out of order"},
		{"old enough", "1.41", http.StatusOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", at)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("API-Version", tc.api)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				fmt.Fprint(w, `{"Version":"20.10.24","ApiVersion":"1.41","message":"out of order"}`)
			}))
			server.Listener = l
			server.Start()
			defer server.Close()
			version, err := docker.Ask(t.Context(), at)
			if tc.want == "" {
				if err != nil || version != "20.10.24" {
					t.Errorf("Ask() = %q, %v", version, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Ask() = %v; want %q", err, tc.want)
			}
		})
	}
}

// What an engine says of a configuration is an answer; what keeps it from saying
// anything is not.
func TestAnswerSortsErrors(t *testing.T) {
	for _, tc := range []struct {
		err    error
		broken bool
		want   string
	}{
		{&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.EACCES)}, true, "permission denied"},
		{&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.ENOENT)}, true, "no such file"},
		{fmt.Errorf("create: %w", cerrdefs.ErrConflict), true, "conflict"},
		{cerrdefs.ErrInternal.WithMessage("write /x: no space left on device"), true, "no space"},
		{context.DeadlineExceeded, true, "deadline"},
		{cerrdefs.ErrInternal.WithMessage(`connection error: desc = "transport: Error while dialing dial unix /x/containerd.sock: connect: connection refused": unavailable`), true, "containerd, below the engine, does not answer"},
		{cerrdefs.ErrInternal.WithMessage("ttrpc: closed: unknown"), true, "ttrpc"},
		{cerrdefs.ErrInvalidArgument.WithMessage("bind source path does not exist: /x"), false, "bind source"},
		{cerrdefs.ErrInternal.WithMessage(`error running hook: exit status 1, stdout: , stderr: cdi-hook: no such root\n`), false, "cdi-hook: no such root"},
	} {
		err := docker.Answer(tc.err)
		if errors.Is(err, target.ErrBroken) != tc.broken || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("answer(%v) = %v; want broken %t, %q", tc.err, err, tc.broken, tc.want)
		}
	}
}

// leftovers lists what of ours is to be seen on the machine.
func leftovers(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/gpurig-*", "/sys/fs/cgroup/*/gpurig-*", "/sys/fs/cgroup/*/docker", "/proc/[0-9]*/comm"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if filepath.Base(p) != "comm" {
				out = append(out, p)
			} else if name, err := os.ReadFile(p); err == nil && slices.Contains([]string{"dockerd", "containerd", "containerd-shim"}, strings.TrimSpace(string(name))) {
				out = append(out, p)
			}
		}
	}
	return out
}

// The victim is this test binary again: it starts a container and waits to be
// killed. Engine and container end with it, and the next run sweeps.
func TestF29HarnessKilled(t *testing.T) {
	if targettest.Victim() != "" {
		begin(t, create(t, requireDocker(t, config).d), targettest.Version)
		targettest.AwaitDeath()
	}
	if err := requireDocker(t, config).d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := leftovers(t)
	// Other processes of the machine, tests of other packages among them, have
	// cgroups of their own, which come and go.
	ours := func(pid int) []string {
		return slices.DeleteFunc(leftovers(t), func(p string) bool {
			own := strings.HasPrefix(filepath.Base(p), fmt.Sprintf("gpurig-%d-", pid))
			return slices.Contains(before, p) || strings.HasPrefix(filepath.Base(p), "gpurig-") && !own
		})
	}
	victim := targettest.StartVictim(t, "engine")
	if len(ours(victim.Process.Pid)) == 0 {
		t.Errorf("with an engine running nothing of ours is seen: %q", leftovers(t))
	}
	targettest.Kill(t, victim)
	for range 200 {
		if err := requireDocker(t, config).d.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if len(ours(victim.Process.Pid)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left by a killed run: %q; before: %q", ours(victim.Process.Pid), before)
}
