package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpurig/hook"
)

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
