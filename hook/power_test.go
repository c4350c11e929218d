package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurig/hook"
)

// TestLeastPowerBeforeTheImage follows the calls of the shipped program: rights go
// before anything of the root is opened for more than a handle, on every thread
// that there is, and threads that come later have them from those.
func TestLeastPowerBeforeTheImage(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "strace is not installed")
	}
	program := hookProgram(t)
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.conf /opt/lib")
		s.walk = walk
		full(s)
		s.write()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
			log := filepath.Join(t.TempDir(), "trace")
			cmd := exec.CommandContext(t.Context(), strace, append([]string{"-f", "-y", "-s", "300", "-o", log, program}, s.args(stage)...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v, %s", stage, err, out)
			}
			trace, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			judgePower(t, s.root, string(trace))
		}
		s.canary()
	})
}

var (
	threadOf = regexp.MustCompile(`^(\d+) +`)
	cloned   = regexp.MustCompile(`clone\(.* = (\d+)$`)
	resumed  = regexp.MustCompile(`^\d+ +<\.\.\. \w+ resumed>`)
	reads    = regexp.MustCompile(`\b(openat2?|getdents64|read|readlinkat)\(\d*<?([^>"]*)`)
)

func judgePower(t *testing.T, root, trace string) {
	t.Helper()
	threads := map[string]map[string]bool{} // what each gave up
	first := true
	filtered := false
	begun := map[string]string{}
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		m := threadOf.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id := m[1]
		if start, ok := strings.CutSuffix(line, "<unfinished ...>"); ok {
			begun[id] = start
			continue
		}
		if rest := resumed.FindString(line); rest != "" {
			line = begun[id] + line[len(rest):]
		}
		if threads[id] == nil {
			threads[id] = map[string]bool{}
		}
		if c := cloned.FindStringSubmatch(line); c != nil {
			if threads[c[1]] == nil {
				threads[c[1]] = map[string]bool{}
			}
			for what := range threads[id] {
				threads[c[1]][what] = true
			}
		}
		for what, call := range map[string]string{"capabilities": "capset(", "no_new_privs": "prctl(PR_SET_NO_NEW_PRIVS, 1", "landlock": "landlock_restrict_self("} {
			if strings.Contains(line, call) && strings.Contains(line, " = 0") {
				threads[id][what] = true
			}
		}
		if strings.Contains(line, "seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC") && strings.Contains(line, " = 0") {
			for id := range threads { // with the filter they all have it
				threads[id]["no_new_privs"] = true
			}
		}
		filtered = filtered || strings.Contains(line, "seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC") && strings.Contains(line, " = 0")
		r := reads.FindStringSubmatch(line)
		if r == nil || !first || strings.Contains(line, "O_PATH") || !strings.HasPrefix(r[2], root) {
			continue
		}
		first = false
		if !filtered {
			t.Errorf("the image is read before the filter is there: %s", line)
		}
		for _, what := range []string{"capabilities", "no_new_privs"} {
			for id := range threads {
				if !threads[id][what] && strings.Contains(trace, "\n"+id+" ") {
					t.Errorf("thread %s still has its rights (%s) at the first read: %s", id, what, line)
				}
			}
		}
	}
	if first {
		t.Errorf("the trace shows no read of the image: it does not show what it should")
	}
}

// TestLeastPowerHolds: what a fault in the hook could try then.
func TestLeastPowerHolds(t *testing.T) {
	s := newStand(t, "dir usr/lib/gpu")
	full(s)
	s.write()
	cmd := hookCommand(t, s.root, s.file, "/etc/passwd")
	cmd.Args[0] = asConfined
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	for _, want := range []string{
		"execve: operation not permitted", "fork: operation not permitted", "socket: operation not permitted",
		"mount: operation not permitted", "unshare: operation not permitted", "ptrace: operation not permitted", "mknod: operation not permitted",
		"a thread: done", "a file in the root: done", "a file beside the hook file: done", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "landlock") && !strings.Contains(string(out), "a file of the host: permission denied") {
		t.Errorf("Landlock is there, and a file of the host can be read:\n%s", out)
	}
	if os.Geteuid() == 0 && !strings.Contains(string(out), "CapEff:\t00000000000000cb") {
		t.Errorf("it has other capabilities than CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID:\n%s", out)
	}
	s.canary()
}
