package programs

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// udevadm hears from the kernel what becomes of the devices of a fake host: a GPU
// that changes drivers, one that is pulled out and found again, and a mediated
// device. In this machine's own network namespace it would hear it too, so that is
// refused.
func TestUdevHearsOfTheHostsDevices(t *testing.T) {
	requireMachine(t)
	requireProgram(t, "udevadm", "udev")
	if os.Geteuid() != 0 {
		missing(t, "a network namespace needs root")
	}
	const script = `udevadm monitor -k > "$1" & M=$!
sleep 1
cd /sys/bus/pci
echo 0000:3b:00.0 > drivers/nvidia/unbind
echo 0000:3b:00.0 > drivers/nvidia/bind
echo 1 > devices/0000:af:00.0/remove
echo 1 > rescan
for i in $(seq 100); do [ "$(grep -c " renderD129\|renderD129 " "$1")" -lt 2 ] || break; sleep 0.1; done
kill $M; wait $M || true; cat "$1"`
	run := func(flags uintptr) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "host", "enter", "--uevents", "t4-server", "--", "sh", "-euc", script, "sh", t.TempDir()+"/out")
		cmd.Args[0] = asCLI
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		out, _ := cmd.CombinedOutput() // its end is in the output
		return string(out)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^KERNEL\S+ +(\w+) +\S+/(\S+) \((\w+)\)`).FindAllStringSubmatch(run(unix.CLONE_NEWNET), -1) {
		got = append(got, strings.Join(m[1:], " "))
	}
	const want = `remove renderD128 drm, remove card0 drm, unbind 0000:3b:00.0 pci, add card0 drm, add renderD128 drm, bind 0000:3b:00.0 pci, ` +
		`remove renderD129 drm, remove card1 drm, unbind 0000:af:00.0 pci, remove 0000:af:00.0 pci, add 0000:af:00.0 pci, add card1 drm, add renderD129 drm, bind 0000:af:00.0 pci`
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("udevadm heard %s\nwant %s", s, want)
	}
	if out := run(0); !strings.Contains(out, "would reach this machine's own udev") {
		t.Errorf("in this machine's network namespace: %s", out)
	}
}
