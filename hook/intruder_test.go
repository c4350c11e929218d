package hook_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asIntruder is the name by which this program is a container's root that attacks
// every process which it sees.
const asIntruder = "cdi-hook-intruder"

// intruderMain loops over the processes of its namespace: traces, stops and kills
// them, writes into their programs and looks at their descriptors. For each new
// one it prints a line; "sees itself" is the first.
func intruderMain() int {
	dir := os.Args[1]
	for _, err := range []error{unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Chroot(dir), unix.Chdir("/"), unix.Mount("proc", "/proc", "proc", 0, "")} {
		if err != nil {
			fmt.Println("cannot:", err)
			return 1
		}
	}
	seen := map[int]bool{}
	for {
		names, err := os.ReadDir("/proc")
		if err != nil {
			return 1
		}
		for _, n := range names {
			pid, err := strconv.Atoi(n.Name())
			if err != nil {
				continue
			}
			if pid != os.Getpid() {
				unix.PtraceAttach(pid)
				if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/exe", pid), os.O_WRONLY|os.O_TRUNC, 0); err == nil {
					f.WriteString("owned")
					f.Close()
				}
				os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				unix.Kill(pid, unix.SIGSTOP)
				unix.Kill(pid, unix.SIGKILL)
			}
			if !seen[pid] {
				seen[pid] = true
				fmt.Println("sees", pid, pid == os.Getpid())
			}
		}
	}
}

// TestA11A40ARunningContainerCannotReachTheHook: while the hook works on a running
// container, whose root attacks whatever it sees, it sees nobody: the hook joins
// no namespace. The program and the machine's ldconfig stay as they are. A process
// that does join is found and killed.
func TestA11A40ARunningContainerCannotReachTheHook(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: a container with a process namespace")
	}
	s := newStand(t, "dir usr/lib/gpu", "dir proc")
	full(s)
	s.spec.MountPoints = nil
	s.write()
	program := hookProgram(t)
	hashes := func() string {
		var out string
		for _, p := range []string{program, "/sbin/ldconfig", "/proc/self/exe"} {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintf("%s %x\n", p, sha256.Sum256(data))
		}
		return out
	}
	before := hashes()

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", s.root)
	cmd.Args[0] = asIntruder
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		skip(t, "no namespaces can be made here: %v", err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if first := <-lines; first != "sees 1 true" {
		t.Fatalf("the intruder says %q", first)
	}
	times := 10
	if thorough() {
		times = 200
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	for i := range times {
		if i%2 == 1 { // take all back, so that there is something to do
			if out, err := exec.Command(program, "--stage", "clean", "--pid", pid, s.file).CombinedOutput(); err != nil {
				t.Fatalf("clean: %v, %s", err, out)
			}
			continue
		}
		if out, err := exec.Command(program, "--stage", "apply", "--pid", pid, s.file).CombinedOutput(); err != nil {
			t.Fatalf("hot plug %d: %v, %s", i, err, out)
		}
	}
	if n := len(lines); n > 0 {
		t.Errorf("the container saw %d processes of the host's: %q", n, <-lines)
	}
	if now := hashes(); now != before {
		t.Errorf("programs of the host changed:\n%s", differing(before, now))
	}
	s.canary()

	// The negative control: this one joins.
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		skip(t, "nsenter is not installed: nothing shows that the attack attacks")
	}
	victim := exec.CommandContext(t.Context(), nsenter, "-t", pid, "-p", "sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	select {
	case line := <-lines:
		if !strings.HasSuffix(line, " false") {
			t.Errorf("the intruder says %q", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("a process in the container's namespace was not found: the attack does not attack")
	}
}
