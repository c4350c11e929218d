package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/hook"
)

// TestF12SyncedBeforeItHasItsName: after a power cut a file is old or new, since
// its contents are on the disk before it takes its name, and each directory that
// got an entry is there after.
func TestF12SyncedBeforeItHasItsName(t *testing.T) {
	f := newFaulty(t)
	for _, stage := range []hook.Stage{hook.Prepare, hook.Apply} {
		log := filepath.Join(t.TempDir(), "trace")
		f.rewind()
		if stage == hook.Apply {
			f.run(hook.Prepare)
		}
		cmd := exec.CommandContext(t.Context(), f.strace, append([]string{"-f", "-y", "-s", "300", "-e", "trace=write,fsync,renameat,symlinkat,mkdirat", "-o", log, f.program}, f.args(stage)...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", stage, err, out)
		}
		trace, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		f.judgeSyncs(stage, string(trace))
		f.canary()
	}
}

// judgeSyncs follows the calls of one run: written but not synced is what must not
// be renamed, and a directory with a new entry must be synced at the end.
func (f *faulty) judgeSyncs(stage hook.Stage, trace string) {
	f.t.Helper()
	dirty, entries, renames := map[string]bool{}, map[string]bool{}, 0
	for line := range strings.Lines(trace) {
		_, call, _ := strings.Cut(line, " ")
		call = strings.TrimSpace(call)
		paths := betweenAngles(call)
		quoted := strings.Split(call, `"`)
		switch {
		case strings.Contains(call, "= -1"), len(paths) == 0 || !strings.HasPrefix(paths[0], filepath.Dir(f.file)):
		case strings.HasPrefix(call, "write("):
			dirty[paths[0]] = true
		case strings.HasPrefix(call, "fsync("):
			delete(dirty, paths[0])
			delete(entries, paths[0])
		case strings.HasPrefix(call, "renameat("):
			renames++
			if from := paths[0] + "/" + quoted[1]; dirty[from] {
				f.t.Errorf("%s: %s has its name before it is on the disk", stage, from)
			}
			entries[paths[0]] = true
		case strings.HasPrefix(call, "symlinkat("), strings.HasPrefix(call, "mkdirat("):
			entries[paths[0]] = true
		}
	}
	for dir := range entries {
		f.t.Errorf("%s: the directory %s has a new entry and is not synced", stage, dir)
	}
	if renames == 0 {
		f.t.Errorf("%s: the trace shows no rename: it does not show what it should\n%s", stage, trace)
	}
}

// betweenAngles are the paths that strace -y shows for descriptors.
func betweenAngles(s string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(s, "<")
		if !ok {
			return out
		}
		in, after, ok := strings.Cut(rest, ">")
		if !ok {
			return out
		}
		out, s = append(out, in), after
	}
}
