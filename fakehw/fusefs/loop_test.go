package fusefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// A write that waits keeps nobody from anything, however many of them there are.
func TestOthersAreAnsweredWhileAWriteWaits(t *testing.T) {
	fake := tree.New()
	fake = fill(t, fake, fake.WriteFile("/sys/vendor", []byte("0x10de\n"), 0o444))
	waits, end := make(chan struct{}, 8), make(chan struct{})
	for i := range cap(waits) { // the kernel lets one write at a time to a file
		fake = fill(t, fake, fake.WriteFile(fmt.Sprintf("/sys/bind%d", i), nil, 0o200))
	}
	m := mountUnion(t, fusefs.Union{
		Tree: fake,
		Write: func(string, []byte) syscall.Errno {
			waits <- struct{}{}
			<-end
			return 0
		},
		Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}},
	})
	m.PassAtMost(0)
	var writers sync.WaitGroup
	for i := range cap(waits) {
		writers.Go(func() {
			if err := os.WriteFile(filepath.Join(m.dir, fmt.Sprintf("sys/bind%d", i)), []byte("x"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan error)
	go func() {
		for range cap(waits) {
			<-waits
		}
		text, err := os.ReadFile(filepath.Join(m.dir, "sys/vendor"))
		_, gone := os.Stat(filepath.Join(m.dir, "sys/none"))
		if string(text) != "0x10de\n" || !errors.Is(gone, os.ErrNotExist) {
			err = fmt.Errorf("%q, %w, %w", text, err, gone)
		}
		done <- err
	}()
	select {
	case err := <-done:
		close(end)
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		close(end)
		t.Errorf("a read waits for writes; then %v", <-done)
	}
	writers.Wait()
}

// What the kernel is told of by a write may wait for an answer to a look at the
// same directory.
func TestChangesBesideLooks(t *testing.T) {
	fake := tree.New()
	fake = fill(t, fake, fake.WriteFile("/sys/d/turn", []byte("0\n"), 0o644), fake.WriteFile("/sys/d/other", []byte("x\n"), 0o644))
	var m *union
	var turn int
	m = mountUnion(t, fusefs.Union{
		Tree: fake,
		Write: func(string, []byte) syscall.Errno {
			turn++
			m.change(t, func(next *tree.Tree) error {
				if turn%2 == 1 {
					return next.WriteFile("/sys/d/new", []byte("1\n"), 0o444)
				}
				return next.Remove("/sys/d/new")
			})
			return 0
		},
		Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}},
	})
	end := make(chan struct{})
	var lookers sync.WaitGroup
	for range 3 {
		lookers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if names, err := os.ReadDir(filepath.Join(m.dir, "sys/d")); err != nil || len(names) < 2 {
					t.Errorf("%v, %v", names, err)
					return
				}
				_, _ = os.ReadFile(filepath.Join(m.dir, "sys/d/new"))
			}
		})
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(m.dir, "sys/d/turn"), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(m.dir, "sys/d/new")); (err == nil) != (i%2 == 0) {
			t.Fatalf("after %d writes: %v", i+1, err)
		}
	}
	close(end)
	lookers.Wait()
}

func TestAPanicIsAnErrorOfOneRequest(t *testing.T) {
	fake := tree.New()
	fake = fill(t, fake, fake.WriteFile("/sys/vendor", []byte("0x10de\n"), 0o444), fake.WriteFile("/sys/bind", nil, 0o200))
	m := mountUnion(t, fusefs.Union{
		Tree:     fake,
		Write:    func(string, []byte) syscall.Errno { panic("write") },
		Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}},
		Files:    map[string]func() []byte{"made": func() []byte { panic("open") }},
	})
	for range 3 {
		if _, err := os.ReadFile(filepath.Join(m.dir, "made")); !errors.Is(err, unix.EIO) {
			t.Errorf("open: %v; want EIO", err)
		}
		if err := os.WriteFile(filepath.Join(m.dir, "sys/bind"), []byte("x"), 0); !errors.Is(err, unix.EIO) {
			t.Errorf("write: %v; want EIO", err)
		}
		m.read(t, "sys/vendor", "0x10de\n")
	}
}
