package hook_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A monitor is a process that runs the hooks of one life one after the other, as
// liblxc's does: by a shell.
type monitor struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func newMonitor(t testing.TB) *monitor {
	t.Helper()
	m := &monitor{t: t, cmd: exec.CommandContext(t.Context(), "/bin/sh", "-c", `while read -r line; do /bin/sh -c "$line" 2>&1; echo "exit $?"; done`)}
	m.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.in, m.out = in, bufio.NewScanner(out)
	t.Cleanup(m.end)
	return m
}

// end ends the monitor, whatever it is at.
func (m *monitor) end() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

// run runs one line, to its end, and returns what it said and "exit N".
func (m *monitor) run(line string) string {
	m.t.Helper()
	if _, err := io.WriteString(m.in, line+"\n"); err != nil {
		m.t.Fatal(err)
	}
	var said []string
	for m.out.Scan() {
		said = append(said, m.out.Text())
		if strings.HasPrefix(m.out.Text(), "exit ") {
			return strings.Join(said, "\n")
		}
	}
	m.t.Fatalf("%s: the monitor ended after %q", line, said)
	return ""
}

// lxcHook is how liblxc runs cdi-hook for a container that is not started.
func (s *stand) lxcHook(typ string) string {
	walk := ""
	if s.walk {
		walk = "--no-openat2 "
	}
	return fmt.Sprintf("LXC_HOOK_TYPE=%s LXC_NAME=%s LXC_ROOTFS_PATH=dir:%s %s %s%s", typ, s.spec.Container, s.root, hookProgram(s.t), walk, s.file)
}

func (m *monitor) hook(s *stand, typ string) string {
	m.t.Helper()
	said := m.run(s.lxcHook(typ))
	if !strings.HasSuffix(said, "exit 0") {
		m.t.Fatalf("%s: %s", typ, said)
	}
	return said
}

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

// TestALifeThatIsOverHoldsNothing (F15): what a life that ended without its last hook has
// noted (killed, crashed, of another boot, its process id used again) keeps nobody
// from taking back; nor does a journal without a life, of an older hook.
func TestALifeThatIsOverHoldsNothing(t *testing.T) {
	other := newMonitor(t) // somebody who runs
	stat := func(pid int) (start string) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))[20]
	}
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	boot, pid := strings.TrimSpace(string(data)), other.cmd.Process.Pid
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ") Z ") {
			break
		}
	}
	for name, c := range map[string]struct {
		life string
		late bool
	}{
		"goes on":                       {fmt.Sprintf(`{"boot": %q, "by": [{"pid": %d, "start": %s}]}`, boot, pid, stat(pid)), true},
		"goes on behind one that ended": {fmt.Sprintf(`{"boot": %q, "by": [{"pid": 4194305, "start": 7}, {"pid": %d, "start": %s}]}`, boot, pid, stat(pid)), true},
		"another boot":                  {fmt.Sprintf(`{"boot": "x", "by": [{"pid": %d, "start": %s}]}`, pid, stat(pid)), false},
		"an id used again":              {fmt.Sprintf(`{"boot": %q, "by": [{"pid": %d, "start": 1}]}`, boot, pid), false},
		"ended":                         {fmt.Sprintf(`{"boot": %q, "by": [{"pid": 4194305, "start": 7}]}`, boot), false},
		"not waited for":                {fmt.Sprintf(`{"boot": %q, "by": [{"pid": %d, "start": %s}]}`, boot, zombie.Process.Pid, stat(zombie.Process.Pid)), false},
		"of nobody":                     {fmt.Sprintf(`{"boot": %q, "by": []}`, boot), false},
		"none":                          {`null`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			full(s)
			s.run(hook.Prepare)
			made := s.tree()
			s.changeLife(json.RawMessage(c.life))
			said := newMonitor(t).hook(s, "post-stop")
			if strings.Contains(said, isLate) != c.late || (s.tree() == made) != c.late {
				t.Errorf("late is %v: %s\n%s", !c.late, said, differing(made, s.tree()))
			}
			// By hand, order is the caller's.
			s.run(hook.Finish)
			if s.tree() == made {
				t.Error("by hand, nothing was taken back")
			}
			s.canary()
		})
	}
}

// changeLife writes another life into the journal.
func (s *stand) changeLife(l json.RawMessage) {
	s.t.Helper()
	var j map[string]json.RawMessage
	data, err := os.ReadFile(s.file + ".made")
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err == nil {
		j["life"] = l
		data, err = json.Marshal(j)
	}
	if err == nil {
		err = os.WriteFile(s.file+".made", data, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
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

// TestACopyHasAHookFileOfItsOwn (A33): a container that was copied with its
// configuration names the hook file of the one it is a copy of. It does not start,
// and what it runs changes nothing, neither in its root nor in that one's journal.
func TestACopyHasAHookFileOfItsOwn(t *testing.T) {
	s := newStand(t)
	full(s)
	s.write()
	first := newMonitor(t)
	first.hook(s, "pre-start")
	copied := filepath.Join(filepath.Dir(s.root), "copy")
	if out, err := exec.Command("cp", "-a", s.root, copied).CombinedOutput(); err != nil {
		t.Fatalf("cp: %s", out)
	}
	journal := s.journal()
	before, other := s.tree(), listing(t, copied)
	for _, line := range []string{
		"LXC_HOOK_TYPE=pre-start LXC_NAME=c2 LXC_ROOTFS_PATH=dir:" + copied + " " + hookProgram(t) + " " + s.file,
		"LXC_HOOK_TYPE=post-stop LXC_NAME=c2 LXC_ROOTFS_PATH=dir:" + copied + " " + hookProgram(t) + " " + s.file,
		"LXC_HOOK_TYPE=start-host LXC_NAME=c2 LXC_PID=$$ " + hookProgram(t) + " " + s.file,
		"LXC_HOOK_TYPE=mount LXC_NAME=c2 LXC_ROOTFS_MOUNT=" + copied + " " + hookProgram(t) + " " + s.file,
		"LXC_ROOTFS_PATH=dir:" + copied + " " + hookProgram(t) + " " + s.file + " c2 lxc pre-start",
	} {
		said := newMonitor(t).run(line)
		if !strings.HasSuffix(said, "exit 2") || !strings.Contains(said, `is for container "c1", and this is "c2"`) || !strings.Contains(said, "--name") {
			t.Errorf("%s: %s", line, said)
		}
	}
	if s.tree() != before || listing(t, copied) != other || s.journal() != journal {
		t.Error("the hook of the copy changed something")
	}

	// With a file of its own, each life is its own.
	own := *s
	own.root, own.file, own.spec.Container = copied, filepath.Join(filepath.Dir(s.file), "c2.json"), "c2"
	own.write()
	second := newMonitor(t)
	second.hook(&own, "pre-start")
	if said := second.hook(&own, "post-stop"); strings.Contains(said, isLate) {
		t.Error(said)
	}
	if s.tree() != before || s.journal() != journal {
		t.Error("a copy's life changed the other one's")
	}
	if said := first.hook(s, "post-stop"); strings.Contains(said, isLate) || s.tree() == before {
		t.Errorf("%s\n%s", said, s.tree())
	}
	s.canary()
}

func (s *stand) journal() string {
	s.t.Helper()
	data, err := os.ReadFile(s.file + ".made")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// TestALifeInAJournalThatCannotBeWritten: all is in place, and only who prepared
// it has changed: that is said, and is no failure (F6).
func TestALifeInAJournalThatCannotBeWritten(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	s := newStand(t)
	s.spec.MountPoints = []hookspec.MountPoint{{Path: "/run/nvidia", Dir: true}}
	dir := filepath.Join(filepath.Dir(s.file), "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.file = filepath.Join(dir, "c1.json")
	s.run(hook.Prepare)
	mountHere(t, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s.photo()
	said := newMonitor(t).hook(s, "pre-start")
	if !strings.Contains(said, "c1.json.made cannot be written") {
		t.Error(said)
	}
	s.canary()
}
