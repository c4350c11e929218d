package hook_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

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
