package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurig/hook"
)

// TestLXCStoppedAndAtOnceStarted (F15): a container is started again while the post-stop
// hook of its last life waits: until that start has begun, until the container
// runs, or until it, too, has stopped. It keeps its mounts, and what is left in
// the end is what one life leaves. liblxc says that a container stopped before
// its post-stop hooks have run.
func TestLXCStoppedAndAtOnceStarted(t *testing.T) {
	times := 6
	if thorough() {
		times = 15
	}
	if os.Getenv(allFaults) != "" {
		times = 50
	}
	for _, idmap := range []bool{false, true} {
		t.Run(fmt.Sprintf("idmap=%v", idmap), func(t *testing.T) {
			s := newLXC(t, idmap, "dir usr/lib")
			s.driver("550.1")
			s.lines = s.lines[:1]
			s.restarts(times)
		})
	}
}

// A started container: its files are "N.WHAT" in a directory of the test.
type started struct {
	s    *lxcStand
	n    int
	done chan error
}

func (s *lxcStand) restarts(times int) {
	s.t.Helper()
	at := s.t.TempDir()
	open(s.t, at)
	// The first process waits for a word of ours, which comes by the root.
	s.script = `cd /; n=$(cat tmp/n); : > tmp/up.$n; while [ ! -e tmp/go.$n ]; do sleep 0.01; done; wc -c < usr/lib/gpu/libcuda.so.550.1 > tmp/size.$n 2>&1; ls -l usr/lib/gpu >> tmp/size.$n`
	s.install()
	s.photo()
	begin := func(n int) started {
		if err := os.WriteFile(s.path("tmp/n"), fmt.Append(nil, n), 0o644); err != nil {
			s.t.Fatal(err)
		}
		s.before = fmt.Sprintf(": > %s/%d.stopped; while [ ! -e %s/%d.go ]; do /bin/busybox sleep 0.01; done; ", at, n, at, n)
		cmd, log := s.command("start-host", fmt.Sprintf("%s-%d", s.name, n), at)
		c := started{s, n, make(chan error, 1)}
		over := make(chan struct{})
		s.t.Cleanup(func() { // should the test have failed, nothing stays
			for _, name := range []string{s.path(fmt.Sprintf("tmp/go.%d", n)), filepath.Join(at, fmt.Sprintf("%d.go", n))} {
				os.WriteFile(name, nil, 0o644)
			}
			<-over
		})
		go func() {
			defer close(over)
			out, err := cmd.CombinedOutput()
			if err != nil {
				text, _ := os.ReadFile(log)
				err = fmt.Errorf("start %d: %w: %s%s", n, err, out, text)
			}
			c.done <- err
		}()
		c.await(s.path(fmt.Sprintf("tmp/up.%d", n)))
		return c
	}
	var late []started // whose post-stop hooks wait
	last := 0
	for n := range times {
		c := begin(n)
		// One in three waits for more than this life.
		for len(late) > n%3 {
			late[0].touch(filepath.Join(at, fmt.Sprintf("%d.go", late[0].n)))
			late[0].end()
			late = late[1:]
			last++
		}
		c.touch(s.path(fmt.Sprintf("tmp/go.%d", n)))
		c.await(filepath.Join(at, fmt.Sprintf("%d.stopped", n)))
		if seen := s.read(fmt.Sprintf("tmp/size.%d", n)); !strings.HasPrefix(seen, fmt.Sprint(len(library(s.t, "libcuda.so.1")))+"\n") || !strings.Contains(seen, "libcuda.so.1 -> libcuda.so.550.1") {
			s.t.Fatalf("life %d lost its mount:\n%s", n, seen)
		}
		late = append(late, c)
	}
	if last < times/2 {
		s.t.Errorf("%d of %d hooks were late", last, times)
	}
	for _, c := range late {
		c.touch(filepath.Join(at, fmt.Sprintf("%d.go", c.n)))
		c.end()
	}
	if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.550.1")); err == nil {
		s.t.Error("in the end, the mount point is left")
	}
	s.canary()

	// The negative control: who takes back while a container runs takes its mounts.
	c := begin(times)
	s.run(hook.Finish)
	c.touch(s.path(fmt.Sprintf("tmp/go.%d", times)))
	c.touch(filepath.Join(at, fmt.Sprintf("%d.go", times)))
	c.end()
	if seen := s.read(fmt.Sprintf("tmp/size.%d", times)); !strings.HasPrefix(seen, "total") {
		s.t.Errorf("taking back while it runs takes nothing: the test tests nothing\n%s", seen)
	}
}

func (c started) touch(name string) {
	c.s.t.Helper()
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		c.s.t.Fatal(err)
	}
}

// await waits for a file, or for the end of the container that was to make it.
func (c started) await(name string) {
	c.s.t.Helper()
	for {
		if _, err := os.Lstat(name); err == nil {
			return
		}
		select {
		case err := <-c.done:
			c.s.t.Fatalf("life %d ended before %s: %v", c.n, name, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (c started) end() {
	c.s.t.Helper()
	if err := <-c.done; err != nil {
		c.s.t.Fatal(err)
	}
}
