package hook_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// stages are a container's life, one after the other.
var stages = []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean}

// A faulty is a run of the hook that can be repeated from the same beginning.
type faulty struct {
	*stand
	t       *testing.T
	start   string                // the root and its surroundings, kept aside
	log     string                // of strace
	want    map[hook.Stage]string // what each stage leaves without a fault
	strace  string
	program string
	// Of the last run with a fault: its stage, and whether the fault came to pass.
	stage    hook.Stage
	affected bool
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
	f := &faulty{stand: newStandIn(t, inMemory(t), "dir usr/lib/gpu", "link usr/lib/gpu/libcuda.so.1 libcuda.so.470", "file etc/ld.so.cache old"), t: t, strace: strace, program: hookProgram(t)}
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
	f.stage = stage
	calls, _, _ := strings.Cut(fault, ":")
	args := append([]string{"-f", "--seccomp-bpf", "-o", f.log, "-e", "trace=" + calls, "-e", "inject=" + fault, f.program}, f.args(stage)...)
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
