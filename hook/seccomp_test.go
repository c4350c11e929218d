package hook_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/hook"
)

// asFiltered is the name by which this program forbids system calls to itself
// and then is cdi-hook: "ERRNO,NUMBER,NUMBER… --" come before its arguments.
const asFiltered = "cdi-hook-filtered"

// asFilteredStarter is the name by which it does so and then runs another program:
// its path and arguments follow the numbers.
const asFilteredStarter = "starter-filtered"

func filteredMain() int {
	numbers := strings.Split(os.Args[1], ",")
	errno, calls := number(numbers[0]), numbers[1:]
	var list []uint32
	for _, c := range calls {
		list = append(list, number(c))
	}
	if err := forbid(errno, list...); err != nil {
		fmt.Fprintln(os.Stderr, "seccomp:", err)
		return 99
	}
	if os.Args[0] == asFilteredStarter {
		fmt.Fprintln(os.Stderr, unix.Exec(os.Args[2], os.Args[2:], os.Environ()))
		return 99
	}
	return hook.Main(append([]string{asHook}, os.Args[2:]...), hook.DefaultLimits)
}

func number(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

// forbid has the kernel answer errno to these system calls, on every thread of
// this process and in all that it starts, from now on.
func forbid(errno uint32, calls ...uint32) error {
	const load, jeq, ret = 0x20, 0x15, 0x06
	prog := []unix.SockFilter{{Code: load, K: 0}}
	for i, c := range calls {
		prog = append(prog, unix.SockFilter{Code: jeq, K: c, Jt: uint8(len(calls) - i), Jf: 0})
	}
	prog = append(prog,
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const setModeFilter, tsync = 1, 1
	if r, _, e := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, tsync, uintptr(unsafe.Pointer(&p))); e != 0 || r != 0 {
		return fmt.Errorf("%d, %w", r, e)
	}
	return nil
}
