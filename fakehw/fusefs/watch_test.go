package fusefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// Whoever says when the tree changes has the kernel keep what it saw, and every
// change is seen at once all the same.
func TestTheKernelKeepsAMountThatIsWatched(t *testing.T) {
	ways(t, func(t *testing.T, opts fusefs.Options) {
		fake := tree.New()
		fill(t, fake,
			fake.WriteFile("/sys/d/turn", []byte("0\n"), 0o644),
			fake.WriteFile("/sys/d/vendor", []byte("0x10de\n"), 0o444),
			fake.Symlink("/sys/l", "d"))
		var lock sync.Mutex
		var changed func([]tree.Change)
		opts.Lock = &lock
		opts.Watch = func(f func([]tree.Change)) { changed = f }
		turn := 0
		opts.Write = func(_ string, data []byte) syscall.Errno {
			data = slices.Clone(data) // it is the request's
			turn++
			lock.Lock()
			next := fake.Clone()
			e, err := next.Entry("/sys/d/turn")
			if err == nil {
				e.Data, e.Size, e.Mode = data, int64(len(data)), 0o600+fs.FileMode(turn%2)*0o44
			}
			err = errors.Join(err, next.Remove("/sys/l"))
			if turn%2 == 1 {
				err = errors.Join(err, next.WriteFile("/sys/d/new/a", data, 0o444), next.Symlink("/sys/l", "d/new"))
			} else {
				err = errors.Join(err, next.Remove("/sys/d/new/a"), next.Remove("/sys/d/new"), next.Symlink("/sys/l", "d"))
			}
			changes := fake.Update(next)
			lock.Unlock()
			if err != nil {
				t.Error(err)
			}
			changed(changes)
			return 0
		}
		sys := filepath.Join(mount(t, fake, opts), "sys")
		for i := 1; i <= 20; i++ {
			text := strings.Repeat("x", i)
			if err := os.WriteFile(filepath.Join(sys, "d/turn"), []byte(text), 0); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(sys, "d/turn"))
			info, statErr := os.Stat(filepath.Join(sys, "d/turn"))
			if string(got) != text || err != nil || statErr != nil || info.Mode() != 0o600+fs.FileMode(i%2)*0o44 {
				t.Errorf("after write %d: %q, %v, %v, %v", i, got, err, info, statErr)
			}
			names, err := os.ReadDir(filepath.Join(sys, "d"))
			_, gone := os.Stat(filepath.Join(sys, "d/new/a"))
			to, linkErr := os.Readlink(filepath.Join(sys, "l"))
			if want := i % 2; len(names) != 2+want || err != nil || (gone == nil) != (want == 1) || linkErr != nil || (to == "d/new") != (want == 1) {
				t.Errorf("after write %d: %v, %v; new is there: %v; %q, %v", i, names, err, gone, to, linkErr)
			}
		}
		done := make(chan string)
		lock.Lock() // we could not answer
		go func() {
			info, err := os.Stat(filepath.Join(sys, "d/turn"))
			_, none := os.Stat(filepath.Join(sys, "d/new"))
			done <- fmt.Sprint(info != nil, err, errors.Is(none, fs.ErrNotExist))
		}()
		select {
		case got := <-done:
			lock.Unlock()
			if want := "true <nil> true"; got != want {
				t.Errorf("kept: %s; want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			lock.Unlock()
			t.Errorf("a look waits for us; then %s", <-done)
		}
	})
}
