package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// claimEnv has a process of this test claim a prefix in a directory and in every
// hierarchy of cgroups, say it, and wait.
const claimEnv = "GPURIG_TEST_CLAIM"

func init() {
	parent := os.Getenv(claimEnv)
	if parent == "" {
		return
	}
	prefix, c, err := claimPrefix(claimable(parent))
	fmt.Println(prefix, err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	c.release()
	os.Exit(0)
}

// claimable are a directory and, where we may, the hierarchies of cgroups.
func claimable(parent string) []string {
	out := []string{parent}
	if os.Geteuid() == 0 {
		if more, err := hierarchies("/sys/fs/cgroup"); err == nil {
			out = append(out, more...)
		}
	}
	return out
}

// What a killed run left goes, from a directory and from every hierarchy of the
// machine; what belongs to one that lives stays, in whatever process namespace it is.
func TestWhatAKilledRunLeftIsSweptAndNothingElse(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string][]string{
		"here":                         {self},
		"in another process namespace": {"unshare", "--pid", "--fork", "--kill-child", self},
	} {
		t.Run(name, func(t *testing.T) {
			if command[0] != self && os.Geteuid() != 0 {
				t.Skip("a process namespace needs root")
			}
			parent := t.TempDir()
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), claimEnv+"="+parent)
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			prefix, said, _ := strings.Cut(strings.TrimSpace(line), " ")
			if err != nil || said != "<nil>" {
				t.Fatalf("the other run says %q, %v", line, err)
			}
			var dirs []string
			for _, p := range claimable(parent) {
				if dir := filepath.Join(p, prefix); exists(dir) {
					dirs = append(dirs, dir)
					if err := os.Mkdir(filepath.Join(dir, "c1.pivot"), 0o755); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { removeCgroup(dir) })
				}
			}
			if len(dirs) == 0 || os.Geteuid() == 0 && len(dirs) == 1 && len(claimable(parent)) > 1 {
				t.Errorf("the other run has %q of %q", dirs, claimable(parent))
			}
			sweepAll := func() {
				t.Helper()
				if err := sweepDirs(parent); err != nil {
					t.Fatal(err)
				}
				if os.Geteuid() == 0 {
					parents, err := cgroupParents("/")
					if err == nil {
						err = sweepCgroups(parents)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			sweepAll()
			for _, d := range dirs {
				if !exists(filepath.Join(d, "c1.pivot")) {
					t.Errorf("%s of a run that lives is gone", d)
				}
			}
			if left(claimable(parent), prefix) || left(claimable(parent), prefix+"-c1") {
				t.Errorf("%s is said to be left by a run that lives", prefix)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed, as asked
			waitReleased(t, dirs)
			if !left(claimable(parent), prefix) || !left(claimable(parent), prefix+"-c1") {
				t.Errorf("%s is not said to be left by a run that was killed", prefix)
			}
			sweepAll()
			for _, d := range dirs {
				if exists(d) {
					t.Errorf("%s of a killed run is left", d)
				}
			}
			if !left(claimable(parent), prefix+"-c1") {
				t.Errorf("what has the prefix %s, which is nobody's, is not said to be left", prefix)
			}
		})
	}
}

// waitReleased waits for the end of a process that may end after the one we killed.
func waitReleased(t *testing.T, dirs []string) {
	t.Helper()
	for _, d := range dirs {
		for {
			f, err := lock(d)
			if err == nil {
				f.Close()
				break
			}
			if !errors.Is(err, errHeld) {
				t.Fatal(err)
			}
		}
	}
}

// A name that somebody has, of a run in another process namespace say, is not taken.
func TestClaimsTakeNewNamesOnly(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	taken := fmt.Sprintf("%s%d-%d", prefixStart, os.Getpid(), prefixes.Load()+1)
	if err := os.Mkdir(filepath.Join(two, taken), 0o755); err != nil {
		t.Fatal(err)
	}
	prefix, c, err := claimPrefix([]string{one, two})
	if err != nil || prefix == taken || len(c) != 2 {
		t.Fatalf("claimPrefix() = %s, %d, %v; %s is taken", prefix, len(c), err, taken)
	}
	c.release()
	if _, err := os.Stat(filepath.Join(one, taken)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a name that was given up: %v", err)
	}
	if _, _, err := claimPrefix([]string{filepath.Join(one, "nothing")}); err == nil {
		t.Error("claimed below a directory that is not there")
	}
}

// Names that only look like ours are nobody's to remove.
func TestLeftIsOfOurNamesAlone(t *testing.T) {
	for _, name := range []string{"", "gpurig", "gpurig-1", "gpurig-x-1", "gpurig-1-x", "gpurig-1-1x", "my-gpurig-1-1", "c1"} {
		if left([]string{t.TempDir()}, name) {
			t.Errorf("left(%q): want not ours", name)
		}
	}
	for _, name := range []string{"gpurig-1-1", "gpurig-1-1-glibc", "gpurig-12-34-c5"} {
		if !left([]string{t.TempDir()}, name) {
			t.Errorf("left(%q) is false, and nobody has it", name)
		}
	}
}
