package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What goes after it was listed is left out, as files of /tmp go while others use it.
func TestWhatIsGoneIsNotBound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others may not copy mounts of the first namespace")
	}
	dir := t.TempDir()
	there := dir + "/there"
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	points, err := copied(dir, []string{dir + "/gone", there}, nil)
	defer closeAll(points)
	var names []string
	for _, p := range points {
		names = append(names, p.path)
	}
	if err != nil || !slices.Equal(names, []string{there}) {
		t.Errorf("copied %q: %v; want %q alone", names, err, there)
	}
}

// So is what goes between its copy and its mount. The thread that has the namespace
// of its own ends with the goroutine.
func TestWhatIsGoneIsNotMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a mount namespace")
	}
	dir, over := t.TempDir(), t.TempDir()
	for _, p := range []string{dir + "/gone", dir + "/stays", over + "/gone", over + "/stays"} {
		if err := os.WriteFile(p, []byte(filepath.Dir(p)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			back, err := copied(dir, []string{dir + "/gone", dir + "/stays"}, nil)
			defer closeAll(back)
			if err != nil {
				return err
			}
			mnt, err := clone(unix.AT_FDCWD, over)
			if err != nil {
				return err
			}
			defer unix.Close(mnt)
			if err := os.Remove(dir + "/gone"); err != nil {
				return err
			}
			if err := cover(mnt, dir, back); err != nil {
				return err
			}
			if text, err := os.ReadFile(dir + "/stays"); string(text) != dir {
				return fmt.Errorf("what stayed reads %q, %v", text, err)
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
