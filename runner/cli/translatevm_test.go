package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Who has a node open is found in /proc, this program left out: its own NVIDIA library
// has the GPUs' open while it asks.
func TestOpenNodes(t *testing.T) {
	const node = "/dev/zero"
	own, err := os.Open(node)
	if err != nil {
		t.Skipf("no %s: %v", node, err)
	}
	defer own.Close()
	other := exec.Command("sleep", "60")
	other.Stdin = own
	if err := other.Start(); err != nil {
		t.Skipf("no program to start: %v", err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	var who []string
	for range 1000 { // until it has become sleep
		who = openers()(node)
		if slices.Contains(who, fmt.Sprintf("sleep (pid %d)", other.Process.Pid)) {
			break
		}
	}
	if !slices.Contains(who, fmt.Sprintf("sleep (pid %d)", other.Process.Pid)) {
		t.Errorf("%s is open by %q; want sleep, pid %d", node, who, other.Process.Pid)
	}
	for _, w := range who {
		if w == fmt.Sprintf("cli.test (pid %d)", os.Getpid()) {
			t.Errorf("this program is among those that have %s open: %q", node, who)
		}
	}
}
