package inroot_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

// racesEnv, set in the environment, is how often each operation of a race runs.
const racesEnv = "GPURIG_RACES"

// raceParts is in how many roots of their own the operations of a race run, so
// that one way of resolving paths, which takes longer, uses every processor.
const raceParts = 4

// primitives are the operations of a race. The last one must never succeed.
var primitives = []struct {
	name string
	do   func(r *inroot.Root, i int) error
}{
	{"Symlink", func(r *inroot.Root, i int) error {
		_, err := r.Symlink(fmt.Sprintf("/dev/d/l%d", i%7), fmt.Sprint(i))
		return err
	}},
	{"MkdirAll", func(r *inroot.Root, i int) error { _, err := r.MkdirAll(fmt.Sprintf("/dev/d/m%d/n", i%7)); return err }},
	{"WriteFile", func(r *inroot.Root, i int) error {
		_, err := r.WriteFile("/dev/d/f", []byte(fmt.Sprint(i)), inroot.Attr{})
		return err
	}},
	{"MountPoint", func(r *inroot.Root, i int) error {
		_, err := r.MountPoint(fmt.Sprintf("/dev/d/p%d", i%7), false)
		return err
	}},
	{"Chmod", func(r *inroot.Root, i int) error { return r.Chmod("/dev/d/d", fs.FileMode(0o700+i%8)) }},
	{"RemoveEmpty", func(r *inroot.Root, i int) error { return gone(r.RemoveEmpty(fmt.Sprintf("/dev/d/m%d/n", i%7), true)) }},
	{"RemoveLink", func(r *inroot.Root, i int) error {
		return gone(r.RemoveLink(fmt.Sprintf("/dev/d/l%d", i%7), fmt.Sprint(i)))
	}},
	{"ReadFile", func(r *inroot.Root, i int) error { _, err := r.ReadFile("/dev/d/inner", 100); return err }},
}

// gone makes an error of nothing removed.
func gone(removed bool, err error) error {
	if err == nil && !removed {
		return fs.ErrNotExist
	}
	return err
}

// An exchange thread swaps a directory for a link to the host while we work
// below it: nothing may ever land there (A3), nothing there may change its mode
// (A22) or go (A36).
func TestA3A22ExchangeRace(t *testing.T) {
	times := 250
	if n, err := strconv.Atoi(os.Getenv(racesEnv)); err == nil {
		times = n
	}
	both(t, func(t *testing.T, open func(string) *inroot.Root) {
		counts := make(chan raceCount, raceParts)
		t.Run("parts", func(t *testing.T) {
			for part := range raceParts {
				t.Run(fmt.Sprint(part), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, "dir dev/d/d", "link dev/s $H")
					counts <- w.race(open(w.R), (times+raceParts-1)/raceParts)
					w.canary()
				})
			}
		})
		close(counts)
		var all raceCount
		for c := range counts {
			all.tries += c.tries
			all.exchanges += c.exchanges
			for p := range primitives {
				all.ok[p] += c.ok[p]
			}
		}
		for p, ok := range all.ok {
			if ok == all.tries || (ok == 0) != (p == len(primitives)-1) {
				t.Errorf("%d of %d %s succeeded", ok, all.tries, primitives[p].name)
			}
		}
		if all.tries < times {
			t.Errorf("each operation ran %d times, want %d", all.tries, times)
		}
		t.Logf("%d of each operation against %d exchanges; done: %v", all.tries, all.exchanges, all.ok)
	})
}

// A raceCount is what one race did.
type raceCount struct {
	tries, exchanges int
	ok               [8]int // of each primitive
}

// met reports whether every primitive found the directory, and did not find it.
func (c raceCount) met() bool {
	return !slices.Contains(c.ok[:len(primitives)-1], 0) && !slices.Contains(c.ok[:], c.tries)
}

// race runs every primitive below a directory that is exchanged, as often as it is
// told and until the exchanges came in between.
func (w *world) race(r *inroot.Root, times int) (c raceCount) {
	stop, swaps := make(chan struct{}), make(chan int)
	go func() { swaps <- exchange(filepath.Join(w.R, "dev/d"), filepath.Join(w.R, "dev/s"), stop) }()
	for c.tries < times || !c.met() && c.tries < 20*times {
		for p := range primitives {
			if primitives[p].do(r, c.tries) == nil {
				c.ok[p]++
			}
		}
		c.tries++
	}
	close(stop)
	c.exchanges = <-swaps
	return c
}

// exchange swaps two names until stop: bursts of one to eight times with pauses,
// so that an operation meets any number of exchanges, and has a processor.
func exchange(a, b string, stop <-chan struct{}) (n int) {
	pause := unix.Timespec{Nsec: 1} // the kernel adds its timer slack, 50 µs
	for burst := 0; ; burst++ {
		for range 1 + burst%8 {
			unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			n++
		}
		select {
		case <-stop:
			return n
		default:
			unix.Nanosleep(&pause, nil)
		}
	}
}
