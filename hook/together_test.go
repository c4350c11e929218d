package hook_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// F15, F14: fifty pairs of hooks at once, one of two hook files each, some killed.
func TestF15TwoHooksAtOnce(t *testing.T) {
	s := newStand(t)
	full(s)
	other := s.spec
	other.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libother.so.1", Target: "libcuda.so.550.1"}}
	pairs := 8
	if thorough() {
		pairs = 50
	}
	s.write()
	s.run(hook.Prepare)
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range pairs {
		var both sync.WaitGroup
		for j := range 2 {
			spec := s.spec
			if j == 1 && i%2 == 1 {
				spec = other
			}
			data, err := spec.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			cmd := hookCommand(t, s.args(hook.Apply)...)
			replace(t, s.file, data)
			kill := time.Duration(0)
			if dice.IntN(4) == 0 {
				kill = time.Duration(1+dice.IntN(12)) * time.Millisecond
			}
			both.Go(func() {
				var out bytes.Buffer
				cmd.Stderr = &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				if kill > 0 {
					time.AfterFunc(kill, func() { cmd.Process.Kill() })
				}
				if err := cmd.Wait(); err != nil && kill == 0 {
					t.Errorf("pair %d: %v, %s", i, err, out.String())
				}
			})
		}
		both.Wait()
	}
	s.run(hook.Prepare, hook.Apply)
	if got, wanted := s.tree(), want(t); got != wanted {
		t.Errorf("in the end:\n%s", differing(wanted, got))
	}
	s.run(hook.Finish, hook.Clean)
	if got := s.beside(); got != "c1.json host root" {
		t.Errorf("beside the hook file: %s", got)
	}
	s.canary()
}

// replace gives a file new contents as a container manager does.
func replace(t testing.TB, name string, data []byte) {
	t.Helper()
	temp := filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, name); err != nil {
		t.Fatal(err)
	}
}

// F15: two hook files of one root do not take each other's temporaries away.
func TestF15TwoHookFilesOfOneRoot(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	second := &stand{t: t, root: s.root, host: s.host, file: filepath.Join(filepath.Dir(s.file), "c2.json"), spec: s.spec}
	second.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libother.so.1", Target: "libcuda.so.550.1"}}
	second.write()
	var both sync.WaitGroup
	for _, one := range []*stand{s, second} {
		both.Go(func() {
			for range 20 {
				if _, err := one.try(hook.Apply); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	tree := s.tree()
	if strings.Contains(tree, ".cdi-hook-") || !strings.Contains(tree, "libcuda.so.1 ") || !strings.Contains(tree, "libother.so.1 ") {
		t.Errorf("in the end:\n%s", tree)
	}
}

// F17: a hundred starts leave what one leaves, to the last time stamp.
func TestF17AHundredStarts(t *testing.T) {
	s := newStand(t, "dir usr/lib/gpu")
	if err := os.WriteFile(s.path("usr/lib/gpu/libgood.so.1.2"), library(t, "libgood.so.1"), 0o644); err != nil {
		t.Fatal(err)
	}
	full(s)
	s.run(hook.Prepare, hook.Apply)
	stamps := func() string {
		var out strings.Builder
		for _, p := range []string{"etc", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "usr/lib/gpu", "usr/lib/gpu/libcuda.so.1", "usr/lib/gpu/libgood.so.1"} {
			st, err := os.Lstat(s.path(p))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, p, st.ModTime().UnixNano(), st.Sys().(*syscall.Stat_t).Ino)
		}
		return out.String()
	}
	once, written := s.tree()+s.beside(), stamps()
	for range 99 {
		s.run(hook.Prepare, hook.Apply)
	}
	if got := s.tree() + s.beside(); got != once {
		t.Errorf("after a hundred runs:\n%s", differing(once, got))
	}
	if got := stamps(); got != written {
		t.Errorf("something was written again:\n%s", differing(written, got))
	}
	for range 10 { // whole starts and stops
		s.run(hook.Prepare, hook.Apply, hook.Finish)
	}
	s.run(hook.Prepare, hook.Apply)
	if got := s.tree() + s.beside(); got != once {
		t.Errorf("after starts and stops:\n%s", differing(once, got))
	}
}
