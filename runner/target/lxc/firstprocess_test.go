package lxc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/runner/target/targettest"
)

// liblxc makes the cgroups of root's containers below that of PID 1, which is not
// always the root: in a container, or below a supervisor. They end and go there too.
func TestTheFirstProcessMayHaveACgroup(t *testing.T) {
	if cgroup := targettest.Victim(); cgroup != "" {
		l := requireLXC(t, cgroup).l
		if err := start(t, l, cgroup).Crash(context.Background()); err != nil {
			t.Error(err)
		}
		start(t, l, cgroup)
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		return
	}
	for _, cgroup := range []string{"v1", "v2"} {
		t.Run(cgroup, func(t *testing.T) {
			requireLXC(t, cgroup)
			of := cgroupOfItsOwn(t, cgroup)
			enter := []string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec unshare --mount --pid --fork --mount-proc "$@"`, of}
			if out, err := targettest.Again(t, cgroup, enter...).CombinedOutput(); err != nil {
				t.Errorf("below PID 1 in %s: %v\n%s", of, err, out)
			}
			if left, err := filepath.Glob(of + "/gpurig-*"); err != nil || len(left) > 0 {
				t.Errorf("left are %q, %v", left, err)
			}
		})
	}
}

// cgroupOfItsOwn makes a cgroup in the hierarchy that containers of a version have, and
// removes it with all that is left in it.
func cgroupOfItsOwn(t *testing.T, cgroup string) string {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/devices"} {
		var st unix.Statfs_t
		if unix.Statfs(at, &st) != nil || (st.Type == unix.CGROUP2_SUPER_MAGIC) != (cgroup == "v2") || filepath.Base(at) == "cgroup" && st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(at, fmt.Sprintf("test-first-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for depth := 3; depth >= 0; depth-- {
				dirs, _ := filepath.Glob(dir + []string{"", "/*", "/*/*", "/*/*/*"}[depth])
				for _, d := range dirs {
					_ = os.Remove(d) // files of the kernel's stay
				}
			}
			waitFor(t, "the cgroup to go", func() bool { err := os.Remove(dir); return err == nil || os.IsNotExist(err) })
		})
		return dir
	}
	t.Skipf("cgroups of version %s are not mounted at a usual place", cgroup)
	return ""
}
