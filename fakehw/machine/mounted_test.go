package machine_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// withTree runs a script that finds the tree of a T4 server on "$1".
func withTree(t *testing.T, o machine.Options, script string) (string, int, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	o.Command, o.Stdout, o.Stderr = []string{"sh", "-uc", script, "sh", dir}, f, f
	entered, err := machine.WithTree(t.Context(), machinetest.Host(t, "t4-server"), dir, o)
	text, readErr := os.ReadFile(out)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("outside, the mount point has %v, %v", left, err)
	}
	return string(text), entered.Exit, err
}

// A command finds the whole tree in one folder, and all else as it is.
func TestACommandFindsTheTree(t *testing.T) {
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		got, code, err := withTree(t, o, `
			stat -c '%n %t:%T %U' "$1"/dev/nvidia0 | sed "s#$1##"
			echo 0000:3b:00.0 > "$1"/sys/bus/pci/drivers/nvidia/unbind
			ls "$1"/dev/nvidia0 2>/dev/null || echo gone
			cat "$1"/dev/nvidia1 2>/dev/null || echo closed
			[ -e /sys/bus/pci/drivers/nvidia ] || echo elsewhere not
			exit 3`)
		want := "/dev/nvidia0 c3:0 root\ngone\nclosed\nelsewhere not\n"
		if err != nil || code != 3 || got != want {
			t.Errorf("it says %q, exit code %d, %v; want %q, 3", got, code, err, want)
		}
	})
}

// What the command leaves running ends with it, and it all with the context (F28).
func TestF28ATreeGoesWithItsCommand(t *testing.T) {
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		mark := "31" + strings.Repeat("7", 5) // seconds that nobody else sleeps
		if _, code, err := withTree(t, o, "cd \"$1\"/sys; setsid sleep "+mark+" & exit 0"); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v", code, err)
		}
		if out, err := exec.Command("pgrep", "-f", "^sleep "+mark).CombinedOutput(); err == nil {
			t.Errorf("processes are left: %s", out)
		}
		if _, code, err := withTree(t, o, "kill -KILL $$"); code != 137 || err != nil {
			t.Errorf("killed: exit code %d, %v; want 137", code, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		o.Command = []string{"true"}
		if _, err := machine.WithTree(ctx, machinetest.Host(t, "no-gpu"), t.TempDir(), o); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}
