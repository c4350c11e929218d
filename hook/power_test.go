package hook_test

import (
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

// TestLeastPowerBeforeTheImage follows the calls of the shipped program: rights go
// before anything of the root is opened for more than a handle, on every thread
// that there is, and threads that come later have them from those. The filter
// then refuses nothing of an ordinary run, and no program is run (A9).
func TestLeastPowerBeforeTheImage(t *testing.T) {
	program := hookProgram(t)
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.conf /opt/lib")
		s.walk = walk
		full(s)
		s.write()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
			out, trace, err := s.traced(program, stage)
			if err != nil {
				t.Fatalf("%s: %v, %s", stage, err, out)
			}
			judgePower(t, s.root, trace, true)
		}
		s.canary()
	})
}

// A trace that lacks one of the steps is seen to: the judge is none that is always
// content.
func TestLeastPowerIsMissed(t *testing.T) {
	s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.conf /opt/lib")
	full(s)
	s.spec.MountPoints = nil
	s.write()
	out, trace, err := s.traced(hookProgram(t), hook.Apply)
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	steps := map[string]string{"capset(": "(capabilities)", "SECCOMP_SET_MODE_FILTER": "the filter is there: false", "RLIMIT_DATA, {": "memory has no bound"}
	if hasLandlock() {
		steps["landlock_restrict_self"] = "(landlock)"
	}
	for call, want := range steps {
		var without strings.Builder
		for line := range strings.Lines(trace) {
			if !strings.Contains(line, call) {
				without.WriteString(line)
			}
		}
		if problems := strings.Join(powerProblems(s.root, without.String(), true), "\n"); !strings.Contains(problems, want) {
			t.Errorf("without %s: %q; want %q", call, problems, want)
		}
	}
	if problems := powerProblems(s.root, trace+"\n1 execve(\"/bin/sh\", [\"sh\"]) = 0\n", true); len(problems) == 0 {
		t.Error("a program that is run is not seen")
	}
	if problems := powerProblems(filepath.Join(s.root, "none"), trace, true); len(problems) == 0 {
		t.Error("a trace that shows nothing of the image is enough")
	}
}

// TestLeastPowerOnOtherKernels: where there is no seccomp or no Landlock, or where
// an outer filter forbids them, the rest is given up all the same; a right that
// can be given up and is not is a failure, before the image is read (F10).
func TestLeastPowerOnOtherKernels(t *testing.T) {
	program := hookProgram(t)
	for name, tc := range map[string]struct {
		faults   []string
		filtered bool
		fails    string
	}{
		"no seccomp":                 {[]string{"seccomp:error=ENOSYS"}, false, ""},
		"seccomp without this flag":  {[]string{"seccomp:error=EINVAL"}, false, ""},
		"seccomp is forbidden":       {[]string{"seccomp:error=EPERM"}, false, ""},
		"no Landlock":                {[]string{"landlock_create_ruleset:error=ENOSYS"}, true, ""},
		"Landlock is switched off":   {[]string{"landlock_create_ruleset:error=EOPNOTSUPP"}, true, ""},
		"neither":                    {[]string{"seccomp:error=ENOSYS", "landlock_create_ruleset:error=ENOSYS"}, false, ""},
		"Landlock fails halfway":     {[]string{"landlock_add_rule:error=ENOMEM:when=2"}, true, "landlock: cannot allocate memory"},
		"Landlock fails at its end":  {[]string{"landlock_restrict_self:error=EPERM"}, true, "landlock: operation not permitted"},
		"seccomp has no memory":      {[]string{"seccomp:error=ENOMEM"}, false, "seccomp: cannot allocate memory"},
		"capabilities do not go":     {[]string{"capset:error=EPERM"}, true, "capset: operation not permitted"},
		"capabilities cannot be had": {[]string{"capget:error=EINVAL"}, true, "capget: invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, "dir usr/lib/gpu", "file etc/ld.so.conf /opt/lib")
			full(s)
			s.spec.MountPoints = nil
			s.write()
			before := s.tree()
			out, trace, err := s.traced(program, hook.Apply, tc.faults...)
			s.canary()
			if !strings.Contains(trace, "(INJECTED)") {
				t.Fatalf("the fault is not where it should be: %s", trace)
			}
			if tc.fails == "" {
				if err != nil {
					t.Fatalf("%v, %s", err, out)
				}
				judgePower(t, s.root, trace, tc.filtered)
				if strings.Count(out, "this kernel has no") != 1 || strings.Contains(out, "seccomp") == tc.filtered || strings.Contains(out, "Landlock") != (strings.Contains(strings.ToLower(name), "landlock") || name == "neither" || !hasLandlock()) {
					t.Errorf("it said %q of what is not there", out)
				}
				return
			}
			if err == nil || !strings.Contains(out, tc.fails) {
				t.Errorf("%v, %s; want %q", err, out, tc.fails)
			}
			if now := s.tree(); now != before {
				t.Errorf("it worked with its rights:\n%s", differing(before, now))
			}
		})
	}
}

// traced runs one stage under strace, with faults, and returns what was said and
// all calls.
func (s *stand) traced(program string, stage hook.Stage, faults ...string) (said, trace string, err error) {
	s.t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(s.t, "strace is not installed")
	}
	log := filepath.Join(s.t.TempDir(), "trace")
	args := []string{"-f", "-y", "-s", "300", "-o", log}
	for _, f := range faults {
		args = append(args, "-e", "inject="+f)
	}
	cmd := exec.CommandContext(s.t.Context(), strace, append(append(args, program), s.args(stage)...)...)
	cmd.Env = []string{"GOGC=1"} // the runtime's calls, too, many times
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		s.t.Fatal(readErr)
	}
	return string(out), string(text), err
}

var (
	threadOf = regexp.MustCompile(`^(\d+) +`)
	cloned   = regexp.MustCompile(`clone\(.* = (\d+)$`)
	resumed  = regexp.MustCompile(`^\d+ +<\.\.\. \w+ resumed>`)
	// A regular file cannot be polled, and a signal's end shows the call before it.
	refusedByItself = regexp.MustCompile(`\b(epoll_ctl|rt_sigreturn)\(`)

	// The trace of a kernel that a test makes one without Landlock.
	noLandlock  = regexp.MustCompile(`landlock_create_ruleset(\(| resumed>).*\(INJECTED\)`)
	memoryBound = regexp.MustCompile(`RLIMIT_DATA, \{rlim_cur=(256\*1024\*1024|262144\*1024), rlim_max=(256\*1024\*1024|262144\*1024)\}, +NULL *\) += 0`)
	reads       = regexp.MustCompile(`\b(openat2?|getdents64|read|readlinkat)\(\d*<?([^>"]*)`)
)

// hasLandlock reports whether this kernel has Landlock, and has it switched on:
// landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION.
func hasLandlock() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	return errno == 0
}

func judgePower(t *testing.T, root, trace string, filter bool) {
	t.Helper()
	for _, problem := range powerProblems(root, trace, filter) {
		t.Error(problem)
	}
}

// tracedCalls are the lines of a trace by thread, those whole that strace wrote in two.
func tracedCalls(trace string) iter.Seq2[string, string] {
	return func(yield func(id, line string) bool) {
		begun := map[string]string{}
		for line := range strings.Lines(trace) {
			line = strings.TrimSpace(line)
			m := threadOf.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if start, ok := strings.CutSuffix(line, "<unfinished ...>"); ok {
				begun[m[1]] = start
				continue
			}
			if rest := resumed.FindString(line); rest != "" {
				line = begun[m[1]] + line[len(rest):]
			}
			if !yield(m[1], line) {
				return
			}
		}
	}
}

// powerProblems says what in a trace shows a right that was still there when the
// image was read first. filter: the kernel takes filters of system calls.
func powerProblems(root, trace string, filter bool) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	threads := map[string]map[string]bool{} // what each gave up
	gone := []string{"bounding set", "capabilities", "no_new_privs"}
	if hasLandlock() && !noLandlock.MatchString(trace) {
		gone = append(gone, "landlock")
	}
	first := true
	filtered := false
	bounded := false // P5
	for id, line := range tracedCalls(trace) {
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
		for what, call := range map[string]string{"bounding set": "prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN", "capabilities": "capset(", "no_new_privs": "prctl(PR_SET_NO_NEW_PRIVS, 1", "landlock": "landlock_restrict_self("} {
			if strings.Contains(line, call) && strings.Contains(line, " = 0") && (what != "capabilities" || strings.Contains(line, "inheritable=0")) {
				threads[id][what] = true
			}
		}
		if strings.Contains(line, "seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC") && strings.Contains(line, " = 0") {
			for id := range threads { // with the filter they all have it
				threads[id]["no_new_privs"] = true
			}
		}
		if filtered && strings.Contains(line, "EPERM") && !strings.Contains(line, "INJECTED") && !refusedByItself.MatchString(line) {
			problem("the filter refuses what a run needs: %s", line)
		}
		filtered = filtered || strings.Contains(line, "seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC") && strings.Contains(line, " = 0")
		bounded = bounded || memoryBound.MatchString(line)
		r := reads.FindStringSubmatch(line)
		if r == nil || !first || strings.Contains(line, "O_PATH") || !strings.HasPrefix(r[2], root) {
			continue
		}
		first = false
		if filtered != filter {
			problem("the filter is there: %v; want %v at the first read of the image: %s", filtered, filter, line)
		}
		if !bounded {
			problem("memory has no bound at the first read: %s", line)
		}
		for _, what := range gone {
			for id := range threads {
				if !threads[id][what] && strings.Contains(trace, "\n"+id+" ") {
					problem("thread %s still has its rights (%s) at the first read: %s", id, what, line)
				}
			}
		}
	}
	if n := len(execCall.FindAllString(trace, -1)); n != 1 {
		problem("%d programs were run, want cdi-hook alone", n)
	}
	if first {
		problem("the trace shows no read of the image: it does not show what it should")
	}
	return problems
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
		"execveat: operation not permitted", "executable memory: operation not permitted", "to make memory executable: operation not permitted",
		"a signal to another process: operation not permitted", "a signal to another thread: operation not permitted", "dumpable: operation not permitted",
		"io_uring: operation not permitted", "a call that is not there: operation not permitted",
		"a thread: done", "a file in the root: done", "a file beside the hook file: done", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if hasLandlock() && !strings.Contains(string(out), "a file of the host: permission denied") {
		t.Errorf("Landlock is there, and a file of the host can be read:\n%s", out)
	}
	if os.Geteuid() == 0 && !strings.Contains(string(out), "CapPrm:\t00000000000000cb\nCapEff:\t00000000000000c9\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n") {
		t.Errorf("it has other capabilities than CHOWN, FOWNER, SETGID and SETUID, and DAC_OVERRIDE not in effect:\n%s", out)
	}
	s.canary()
}
