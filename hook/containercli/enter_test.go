package containercli

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const asMoved = "moved"

// A process that has another root directory already would have us run programs of its
// image.
func TestAProcessThatLeftTheHostsRootIsRefused(t *testing.T) {
	if os.Args[0] == asMoved {
		os.Exit(moved())
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: mount namespaces")
	}
	for _, moves := range []string{"", t.TempDir()} {
		cmd := exec.Command("/proc/self/exe", "-test.run", t.Name())
		cmd.Args[0], cmd.Env = asMoved, []string{"TO=" + moves}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if said, _ := io.ReadAll(io.LimitReader(stdout, 5)); string(said) != "there" {
			t.Skipf("no mount namespace here: %q", said)
		}
		entered := make(chan error)
		go func() {
			runtime.LockOSThread() // and ends with it
			entered <- (&call{log: io.Discard, options: options{pid: cmd.Process.Pid}}).enter()
		}()
		err = <-entered
		stdin.Close()
		cmd.Wait()
		if refused := err != nil && strings.Contains(err.Error(), "has left the host's root"); refused != (moves != "") {
			t.Errorf("root moved to %q: %v", moves, err)
		}
	}
}

// moved is a process with a mount namespace of its own, whose root is a new tmpfs on
// $TO; empty: the host's.
func moved() int {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if to := os.Getenv("TO"); err == nil && to != "" {
		err = unix.Mount("tmpfs", to, "tmpfs", 0, "")
		if err == nil {
			err = unix.Chdir(to)
		}
		if err == nil {
			err = unix.PivotRoot(".", ".")
		}
		if err == nil { // the old root, which lies on the new one
			err = unix.Unmount(".", unix.MNT_DETACH)
		}
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	os.Stdout.WriteString("there")
	io.Copy(io.Discard, os.Stdin)
	return 0
}
