package lxc_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/target"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/targettest"
)

// other matches what belongs to one process that runs targets, by its id.
var other = regexp.MustCompile(`gpurig-([0-9]+)-`)

// others reports whether something belongs to another process that is there:
// tests of other packages run at the same time.
func others(name string) bool {
	m := other.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	pid, err := strconv.Atoi(m[1])
	return err == nil && pid != os.Getpid() && unix.Kill(pid, 0) == nil
}

// leftovers lists what of ours is to be seen on the machine: mounts, cgroup
// directories, processes of the probe.
func leftovers(t *testing.T) []string {
	t.Helper()
	var out []string
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "gpurig") || strings.Contains(line, " - tmpfs "+"gpurig") {
			out = append(out, "mount: "+strings.TrimSpace(line))
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/gpurig-*", "/sys/fs/cgroup/*/gpurig-*", "/run/lxc/lock/mnt"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, dirs...)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range exes {
		to, err := os.Readlink(exe) // a process that has ended has none
		if err == nil && (strings.HasPrefix(to, dir) || strings.HasSuffix(to, "/own/probe")) {
			out = append(out, exe+" -> "+to)
		}
	}
	out = slices.DeleteFunc(out, others)
	slices.Sort(out)
	return out
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	for _, cgroup := range []string{"v1", "v2"} {
		t.Run(cgroup, func(t *testing.T) {
			requireLXC(t, cgroup).l.Close(context.Background())
			before := leftovers(t)
			l := requireLXC(t, cgroup).l
			start(t, l, cgroup)
			if during := leftovers(t); len(during) <= len(before) {
				t.Fatalf("with a container running nothing of ours is seen: %q", during)
			}
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if after := leftovers(t); !slices.Equal(before, after) {
				t.Errorf("left after Close: %q; before: %q", after, before)
			}
		})
	}
}

// start starts a container and leaves it to the target's Close.
func start(t testing.TB, l *lxc.LXC, cgroup string) target.Container {
	t.Helper()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Create(context.Background(), target.Config{Name: "c1", Image: "glibc", Cgroup: cgroup})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(context.Background(), h, targettest.Plan(targettest.Version, true)); err != nil {
		t.Fatal(err)
	}
	return c
}

// The victim is this test binary again: it starts a container and waits to be
// killed.
func TestF29HarnessKilled(t *testing.T) {
	if cgroup := targettest.Victim(); cgroup != "" {
		start(t, requireLXC(t, cgroup).l, cgroup)
		targettest.AwaitDeath()
	}
	for _, cgroup := range []string{"v1", "v2"} {
		t.Run(cgroup, func(t *testing.T) {
			l := requireLXC(t, cgroup).l
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := leftovers(t)
			victim := targettest.StartVictim(t, cgroup)
			if during := leftovers(t); len(during) <= len(before) {
				t.Errorf("with a container running nothing of ours is seen: %q", during)
			}
			targettest.Kill(t, victim)
			waitFor(t, "processes and mounts to go", func() bool {
				return !slices.ContainsFunc(leftovers(t), func(s string) bool { return !strings.HasPrefix(s, "/sys/fs/cgroup/") && !slices.Contains(before, s) })
			})
			// The next run removes what the kernel keeps: cgroup directories.
			waitFor(t, "cgroups to go with the next run", func() bool {
				if err := requireLXC(t, cgroup).l.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				return slices.Equal(before, leftovers(t))
			})
		})
	}
}

// waitFor gives the kernel the moment that it takes to end processes.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 500 {
		if done() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("waited in vain for %s: %q", what, leftovers(t))
}
