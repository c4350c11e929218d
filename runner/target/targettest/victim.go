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

// StartVictim runs the test t once more, in a process of its own in which Victim is
// role, until it awaits its death.
func StartVictim(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	dir, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.run", "^"+name+"$")
	cmd.Env = append(os.Environ(), victimEnv+"="+role, ProgramsEnv+"="+dir)
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
