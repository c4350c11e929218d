package reports_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gpurig/reports"
)

// asWriter is the first argument with which this program writes one file: the
// second one, with newText.
const asWriter = "gpurig-writer"

const oldText, newText = "old contents\n", "new contents, and more of them\n"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asWriter {
		runtime.LockOSThread() // so that calls can be counted
		if err := reports.WriteFile(os.Args[2], []byte(newText)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestF2F3F12AFaultAtEachChange: reports and the translator's files are written by
// WriteFile. Killed, or told of a full or broken disk, at any call that changes
// something, the file is old or new, whoever is told of success has the new one,
// and a clean run leaves it alone in its folder.
func TestF2F3F12AFaultAtEachChange(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: it injects the faults")
	}
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %s", out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"openat", "write", "fchmod", "fsync", "renameat", "unlinkat", "flock", "close"} {
		for _, fault := range []string{"signal=KILL", "error=EIO", "error=ENOSPC", "error=EROFS", "error=EPERM", "error=EMFILE"} {
			if call == "close" && fault != "signal=KILL" || call == "openat" && fault != "signal=KILL" && fault != "error=EMFILE" {
				continue // after an fsync a close says nothing of the data; opening knows few errors
			}
			t.Run(call+" "+fault, func(t *testing.T) {
				t.Parallel()
				reached := false
				unaffected, enough := 0, 4 // some calls are of the Go runtime, which goes on without
				if call == "openat" {
					enough = 16
				}
				for n := 1; unaffected < enough; n++ {
					dir := t.TempDir()
					file := filepath.Join(dir, "r.json")
					if err := os.WriteFile(file, []byte(oldText), 0o644); err != nil {
						t.Fatal(err)
					}
					cmd := exec.CommandContext(t.Context(), strace, "-f", "-o", "/dev/null", "-e", fmt.Sprintf("inject=%s:%s:when=%d", call, fault, n), self, asWriter, file)
					out, err := cmd.CombinedOutput()
					now, rerr := os.ReadFile(file)
					if rerr != nil || string(now) != oldText && string(now) != newText {
						t.Fatalf("at %d: the file is %q, %v", n, now, rerr)
					}
					if err == nil && string(now) != newText {
						t.Fatalf("at %d: success, and the file is %q", n, now)
					}
					if err != nil && fault != "signal=KILL" && len(out) == 0 {
						t.Fatalf("at %d: %v without a reason", n, err)
					}
					if werr := reports.WriteFile(file, []byte(newText)); werr != nil {
						t.Fatalf("at %d: a clean run: %v", n, werr)
					}
					entries, _ := os.ReadDir(dir)
					if now, _ := os.ReadFile(file); string(now) != newText || len(entries) != 1 {
						t.Fatalf("at %d: after a clean run the folder has %v", n, entries)
					}
					if err == nil {
						unaffected++
						continue
					}
					reached, unaffected = true, 0
				}
				if !reached && call != "unlinkat" && call != "flock" { // there is nothing to sweep; a lock that fails is tried again
					t.Error("no run was affected: the fault is not where it should be")
				}
			})
		}
	}
}

// TestWritersAtOnceDoNotTakeEachOthersTemporaries: a sweep leaves alone what a
// living process holds.
func TestWritersAtOnceDoNotTakeEachOthersTemporaries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	errs := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			for range 50 {
				if e := reports.WriteFile(file, []byte(strings.Repeat(fmt.Sprint(i), 1000))); e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || len(data) != 1000 || strings.Trim(string(data), string(data[:1])) != "" {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
