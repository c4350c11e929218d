package mntns_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/mntns"
)

func TestF28AChildThatDiesIsReplaced(t *testing.T) {
	s := session(t, mntns.Options{})
	if _, err := s.Do(t.Context(), "die", []byte("name 0")); !errors.Is(err, mntns.ErrLost) {
		t.Errorf("a killed child: %v; want ErrLost", err)
	}
	do(t, s, "look", "name 0")
	if _, err := s.Do(t.Context(), "panic", []byte("name 0")); err == nil || !strings.Contains(err.Error(), "panic: on purpose") {
		t.Errorf("a panicking handler: %v", err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("name 0")); err != nil && !errors.Is(err, mntns.ErrLost) {
		t.Errorf("after a panic: %v", err)
	}
	do(t, s, "look", "name 0")
}

// F24, F28: whoever waits is not kept, and what was cancelled is no answer.
func TestF24ACancelledRequestEndsTheChild(t *testing.T) {
	s := session(t, mntns.Options{})
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(reason)
	if _, err := s.Do(ctx, "hang", []byte("name 0")); !errors.Is(err, reason) {
		t.Errorf("a cancelled request: %v; want %v", err, reason)
	}
	do(t, s, "look", "name 0")
}

func TestATreeStaysSetUpUntilEightOthersCame(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		s := session(t, opts)
		visit := func(request, want string) {
			t.Helper()
			got := strings.Fields(do(t, s, "count", request))
			if got[1] != request || got[2] != want {
				t.Errorf("visit of %s: saw %s for the %sth time; want %s", request, got[1], got[2], want)
			}
		}
		visit("a", "0")
		visit("a", "1")
		for i := range 7 {
			visit(fmt.Sprint(i), "0")
		}
		visit("a", "2")
		for i := range 8 {
			visit(fmt.Sprint(100+i), "0")
		}
		visit("a", "0")
	})
}

func TestF29TheChildDiesWithAKilledParent(t *testing.T) {
	session(t, mntns.Options{}) // skips where there can be none
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GPURIG_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also when the test ends early; twice does no harm
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var pid int
	if _, err := fmt.Fscanf(out, "child %d\n", &pid); err != nil {
		t.Fatalf("the parent did not say its child's number: %v", err)
	}
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("child %d: %v", pid, err)
	}
	defer unix.Close(child)
	holdPipes(t, pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "killed", as it should be
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 10_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Fatalf("child %d outlives its parent (%v)", pid, err)
		}
		return
	}
}

// holdPipes keeps the process from reading end of file when its parent dies, as
// if it were busy with a request.
func holdPipes(t *testing.T, pid int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("child %d has no descriptors (%v)", pid, err)
	}
	held := 0
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, "pipe:") {
			continue
		}
		f, err := os.OpenFile(link, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
			t.Logf("not privileged to hold %s: an idle child is tested, not a busy one", link)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		held++
	}
	if held == 0 {
		t.Fatalf("child %d has no pipe among %v", pid, links)
	}
}

// A single-use child is another one for each request, and is gone after Close.
func TestASingleChildAnswersOnce(t *testing.T) {
	s := session(t, mntns.Options{Single: true})
	var pids []string
	for range 2 {
		reply, err := s.Do(t.Context(), "count", []byte("single"))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(reply))[0])
	}
	if pids[0] == pids[1] {
		t.Errorf("one child, %s, answered twice", pids[0])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("child %s after Close: %v", pid, err)
		}
	}
}
