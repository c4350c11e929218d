package hook_test

import (
	"errors"
	"fmt"
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

// allFaults, set in the environment, has every fault injected at every call that
// reads, too. The job that owns the privileges takes every call that changes
// something, and the plain run one place of a few of them.
const allFaults = "GPURIG_FAULTS"

// stages are a container's life, one after the other.
var stages = []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean}

// changing are the system calls by which the hook changes something.
var changing = []string{"mkdirat", "symlinkat", "renameat", "unlinkat", "fchownat", "fchown", "fchmod", "fsync", "write"}

// A faulty is a run of the hook that can be repeated from the same beginning.
type faulty struct {
	*stand
	t        *testing.T
	start    string                // the root and its surroundings, kept aside
	log      string                // of strace
	want     map[hook.Stage]string // what each stage leaves without a fault
	strace   string
	program  string
	affected bool            // the fault of the last run came to pass
	ever     map[string]bool // calls at which one did
}

// newFaulty makes an image in which each kind of change is needed: a mount point,
// a link that replaces one of the image's and one of an earlier driver, the
// loader's three files, a SONAME link, something to take back.
func newFaulty(t *testing.T) *faulty {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "strace is not installed: it injects the faults")
	}
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		skip(t, "strace cannot trace here: %s", out)
	}
	f := &faulty{stand: newStandIn(t, inMemory(t), "dir usr/lib/gpu", "link usr/lib/gpu/libcuda.so.1 libcuda.so.470", "file etc/ld.so.cache old"), t: t, strace: strace, program: hookProgram(t), ever: map[string]bool{}}
	if err := os.WriteFile(f.path("usr/lib/gpu/libgood.so.1.2"), library(t, "libgood.so.1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // what is made there has another group first
		gpu := f.path("usr/lib/gpu")
		if err := errors.Join(os.Chown(gpu, 0, 12345), os.Chmod(gpu, 0o755|os.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
	}
	f.spec.Links = []hookspec.Link{{Path: "/opt/gpu/old", Target: "x"}, {Path: "/usr/lib/gpu/libcuda.so.1", Target: "libcuda.so.535"}}
	f.run(hook.Apply) // of the driver before
	if err := os.Remove(f.path("etc/ld.so.cache")); err != nil {
		t.Fatal(err)
	}
	f.plant(f.root, "file etc/ld.so.cache old")
	full(f.stand)
	f.write()
	f.start, f.log = inMemory(t), filepath.Join(inMemory(t), "log")
	f.copy(filepath.Dir(f.file), f.start)
	f.want = map[hook.Stage]string{}
	for _, stage := range stages {
		f.run(stage)
		f.want[stage] = f.state()
	}
	return f
}

// inMemory is a folder that no busy disk makes slow, unless TMPDIR says where.
func inMemory(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(memory, &st); os.Getenv("TMPDIR") != "" || err != nil || st.Type != unix.TMPFS_MAGIC || unix.Access(memory, unix.W_OK) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "cdi-hook-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (f *faulty) copy(from, to string) {
	f.t.Helper()
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		f.t.Fatalf("cp: %s", out)
	}
}

// rewind puts everything back as it was at the start.
func (f *faulty) rewind() {
	f.t.Helper()
	for _, name := range []string{f.root, f.file, f.file + ".made", f.file + ".made.new", f.file + ".lock"} {
		if err := os.RemoveAll(name); err != nil {
			f.t.Fatal(err)
		}
	}
	f.copy(f.start, filepath.Dir(f.file))
}

// state is what has to be the same after a fault and a clean run.
func (f *faulty) state() string {
	f.t.Helper()
	journal, err := os.ReadFile(f.file + ".made")
	if err != nil && !errors.Is(err, os.ErrNotExist) { // clean takes it away
		f.t.Fatal(err)
	}
	return f.tree() + f.beside() + "\n" + string(journal)
}

// inject runs one stage under strace with a fault; it returns the exit code and
// what was said.
func (f *faulty) inject(stage hook.Stage, fault string) (int, string) {
	f.t.Helper()
	calls, _, _ := strings.Cut(fault, ":")
	args := append([]string{"-f", "-o", f.log, "-e", "trace=" + calls, "-e", "inject=" + fault, f.program}, f.args(stage)...)
	cmd := exec.CommandContext(f.t.Context(), f.strace, args...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		f.t.Fatal(err)
	}
	trace, err := os.ReadFile(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	f.affected = strings.Contains(string(trace), "(INJECTED)") || strings.Contains(string(trace), "--- SIGTERM") || strings.Contains(string(trace), "killed by SIGKILL")
	return cmd.ProcessState.ExitCode(), string(out)
}

// oracle judges what a fault left: each file is old or new, and one clean run
// makes what a run without the fault makes. After a stage that takes back, so does
// the container's next start.
func (f *faulty) oracle(stage hook.Stage, what string) {
	f.t.Helper()
	f.canary()
	if cache, err := os.ReadFile(f.path("etc/ld.so.cache")); err == nil && string(cache) != "old" && !strings.HasPrefix(string(cache), "glibc-ld.so.cache1.1") {
		f.t.Fatalf("%s: the cache is neither old nor new: %q", what, cache)
	}
	if drop, err := os.ReadFile(f.path("etc/ld.so.conf.d/00-cdi-hook.conf")); err == nil && !strings.HasSuffix(string(drop), "/usr/lib/gpu\n") {
		f.t.Fatalf("%s: the drop-in is cut: %q", what, drop)
	}
	again := []hook.Stage{hook.Prepare, hook.Apply}
	if stage == hook.Finish || stage == hook.Clean {
		again = append([]hook.Stage{stage}, again...)
	}
	for _, next := range again {
		if _, err := f.try(next); err != nil {
			f.t.Fatalf("%s: a clean run afterwards, %s: %v", what, next, err)
		}
		if got := f.state(); next != hook.Prepare && got != f.want[next] {
			f.t.Fatalf("%s: a clean run afterwards, %s, makes something else (-want +got):\n%s", what, next, differing(f.want[next], got))
		}
	}
}

// sweepFaults injects a kind of fault at call 1, 2, 3 … of each system call until
// the run is no longer affected, in every stage.
func sweepFaults(t *testing.T, kind string, judge func(f *faulty, what string, code int, said string)) {
	calls := changing
	if os.Getenv(allFaults) != "" {
		calls = append(calls, "openat", "openat2", "read", "close", "flock", "fstat", "statx", "readlinkat", "newfstatat", "getdents64")
	} else if !thorough() {
		calls = []string{"symlinkat", "renameat"}
	}
	sweepCalls(t, kind, calls, judge)
}

// sweepCalls is sweepFaults for these system calls.
func sweepCalls(t *testing.T, kind string, calls []string, judge func(f *faulty, what string, code int, said string)) {
	all := thorough() || os.Getenv(allFaults) != ""
	for _, call := range calls {
		t.Run(call+" "+kind, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			for i, stage := range stages {
				for n := 1; ; n++ {
					f.rewind()
					f.run(stages[:i]...)
					what := fmt.Sprintf("%s, %s at %s %d", stage, kind, call, n)
					code, said := f.inject(stage, fmt.Sprintf("%s:%s:when=%d", call, kind, n))
					judge(f, what, code, said)
					f.oracle(stage, what)
					f.ever[call] = f.ever[call] || f.affected
					if !f.affected || !all {
						if n == 1 && !f.affected && stage == hook.Clean && !f.ever[call] {
							t.Errorf("%s is never called: the fault is not where it should be", call)
						}
						break
					}
				}
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

// F7: an error of the disk is reported, and nothing half-done stays.
func TestF7DiskErrorsAtEachChange(t *testing.T) {
	sweepFaults(t, "error=EIO", func(f *faulty, what string, code int, said string) {
		// The Go runtime writes too, to wake its own threads, and gives up there.
		if code != 0 && !strings.Contains(said, "input/output error") && !strings.Contains(said, "netpollBreak") {
			f.t.Fatalf("%s: exit %d without a reason: %q", what, code, said)
		}
	})
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

// The same errors, and the disk's, at each call that makes a file: the lock, the
// journal and each temporary. These are openat with O_CREAT, of a name in a
// directory that was opened before; openat2 makes none.
func TestF4F5F6F7F8F11ErrorsWhereAFileIsMade(t *testing.T) {
	errnos, walks := []string{"EIO", "EROFS", "EDQUOT", "EPERM", "EACCES", "ENOSPC", "EMFILE", "ENFILE", "ENOMEM", "EOVERFLOW", "ELOOP"}, []bool{false, true}
	if !thorough() {
		errnos, walks = errnos[:1], walks[:1]
	}
	for i, errno := range errnos {
		for j, walk := range walks {
			if thorough() && os.Getenv(allFaults) == "" && (i+j)%2 == 1 {
				continue // with GPURIG_FAULTS both for each
			}
			t.Run(fmt.Sprintf("%s/walk=%v", errno, walk), func(t *testing.T) {
				t.Parallel()
				f := newFaulty(t)
				f.walk = walk
				made := 0
				for i, stage := range stages {
					begin := func() {
						f.rewind()
						f.run(stages[:i]...)
					}
					begin()
					places := f.creating(stage)
					for k := range places {
						var what, said string
						code := 0
						for try := 1; ; try++ {
							begin()
							what = fmt.Sprintf("%s, %s at openat %d, which makes a file", stage, errno, places[k])
							code, said = f.inject(stage, fmt.Sprintf("openat:error=%s:when=%d", errno, places[k]))
							if strings.Contains(f.met(), "O_CREAT") {
								break
							}
							if try == 20 {
								t.Fatalf("%s: the fault is not where it should be:\n%s", what, f.met())
							}
							begin()
							if now := f.creating(stage); len(now) == len(places) { // the runtime had another thread do it
								places = now
							}
						}
						made++
						if code != 0 && said == "" {
							t.Fatalf("%s: exit %d without a reason", what, code)
						}
						// A journal that may not be written is none that is needed where the
						// stage before noted it all: the old one stays, as does a lock.
						if got := f.tree(); code == 0 && !strings.HasPrefix(f.want[stage], got) {
							t.Fatalf("%s: it said it was done, and (-want +got):\n%s", what, differing(f.want[stage], got))
						}
						if strings.Contains(f.tree(), ".cdi-hook-") || strings.Contains(f.beside(), ".new") {
							t.Fatalf("%s: a temporary is left:\n%s%s", what, f.tree(), f.beside())
						}
						f.oracle(stage, what)
					}
				}
				if made < 9 { // a lock in each of four stages, journals, the loader's three files
					t.Errorf("only %d calls that make a file", made)
				}
			})
		}
	}
}

// R12: a rename that the kernel says it did, and did not, is found by reading back.
func TestR12WhatWasNotMadeIsNotDone(t *testing.T) {
	f := newFaulty(t)
	found := 0
	for n := 1; ; n++ {
		f.rewind()
		f.run(hook.Prepare)
		code, said := f.inject(hook.Apply, fmt.Sprintf("renameat:retval=0:when=%d", n))
		if !f.affected {
			break
		}
		if code == 0 {
			for line := range strings.Lines(f.tree()) {
				if !strings.Contains(line, ".cdi-hook-") && !strings.Contains(f.want[hook.Apply], line) {
					t.Errorf("renameat %d was not done, and it said it was done, with %s", n, line)
				}
			}
			for _, p := range []string{"usr/lib/gpu/libcuda.so.1", "usr/lib/gpu/libgood.so.1", "etc/ld.so.conf", "etc/ld.so.conf.d/00-cdi-hook.conf"} {
				if _, err := os.Lstat(f.path(p)); err != nil {
					t.Errorf("renameat %d was not done, and it said it was done: %v", n, err)
				}
			}
		}
		if strings.Contains(said, "read back") {
			found++
		}
		f.canary()
	}
	if found < 3 {
		t.Errorf("%d of the links and files were found missing; want more", found)
	}
}

// creating runs a stage and counts which of its calls of openat make a file: by
// thread, as strace counts.
func (f *faulty) creating(stage hook.Stage) (places []int) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), f.strace, append([]string{"-f", "-o", f.log, "-e", "trace=openat", f.program}, f.args(stage)...)...)
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("%s: %v, %s", stage, err, out)
	}
	log, err := os.ReadFile(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(log)) {
		thread, call, _ := strings.Cut(line, " ")
		if strings.HasPrefix(strings.TrimSpace(call), "openat(") {
			count[thread]++
			if strings.Contains(call, "O_CREAT") {
				places = append(places, count[thread])
			}
		}
	}
	return places
}

// met is the calls of the last run that met its fault.
func (f *faulty) met() string {
	f.t.Helper()
	log, err := os.ReadFile(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "(INJECTED)") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// F9: interrupted calls are repeated; a path that keeps changing is given up.
func TestF9InterruptedCalls(t *testing.T) {
	f := newFaulty(t)
	for i, tc := range []struct {
		fault string
		fails bool
	}{
		{"symlinkat,renameat,unlinkat,mkdirat,fchownat,fsync,fchmod,fchown,openat2:error=EINTR:when=2", false},
		{"openat2:error=EAGAIN:when=2..1001", true},
		{"openat2:error=EINTR:when=3", false},
		{"openat2:error=EAGAIN:when=5..14", false},
		{"openat2:error=EAGAIN:when=2..128", false},
		{"openat:error=EINTR:when=40", false},
		{"symlinkat,renameat,unlinkat,mkdirat,fchownat:error=EINTR:when=1", false},
		{"fsync,fchmod,fchown:error=EINTR:when=1", false},
		{"openat2:error=ENOSYS:when=4+", false}, // F10, midway
		{"openat2:error=EPERM:when=4+", false},
	} {
		if i > 1 && !thorough() {
			break
		}
		f.rewind()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
			code, said := f.inject(stage, tc.fault)
			if (code != 0) != tc.fails {
				t.Errorf("%s, %s: exit %d, %s", stage, tc.fault, code, said)
			}
			if tc.fails && !strings.Contains(said, "keeps changing") {
				t.Errorf("%s, %s: %s", stage, tc.fault, said)
			}
		}
		f.oracle(hook.Apply, tc.fault)
	}
}

// differing tells the lines that only one of two texts has.
func differing(want, got string) string {
	var out strings.Builder
	for _, side := range []struct{ sign, in, other string }{{"-", want, got}, {"+", got, want}} {
		for line := range strings.Lines(side.in) {
			if !strings.Contains("\n"+side.other, "\n"+line) {
				out.WriteString(side.sign + line)
			}
		}
	}
	if out.Len() == 0 {
		return "only in the order of lines:\n" + got
	}
	return out.String()
}
