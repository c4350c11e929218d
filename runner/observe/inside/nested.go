package inside

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// nestedChild, as the first argument of Nested, says that the namespaces are there.
const nestedChild = "--child"

// Nested runs a program with namespaces of its own for processes, mounts, IPC and the
// host name, and a procfs of its own: a container of the container's. It does not
// return if the program ran.
func Nested(command []string) error {
	if command[0] == nestedChild {
		return nested(command[1:])
	}
	cmd := exec.Command("/proc/self/exe", append([]string{"nested", nestedChild}, command...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if os.Getenv(stateEnv) != "" {
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "the host's state")}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		os.Exit(0)
	case exited && exit.ExitCode() >= 0:
		os.Exit(exit.ExitCode())
	}
	return fmt.Errorf("nested: %w", err)
}

func nested(command []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("nested: private mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("nested: /proc: %w", err)
	}
	return fmt.Errorf("nested: %s: %w", command[0], unix.Exec(command[0], command, os.Environ()))
}
