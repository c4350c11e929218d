package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
)

// A file has one identity and one path, by whatever link the host names it; what lies
// in a folder that is mounted is known too, and nothing else is.
func TestIdentifyKnowsTheFilesThatAreHandedOut(t *testing.T) {
	host, dir := tree.New(), t.TempDir()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"/usr/lib/libcuda.so.1.1", "/usr/lib/nvidia/libx.so", "/usr/lib/other"} {
		fail(host.WriteFile(p, []byte(p), 0o644))
	}
	fail(host.Symlink("/lib", "usr/lib"))
	fail(host.Symlink("/usr/lib/libcuda.so", "libcuda.so.1.1"))
	w := &Sandbox{files: map[observe.FileID]string{}}
	m := &machine{done: map[string]bool{}}
	for _, source := range []string{"/lib/libcuda.so", "/usr/lib/libcuda.so.1.1", "/lib/libcuda.so.1.1", "/lib/nvidia", "/none"} {
		fail(m.take(t.Context(), host, source, dir, nil))
		fail(w.learn(host, dir, source))
	}
	for file, want := range map[string]string{
		"/lib/libcuda.so": "/usr/lib/libcuda.so.1.1", "/lib/libcuda.so.1.1": "/usr/lib/libcuda.so.1.1", "/usr/lib/libcuda.so.1.1": "/usr/lib/libcuda.so.1.1",
		"/lib/nvidia/libx.so": "/usr/lib/nvidia/libx.so", "/foreign": observe.Image,
	} {
		at := filepath.Join(dir, file)
		if file == "/foreign" {
			fail(os.WriteFile(at, nil, 0o644))
		}
		st, err := os.Stat(at)
		fail(err)
		sys := st.Sys().(*syscall.Stat_t)
		o := observe.Observation{Libraries: []observe.Library{{Path: "/x", ID: observe.FileID{Dev: uint64(sys.Dev), Ino: sys.Ino}}}}
		w.Identify(&o)
		if got := o.Libraries[0]; got.Origin != want || got.ID != (observe.FileID{}) {
			t.Errorf("%s is %+v, want %s", file, got, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the host does not have is there: %v", err)
	}
}
