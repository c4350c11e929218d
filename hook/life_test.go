package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

const isLate = "was started again"

// orders are all orders of the stages of n lives, "p1 a1 f1 p2 …", in which each
// life's are in their own order, and the next one begins when this one's root is
// applied to: it cannot have stopped before. A late finish comes at any time.
func orders(n int) [][]string {
	var out [][]string
	var next func(done []string, at []int)
	next = func(done []string, at []int) {
		if len(done) == 3*n {
			out = append(out, slices.Clone(done))
		}
		for l := range n {
			if at[l] == 3 || l > 0 && at[l] == 0 && at[l-1] < 2 {
				continue
			}
			more := slices.Clone(at)
			more[l]++
			next(append(slices.Clip(done), fmt.Sprintf("%c%d", "paf"[at[l]], l)), more)
		}
	}
	next(nil, make([]int, n))
	return out
}

// TestALateHookTakesNothingOfTheNextLife (F15): the stages of two and three lives of one
// container, in every order that can be. While one is running, all that it wants
// is there; after the last, the root is what one life leaves.
func TestALateHookTakesNothingOfTheNextLife(t *testing.T) {
	each(t, func(t *testing.T, walk bool) {
		lives := orders(2)
		if !walk {
			lives = append(lives, orders(3)...)
		}
		for _, order := range lives {
			t.Run(strings.Join(order, " "), func(t *testing.T) {
				s := newStand(t)
				s.walk = walk
				full(s)
				s.run(hook.Prepare, hook.Apply)
				running := s.tree()
				s.run(hook.Finish)
				stopped := s.tree()

				monitors := []*monitor{newMonitor(t), newMonitor(t), newMonitor(t)}
				last, late, held, up := -1, 0, false, false // the last life has prepared the root, and runs
				for _, step := range order {
					l := int(step[1] - '0')
					switch step[0] {
					case 'p':
						monitors[l].hook(s, "pre-start")
						last, held, up = l, true, false
					case 'a':
						s.run(hook.Apply)
						up = l == last
					case 'f':
						said := monitors[l].hook(s, "post-stop")
						if strings.Contains(said, isLate) != (l < last && held) {
							t.Errorf("%s: %s", step, said)
						}
						if l < last {
							late++
						} else {
							held, up = false, false
						}
					}
					if now := s.tree(); up && now != running {
						t.Fatalf("%s: life %d runs without something:\n%s", step, last, differing(running, now))
					}
				}
				if now := s.tree(); now != stopped {
					t.Errorf("in the end:\n%s", differing(stopped, now))
				}
				t.Logf("%d hooks were late", late)
				s.run(hook.Clean)
				if got := s.beside(); got != "c1.json host root" {
					t.Errorf("beside the hook file: %s", got)
				}
				s.canary()
			})
		}
	})
}

// TestALateHookThroughWrappers (F15): what is between the monitor and the hook, here or
// there, does not matter.
func TestALateHookThroughWrappers(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	wraps := []string{"%s", "( %s ); true", "/bin/sh -c '( %s ) ; true'; true", "env %s"}
	for _, before := range wraps {
		for _, after := range wraps {
			old, young := newMonitor(t), newMonitor(t)
			old.run(fmt.Sprintf(before, s.lxcHook("pre-start")))
			made := s.tree()
			if said := young.run(fmt.Sprintf(before, s.lxcHook("pre-start"))); !strings.HasSuffix(said, "exit 0") {
				t.Fatal(said)
			}
			if said := old.run(fmt.Sprintf(after, s.lxcHook("post-stop"))); !strings.Contains(said, isLate) || s.tree() != made {
				t.Errorf("%q, %q: a late hook: %s\n%s", before, after, said, differing(made, s.tree()))
			}
			if said := young.run(fmt.Sprintf(after, s.lxcHook("post-stop"))); strings.Contains(said, isLate) || s.tree() == made {
				t.Errorf("%q, %q: it takes itself for late: %s", before, after, said)
			}
		}
	}
	s.canary()
}

// TestKilledHooksBetweenTwoLives (F15): the next life's first hook is killed at each of
// its changes, with or without its monitor, before the late hook of the last life
// comes. The late one takes nothing of a life that goes on, and the life after
// them finds and leaves all as if they had not been (P6).
func TestKilledHooksBetweenTwoLives(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "strace is not installed: it kills the hooks")
	}
	calls := []string{"renameat"}
	if thorough() {
		calls = []string{"mkdirat", "renameat", "unlinkat"}
	}
	if os.Getenv(allFaults) != "" {
		calls = append(calls, "fsync", "openat")
	}
	for _, call := range calls {
		for _, monitorToo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/monitor=%v", call, monitorToo), func(t *testing.T) {
				s := newStand(t)
				newer := func() { // another driver, in another folder
					full(s)
					s.spec.MountPoints[1].Path, s.spec.LibraryDirs[0] = "/usr/lib/new/gpu/libcuda.so.560.2", "/usr/lib/new/gpu"
					s.spec.Links[0] = hookspec.Link{Path: "/usr/lib/new/gpu/libcuda.so.1", Target: "libcuda.so.560.2"}
				}
				newer()
				s.run(hook.Prepare, hook.Apply)
				running := s.tree()
				s.run(hook.Finish)
				stopped := s.tree()
				s.run(hook.Clean)
				kills := 0
				for n := 1; n < 200; n++ {
					full(s)
					s.write()
					old := newMonitor(t)
					old.hook(s, "pre-start")
					s.run(hook.Apply)
					newer()
					s.write()
					killed := newMonitor(t)
					said := killed.run(fmt.Sprintf("LXC_HOOK_TYPE=pre-start LXC_NAME=c1 LXC_ROOTFS_PATH=dir:%s %s -f -o /dev/null -e trace=%s -e inject=%s:signal=KILL:when=%d %s %s",
						s.root, strace, call, call, n, hookProgram(t), s.file))
					if strings.HasSuffix(said, "exit 0") {
						break
					}
					kills++
					if monitorToo {
						killed.end()
					}
					old.hook(s, "post-stop") // late, or not: the killed one may not have come to its journal
					if !monitorToo {
						killed.hook(s, "post-stop") // its start failed
						if got := s.tree(); strings.Contains(got, "libcuda.so.550.1 1") || strings.Contains(got, "libcuda.so.560.2 1") {
							t.Fatalf("kill %d: mount points are left:\n%s", n, got)
						}
					}
					next := newMonitor(t)
					next.hook(s, "pre-start")
					s.run(hook.Apply)
					if got := s.tree(); got != running {
						t.Fatalf("kill %d: the next life runs with something else:\n%s", n, differing(running, got))
					}
					next.hook(s, "post-stop")
					if got := s.tree(); got != stopped {
						t.Fatalf("kill %d: the next life leaves:\n%s", n, differing(stopped, got))
					}
					for _, m := range []*monitor{old, killed, next} {
						m.end()
					}
					s.run(hook.Clean)
				}
				if kills == 0 {
					t.Error("no hook was killed")
				}
				s.canary()
			})
		}
	}
}
