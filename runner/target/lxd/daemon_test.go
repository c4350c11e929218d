package lxd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
)

// begin starts a container with two GPUs' plan, and leaves it to Close.
func begin(t *testing.T, l *lxd.LXD) (target.Container, target.Host) {
	t.Helper()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Create(context.Background(), target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(context.Background(), h, targettest.Plan(targettest.Version, false)); err != nil {
		t.Fatal(err)
	}
	return c, h
}

func look(t *testing.T, c target.Container) observe.Observation {
	t.Helper()
	o, err := c.Observe(context.Background(), targettest.Request())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A daemon that is restarted, in good order or not, finds its container running,
// and plugs and stops it as before.
func TestDaemonRestartWithContainerRunning(t *testing.T) { each(t, daemonRestarts) }

func daemonRestarts(t *testing.T, f lxdapi.Flavour) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			l, ctx := requireLXD(t, f, "v1").l, context.Background()
			c, h := begin(t, l)
			before := look(t, c)
			if err := lxd.Restart(ctx, l, "v1", sig); err != nil {
				t.Fatal(err)
			}
			for _, d := range observe.Diff(before, look(t, c)) {
				t.Errorf("after the restart: %s", d)
			}
			if err := c.Plug(ctx, h, targettest.Plan(targettest.Version, true)); err != nil {
				t.Fatal(err)
			}
			if o := look(t, c); len(o.Nodes) != len(before.Nodes)+1 {
				t.Errorf("%d nodes after a plug, %d before", len(o.Nodes), len(before.Nodes))
			}
			if err := c.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// A daemon that dies is no fault of the product: what it was doing is broken, with how
// it ended, and who comes next gets another.
func TestDaemonDiesInTheMiddle(t *testing.T) { each(t, daemonDies) }

func daemonDies(t *testing.T, f lxdapi.Flavour) {
	before := leftovers(t)
	l, ctx := requireLXD(t, f, "v1").l, context.Background()
	c, h := begin(t, l)
	_, first, err := lxd.API(ctx, l, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := lxd.Kill(ctx, l, "v1"); err != nil {
		t.Fatal(err)
	}
	err = c.Plug(ctx, h, targettest.Plan(targettest.Version, true))
	ended, ok := errors.AsType[*target.EndedError](err)
	if !errors.Is(err, target.ErrBroken) || !errors.Is(err, lxdapi.ErrConnection) || !ok || ended.How != "signal: killed" || len(ended.Log) == 0 {
		t.Errorf("Plug() without a daemon = %v (%+v); want ErrBroken, how it ended, and its log", err, ended)
	}
	again, _ := begin(t, l)
	look(t, again)
	if err := errors.Join(c.Remove(ctx), again.Remove(ctx)); err != nil {
		t.Errorf("Remove() = %v", err)
	}
	for _, left := range leftovers(t) {
		if strings.Contains(left, first) {
			t.Errorf("left of the daemon that died, with its last container removed: %s; before: %q", left, before)
		}
	}
}

// leftovers lists what of ours is to be seen on the machine.
func leftovers(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/gpurig-*", "/sys/fs/cgroup/*/gpurig-*", "/sys/fs/cgroup/*/lxc.*", "/proc/[0-9]*/comm"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if filepath.Base(p) != "comm" {
				out = append(out, p)
			} else if name, err := os.ReadFile(p); err == nil && slices.Contains([]string{"lxd", "incusd"}, strings.TrimSpace(string(name))) {
				out = append(out, p)
			}
		}
	}
	return out
}

// The victim is this test binary again: it starts a container and waits to be
// killed. Daemon and container end with it, and the next run sweeps.
func TestF29HarnessKilled(t *testing.T) {
	if targettest.Victim() != "" {
		begin(t, requireLXD(t, lxdapi.LXD, "v1").l)
		targettest.AwaitDeath()
	}
	if err := requireLXD(t, lxdapi.LXD, "v1").l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := leftovers(t)
	// Other processes, tests of other packages among them, have cgroups of their
	// own, which come and go.
	ours := func(pid int) []string {
		return slices.DeleteFunc(leftovers(t), func(p string) bool {
			cgroup := strings.HasPrefix(p, "/sys/fs/cgroup/")
			return slices.Contains(before, p) || cgroup && !strings.Contains(filepath.Base(p), fmt.Sprintf("gpurig-%d-", pid))
		})
	}
	victim := targettest.StartVictim(t, "daemon")
	if during := ours(victim.Process.Pid); len(during) == 0 {
		t.Errorf("with a daemon running nothing of ours is seen: %q", during)
	}
	targettest.Kill(t, victim)
	for range 500 {
		if err := requireLXD(t, lxdapi.LXD, "v1").l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if len(ours(victim.Process.Pid)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left by a killed run: %q; before: %q", ours(victim.Process.Pid), before)
}
