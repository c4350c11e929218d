package hook_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// TestOverrideIsForSingleWrites (A46): CAP_DAC_OVERRIDE, which a directory of mode 0555
// needs to be written to, is in effect for one call at a time, which makes, renames or
// removes an entry. Nothing of the image is looked at meanwhile, also not what a write
// replaces or looks back at.
func TestOverrideIsForSingleWrites(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: capabilities")
	}
	program := hookProgram(t)
	roots(t, func(t *testing.T, mapped bool) {
		each(t, func(t *testing.T, walk bool) {
			s := newStand(t, "dir usr/lib/gpu", "library usr/lib/gpu/libx.so.1.2 libx.so.1", "file etc/ld.so.conf /opt/lib\n", "file etc/ld.so.cache "+oldCache(t),
				"file lib/ld-musl-x86_64.so.1 x", "file etc/ld-musl-x86_64.path /opt/lib\n", "copy lib64/ld-linux-x86-64.so.2 /bin/true",
				"dir etc/ld.so.conf.d", "library opt/lib/libx.so.1 libx.so.1", "link usr/lib/gpu/libcuda.so.1 own")
			s.walk = walk
			full(s)
			if mapped {
				s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
				s.chown()
			}
			for _, p := range []string{"usr/lib/gpu", "usr/lib", "etc", "etc/ld.so.conf.d"} {
				if err := os.Chmod(s.path(p), 0o555); err != nil {
					t.Fatal(err)
				}
			}
			s.write()
			raised := 0
			for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
				out, trace, err := s.traced(program, stage)
				if err != nil {
					t.Fatalf("%s: %v, %s", stage, err, out)
				}
				n, problems := overrideProblems(s.root, trace)
				raised += n
				for _, p := range problems {
					t.Errorf("%s: %s", stage, p)
				}
				var kept strings.Builder // the judge is none that is always content
				for line := range strings.Lines(trace) {
					if !strings.Contains(line, "capset(") || strings.Contains(line, "effective=1<<CAP_CHOWN|1<<CAP_DAC_OVERRIDE") {
						kept.WriteString(line)
					}
				}
				if _, problems := overrideProblems(s.root, kept.String()); stage != hook.Finish && len(problems) == 0 {
					t.Errorf("%s: where it stays in effect, that is not seen", stage)
				}
			}
			if raised < 8 {
				t.Errorf("it came into effect %d times: the directories do not need it", raised)
			}
			s.canary()
		})
	})
}

var (
	capsSet = regexp.MustCompile(`^(\d+) +capset\(.*effective=([^,]*),.* = 0`)
	entries = regexp.MustCompile(`^\d+ +(mkdirat|symlinkat|renameat|renameat2|unlinkat|openat\(.*O_CREAT)`)
	// A look at something, other than a handle alone: it names a descriptor of the root's.
	looks = regexp.MustCompile(`^\d+ +(openat2?|getdents64|read|pread64|readlinkat)\(`)
)

// overrideProblems says what of the root was looked at while CAP_DAC_OVERRIDE was in
// effect in that thread, and how often it came into effect since it first went.
func overrideProblems(root, trace string) (raised int, problems []string) {
	calls := map[string]int{} // of a thread since it came into effect; not there: not in effect
	gone := false
	for id, line := range tracedCalls(trace) {
		if set := capsSet.FindStringSubmatch(line); set != nil {
			delete(calls, id)
			if strings.Contains(set[2], "CAP_DAC_OVERRIDE") || strings.Contains(set[2], "CAP_DAC_READ_SEARCH") {
				calls[id] = 0
				if gone {
					raised++
				}
			} else {
				gone = true
			}
			continue
		}
		n, inEffect := calls[id]
		if !inEffect && gone || !strings.Contains(line, "<"+root) {
			continue
		}
		calls[id] = n + 1
		switch {
		case entries.MatchString(line):
			if n > 0 {
				problems = append(problems, fmt.Sprintf("a second call with CAP_DAC_OVERRIDE: %s", line))
			}
		case looks.MatchString(line) && !strings.Contains(line, "O_PATH"):
			problems = append(problems, fmt.Sprintf("the image is read with CAP_DAC_OVERRIDE: %s", line))
		}
	}
	return raised, problems
}
