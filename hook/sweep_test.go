package hook_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// allFaults, set in the environment, has every fault injected at every call that
// reads, too. The job that owns the privileges takes every call that changes
// something, and the plain run one place of a few of them.
const allFaults = "GPURIG_FAULTS"

// changing are the system calls by which the hook changes something.
var changing = []string{"mkdirat", "symlinkat", "renameat", "unlinkat", "fchownat", "fchown", "fchmod", "fsync", "write"}

// reading are those by which it looks.
var reading = []string{"openat", "openat2", "read", "close", "flock", "fstat", "statx", "readlinkat", "newfstatat", "getdents64"}

// sweepFaults injects a kind of fault at call 1, 2, 3 … of each system call until
// the run is no longer affected, in every stage.
func sweepFaults(t *testing.T, kind string, judge func(f *faulty, what string, code int, said string)) {
	calls := changing
	if os.Getenv(allFaults) != "" {
		calls = slices.Concat(changing, reading)
	} else if !thorough() {
		calls = []string{"symlinkat", "renameat"}
	}
	sweepCalls(t, kind, calls, judge)
}

// sweepCalls is sweepFaults for these system calls.
func sweepCalls(t *testing.T, kind string, calls []string, judge func(f *faulty, what string, code int, said string)) {
	sweep{kind: kind, when: once, every: 1}.over(t, calls, judge)
}

// A sweep injects a kind of fault at one call after the other.
type sweep struct {
	kind  string             // in strace's words: "error=EIO"
	when  func(n int) string // which calls meet it, from the n-th on, in strace's words
	every int                // 2: at call 1, 3, 5 …; all of them with GPURIG_FAULTS
}

func once(n int) string      { return fmt.Sprint(n) }
func fromThere(n int) string { return fmt.Sprintf("%d+", n) }
func times(many int) func(int) string {
	return func(n int) string { return fmt.Sprintf("%d..%d", n, n+many-1) }
}

func (s sweep) over(t *testing.T, calls []string, judge func(f *faulty, what string, code int, said string)) {
	all := thorough() || os.Getenv(allFaults) != ""
	if os.Getenv(allFaults) != "" {
		s.every = 1
	}
	for _, call := range calls {
		t.Run(call+" "+s.kind, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			met := false
			for i, stage := range stages {
				for n := 1; ; n += s.every {
					f.rewind()
					f.run(stages[:i]...)
					when := s.when(n)
					what := fmt.Sprintf("%s, %s at %s %s", stage, s.kind, call, when)
					code, said := f.inject(stage, call+":"+s.kind+":when="+when)
					judge(f, what, code, said)
					f.oracle(stage, what)
					met = met || f.affected
					if !f.affected || !all {
						break
					}
				}
			}
			if !met {
				t.Errorf("%s is never called: the fault is not where it should be", call)
			}
		})
	}
}

// F1: killed at any change, a clean run converges.
func TestF1KilledAtEachChange(t *testing.T) {
	sweepFaults(t, "signal=KILL", func(f *faulty, what string, code int, said string) {})
}

// F34: SIGTERM leaves no temporary, even before the next run.
func TestF34EndedAtEachChange(t *testing.T) {
	sweepFaults(t, "signal=TERM", func(f *faulty, what string, code int, said string) {
		if strings.Contains(f.tree(), ".cdi-hook-") || strings.Contains(f.beside(), ".new") {
			f.t.Fatalf("%s: a temporary is left:\n%s%s", what, f.tree(), f.beside())
		}
		// Before the first line of ours, the signal ends the process by itself: -1.
		if code > 0 && !strings.Contains(said, "SIGTERM") && !strings.Contains(said, "terminated") {
			f.t.Fatalf("%s: exit %d without a reason: %q", what, code, said)
		}
	})
}

// F7: an error of the disk is reported, and nothing half-done stays, whether it is
// had once or from some call on for ever.
func TestF7DiskErrorsAtEachChange(t *testing.T) {
	judge := func(f *faulty, what string, code int, said string) {
		// The Go runtime writes too, to wake its own threads, and gives up there.
		if code != 0 && !strings.Contains(said, "input/output error") && !strings.Contains(said, "netpollBreak") {
			f.t.Fatalf("%s: exit %d without a reason: %q", what, code, said)
		}
	}
	sweepFaults(t, "error=EIO", judge)
	if thorough() {
		sweep{kind: "error=EIO", when: fromThere, every: 3}.over(t, []string{"fsync", "renameat", "unlinkat", "symlinkat", "fchmod"}, judge)
	}
}

// Errors of a full, read-only or foreign file system, and of the starter's limits:
// each of them at each call that changes something, whether or not Linux has it
// there today, and those of opening at each call that opens. All pairs of an error
// and a call are for GPURIG_FAULTS; a third of them has every error and every call.
func TestF4F5F6F8F11ErrorsAtEachChange(t *testing.T) {
	for i, errno := range []string{"ENOSPC", "EDQUOT", "EROFS", "EPERM", "EACCES", "EOVERFLOW", "EFBIG", "EMFILE", "ENOMEM"} {
		calls := changing
		if slices.Contains([]string{"ENOSPC", "EMFILE", "ENOMEM"}, errno) {
			calls = append(slices.Clone(changing), "openat2")
		}
		if !thorough() {
			if errno != "ENOSPC" {
				continue
			}
			calls = calls[:1]
		} else if os.Getenv(allFaults) == "" {
			calls = third(calls, i)
		}
		sweepCalls(t, "error="+errno, calls, func(f *faulty, what string, code int, said string) {
			if code != 0 && said == "" {
				f.t.Fatalf("%s: exit %d without a reason", what, code)
			}
			if strings.Contains(f.tree(), ".cdi-hook-") && !strings.Contains(what, "at unlinkat") {
				f.t.Fatalf("%s: a temporary is left:\n%s", what, f.tree())
			}
		})
	}
}

// third is every third call, from the i-th on.
func third(calls []string, i int) []string {
	var out []string
	for j, call := range calls {
		if (i+j)%3 == 0 {
			out = append(out, call)
		}
	}
	return out
}
