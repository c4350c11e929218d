package cli

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// machines are the ELF machines of the architectures that containers with GPUs
// run on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// cannotRun says why this machine cannot run the program that a configuration
// names as its hook; empty: it can. A container of that configuration does not
// start, and here is where somebody reads it (F27).
func cannotRun(program string) string {
	info, err := os.Stat(program)
	switch {
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return program + " is no regular file"
	case info.Mode()&0o111 == 0:
		return program + " is not executable"
	}
	var on unix.Statfs_t
	if err := unix.Statfs(program, &on); err == nil && on.Flags&unix.ST_NOEXEC != 0 {
		return program + " is on a file system that is mounted noexec"
	}
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Sprintf("%s is no program: %v", program, err)
	}
	defer f.Close()
	if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
		return fmt.Sprintf("%s is for %s, this machine is %s", program, f.Machine, want)
	}
	return ""
}
