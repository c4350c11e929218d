package hook_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// Incus 6 keeps a root on disk as the host's root made it and has its mount map
// ids: what the stages before and after the mount make there belongs
// to the host's root, and the container's root owns it.
func TestARootThatIsMappedByItsMountAlone(t *testing.T) { // F8
	if os.Geteuid() != 0 || os.Getenv(requireEnv) == "" {
		skip(t, "needs root and a file system that takes id maps; %s=1 says that they are there", requireEnv)
	}
	if !inMountNamespace(t) {
		return
	}
	s := newStand(t, "dir usr/lib/gpu", "dir lib")
	full(s)
	before := s.tree()
	s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	s.run(hook.Prepare)
	if got := s.tree(); strings.Contains(got, "100000:") {
		t.Errorf("made for a root that is 0 on disk:\n%s", got)
	}
	shift(t, s)
	s.run(hook.Apply)
	tree := s.tree()
	for line := range strings.Lines(tree) {
		if !strings.Contains(line, " 100000:100000") {
			t.Errorf("in the container this is not its root's: %s", line)
		}
	}
	if !strings.Contains(tree, "libcuda.so.1 120777") {
		t.Errorf("made:\n%s", tree)
	}
	if err := unix.Unmount(s.root, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	s.run(hook.Finish, hook.Clean)
	if got := s.tree(); got != before {
		t.Errorf("left behind:\n%s", differing(before, got))
	}
}
