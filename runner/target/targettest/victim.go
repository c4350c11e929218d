package targettest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const (
	victimEnv = "GPURIG_TEST_VICTIM"
	started   = "started"
)

// Victim returns what the test is to do as a process that will be killed; empty: it
// is not that process.
func Victim() string { return os.Getenv(victimEnv) }

// AwaitDeath says that the victim is ready, and waits to be killed.
func AwaitDeath() {
	fmt.Println(started)
	select {}
}

// Again returns a command that runs the test t once more, in a process of its own in
// which Victim is role. through is a command that starts it; none: it is started as it is.
func Again(t *testing.T, role string, through ...string) *exec.Cmd {
	t.Helper()
	dir, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	args := append(through, os.Args[0], "-test.run", "^"+name+"$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), victimEnv+"="+role, ProgramsEnv+"="+dir)
	return cmd
}

// StartVictim runs the test t once more, in a process of its own in which Victim is
// role, until it awaits its death.
func StartVictim(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	cmd := Again(t, role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != started+"\n" {
		t.Fatalf("the victim says %q, %v", line, err)
	}
	return cmd
}

// Kill kills the victim.
func Kill(t *testing.T, victim *exec.Cmd) {
	t.Helper()
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // killed, as asked
}
