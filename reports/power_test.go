package reports_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/powercut"
	"gpurig/reports"
)

// TestF12F7AWriterOnADiskThatIsCut: reports and the translator's files are old or
// new after a power cut at any call, also when somebody else's sync has the disk
// learn names before contents, and new once the writer said so; on a disk that
// fails the writer says so, or is done (F35).
func TestF12F7AWriterOnADiskThatIsCut(t *testing.T) {
	if !powercut.Inside(t) {
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: it ends the writer at each call")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	disk, err := powercut.New(t, at)
	if err != nil {
		t.Skipf("no disk whose power can be cut (ext4 on a loop device): %v", err)
	}
	file := filepath.Join(at, "r.json")
	begin := func() {
		if err := reports.WriteFile(file, []byte(oldText)); err != nil {
			t.Fatal(err)
		}
		disk.Sync()
	}
	judge := func(what string, done bool) {
		t.Helper()
		now, err := os.ReadFile(file)
		if err != nil || string(now) != newText && (done || string(now) != oldText) {
			t.Fatalf("%s: the file is %q, %v; the writer said it was done: %v", what, now, err, done)
		}
		if err := reports.WriteFile(file, []byte(newText)); err != nil {
			t.Fatalf("%s: a clean run: %v", what, err)
		}
		if left, _ := filepath.Glob(filepath.Join(at, ".r.json*")); len(left) > 0 {
			t.Fatalf("%s: after a clean run there is %v", what, left)
		}
	}
	for _, call := range []string{"write", "fchmod", "fsync", "renameat"} {
		killed := 0
		for n := 1; ; n++ {
			ended := false
			for _, commit := range []bool{false, true} {
				begin()
				err := exec.CommandContext(t.Context(), strace, "-f", "-o", "/dev/null", "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), self, asWriter, file).Run()
				if commit {
					disk.Commit()
				}
				disk.Cut()
				judge(fmt.Sprintf("cut after %s %d, journal written: %v", call, n, commit), err == nil)
				ended = ended || err == nil
			}
			if ended {
				break
			}
			killed++
		}
		if killed == 0 {
			t.Errorf("no writer was ended at %s", call)
		}
	}
	failed := 0
	for after := range int64(4) {
		begin()
		disk.Fail(after * 4096)
		out, err := exec.CommandContext(t.Context(), self, asWriter, file).CombinedOutput()
		disk.Heal()
		if err != nil {
			failed++
			if s := string(out); !strings.Contains(s, "input/output error") && !strings.Contains(s, "no space left") && !strings.Contains(s, "read-only") {
				t.Errorf("a disk that takes %d pages more: %v without a reason: %q", after, err, out)
			}
		}
		judge(fmt.Sprintf("a disk that takes %d pages more", after), err == nil)
	}
	if failed == 0 {
		t.Error("no writer met the disk's failure")
	}
	// The control: a writer that does not sync loses both.
	begin()
	if err := os.WriteFile(file+".tmp", []byte(newText), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
	disk.Commit()
	disk.Cut()
	if now, _ := os.ReadFile(file); string(now) == oldText || string(now) == newText {
		t.Errorf("without a sync the file is %q; the cut takes nothing", now)
	}
}
