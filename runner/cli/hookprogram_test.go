package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// F27: a hook that is missing, or that this machine cannot run, is seen when the
// configuration is made.
func TestF27AHookThatCannotRunIsSeen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	foreign := append([]byte(nil), data[:64]...)
	foreign[18], foreign[19] = 0xf3, 0 // RISC-V
	clear(foreign[32:48])              // and no tables
	clear(foreign[54:64])
	for program, want := range map[string]string{
		self:                                  "",
		filepath.Join(dir, "none"):            "no such file",
		dir:                                   "no regular file",
		write("plain", data[:64], 0o644):      "not executable",
		write("script", []byte("#!x"), 0o755): "no program",
		write("foreign", foreign, 0o755):      "is for EM_RISCV, this machine is",
	} {
		if got := cannotRun(program); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", program, got, want)
		}
	}
	noexec := "/proc/self/exe" // a link: procfs itself is mounted noexec, what the link names is not
	if got := cannotRun(noexec); got != "" {
		t.Errorf("%s: %q", noexec, got)
	}
	if os.Geteuid() == 0 {
		at := filepath.Join(dir, "noexec")
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOEXEC, "size=1m"); err != nil {
			t.Skipf("nothing can be mounted here: %v", err)
		}
		defer unix.Unmount(at, unix.MNT_DETACH)
		if got := cannotRun(write("noexec/hook", data[:64], 0o755)); !strings.Contains(got, "noexec") {
			t.Errorf("on a mount without programs: %q", got)
		}
	}
}
