package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv names the test that runs in a mount namespace of its own.
const insideEnv = "GPURIG_TEST_INSIDE"

// requireEnv makes a failure of a skip: the job that owns the privileges sets it.
const requireEnv = "GPURIG_REQUIRE_LXC"

// thorough reports whether time is no matter.
func thorough() bool { return os.Getenv(requireEnv) != "" }

// skip leaves a test out because this machine cannot run it.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireEnv) != "" {
		t.Fatalf("required here: "+format, args...)
	}
	t.Skipf(format, args...)
}

// inMountNamespace runs the calling test once more, by itself, in a mount
// namespace of its own (and, without root, a user namespace), and reports whether
// this is that run.
func inMountNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		skip(t, "no mount namespace can be made here: %v", err)
	}
	switch {
	case err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("in a mount namespace of its own:\n%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("in a mount namespace of its own:\n%s", out)
	case strings.Contains(string(out), "--- SKIP: "):
		t.Logf("in a mount namespace of its own:\n%s", out)
	}
	return false
}

// onADisposableHost runs the calling test as inMountNamespace does, on an overlay of
// this machine's root directory that is gone with the test, with a procfs and an empty
// /dev: what a hook writes to its host goes there.
func onADisposableHost(t *testing.T) bool {
	t.Helper()
	if !inMountNamespace(t) {
		return false
	}
	dir := os.TempDir() // hidden in this namespace only: nothing is left when the test is killed
	mount(t, "tmpfs", dir, "tmpfs", 0, "")
	root := filepath.Join(dir, "root")
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
		skip(t, "no overlay of this machine's root directory can be mounted: %v", err)
	}
	mount(t, "/proc", filepath.Join(root, "proc"), "", unix.MS_BIND|unix.MS_REC, "")
	mount(t, "tmpfs", filepath.Join(root, "dev"), "tmpfs", 0, "mode=755")
	if err := errJoin(os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666), unix.Chroot(root), os.Chdir("/")); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil || st.Type != unix.OVERLAYFS_SUPER_MAGIC {
		t.Fatalf("the root directory is not the overlay: type %#x, %v", st.Type, err)
	}
	return true
}

func mount(t testing.TB, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount %s on %s: %v", source, target, err)
	}
	t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

func remountReadOnly(t testing.TB, dir string) {
	t.Helper()
	mount(t, dir, dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}
