package hook_test

import (
	"slices"
	"strings"
	"testing"
)

// F9: a call that a signal interrupts is made again, whichever it is: on a file
// system such as FUSE or NFS even those that look can be.
func TestF9InterruptedCalls(t *testing.T) {
	calls := slices.Concat(changing, reading, []string{"fstatfs", "pread64"})
	if !thorough() {
		calls = []string{"openat2", "renameat"}
	}
	sweep{kind: "error=EINTR", when: once, every: 7}.over(t, calls, done)
}

// done demands that nothing came of a fault.
func done(f *faulty, what string, code int, said string) {
	f.t.Helper()
	if code != 0 {
		f.t.Fatalf("%s: exit %d, %s", what, code, said)
	}
	if got, want := f.state(), f.want[f.stage]; got != want {
		f.t.Fatalf("%s: it said it was done, and (-want +got):\n%s", what, differing(want, got))
	}
}

// F9: a path that changes now and then is tried again, and one that keeps changing
// is given up.
func TestF9PathsThatChange(t *testing.T) {
	if !thorough() {
		t.Skip("a sweep, for the job that owns the privileges")
	}
	for _, many := range []int{10, 127} {
		sweep{kind: "error=EAGAIN", when: times(many), every: 11}.over(t, []string{"openat2"}, done)
	}
	sweep{kind: "error=EAGAIN", when: fromThere, every: 11}.over(t, []string{"openat2"}, func(f *faulty, what string, code int, said string) {
		if code != 0 && strings.Contains(said, "keeps changing") {
			return
		}
		done(f, what, code, said)
	})
}

// F10: without the newer calls, from the start or from any call on, all is made by
// the older ones.
func TestF10CallsThatGoMissing(t *testing.T) {
	calls, errnos := []string{"openat2", "statx", "close_range"}, []string{"ENOSYS", "EPERM"}
	if !thorough() {
		calls, errnos = calls[:1], errnos[:1]
	}
	for _, errno := range errnos {
		sweep{kind: "error=" + errno, when: fromThere, every: 7}.over(t, calls, done)
	}
}
