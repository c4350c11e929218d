package machine_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// self is a copy of the test program that every user may run, in a folder of its
// own, so that its processes are known by their path.
func self(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "machine-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "enterer")
	if err := os.WriteFile(name, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// processes lists those that run the program exe, or have the mark in their
// environment.
func processes(t testing.TB, exe, mark string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range names {
		link, _ := os.Readlink(p + "/exe")
		env, _ := os.ReadFile(p + "/environ")
		if link == exe || slices.Contains(strings.Split(string(env), "\x00"), mark) {
			out = append(out, p+" "+link)
		}
	}
	return out
}

// noneLeft waits for every such process to end.
func noneLeft(t testing.TB, exe, mark string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := processes(t, exe, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %q", left)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// outside is what programs outside of a machine could see of it: mounts, nodes,
// and the kernel's files.
func outside(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range []string{"/proc/self/mountinfo", "/proc/devices", "/proc/modules", "/proc/cmdline", "/proc/misc", "/proc/sys/kernel/osrelease", "/etc/ld.so.cache", "/etc/os-release"} {
		text, err := os.ReadFile(p)
		if err != nil {
			text = []byte(err.Error())
		}
		out[p] = string(text)
	}
	var mounts []string
	for line := range strings.Lines(out["/proc/self/mountinfo"]) {
		if !strings.Contains(line, " "+os.TempDir()+"/") { // other tests', which run at the same time
			mounts = append(mounts, line)
		}
	}
	out["/proc/self/mountinfo"] = strings.Join(mounts, "")
	for _, dir := range []string{"/", "/dev", "/dev/char", "/sys", "/sys/bus/pci/devices", "/sys/bus/pci/drivers", "/sys/class", "/sys/class/drm", "/sys/module",
		"/proc/driver", "/run", "/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/firmware", "/opt", "/etc", "/lib", "/var/lib", "/var/run"} {
		entries, err := os.ReadDir(dir)
		text := fmt.Sprintln(err)
		for _, e := range entries {
			text += e.Name() + " " + e.Type().String() + "\n"
		}
		out[dir] = text
	}
	return out
}

func same(t testing.TB, when string, before map[string]string) {
	t.Helper()
	for p, now := range outside(t) {
		if now != before[p] {
			t.Errorf("%s, %s is\n%s\nwas\n%s", when, p, now, before[p])
		}
	}
}

// A started enterer. Its command has written "up".
type started struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, mark string, args ...string) started {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), mark)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return started{cmd, in, bufio.NewReader(out)}
}

func (s started) expect(t testing.TB, want string) {
	t.Helper()
	if line, err := s.out.ReadString('\n'); line != want+"\n" {
		t.Fatalf("the command wrote %q, %v; want %q", line, err, want)
	}
}

// busyScript leaves processes behind in every way that there is.
const busyScript = `sleep 1000 & setsid sleep 1001 & (setsid sh -c 'sleep 1002 & wait' &) ; (trap "" HUP TERM INT; while :; do sleep 1003; done) & echo up; read line; exit 3`

// CANARY (A41, F28, F29): what is outside is the same before, while and after a
// machine is entered, whose processes make mounts and files of their own.
func TestNothingIsSeenOutside(t *testing.T) {
	machinetest.Require(t)
	exe, mark := self(t), "GPURIG_MARK=outside"
	before := outside(t)
	for _, profile := range []string{"dgx-a100", "jetson-agx-orin", "nixos-4090", "snap-t4", "amd-mi300x"} {
		s := start(t, mark, exe, enterer, profile, "sh", "-c", "touch /etc/canary /usr/canary /dev/canary; mkdir -p /run/canary; "+busyScript)
		s.expect(t, "up")
		same(t, "inside "+profile, before)
		if len(processes(t, exe, mark)) < 6 {
			t.Errorf("the look for processes finds only %q", processes(t, exe, mark))
		}
		s.in.Close()
		if err := s.Wait(); s.ProcessState.ExitCode() != 3 {
			t.Errorf("%s: %v", profile, err)
		}
		noneLeft(t, exe, mark)
		same(t, "after "+profile, before)
	}
}

// F28: a machine whose caller is killed goes, whenever that happens, with every
// process in it.
func TestF28AMachineGoesWithItsCaller(t *testing.T) {
	machinetest.Require(t)
	exe, mark := self(t), "GPURIG_MARK=killed"
	before := outside(t)
	t.Run("while the command runs", func(t *testing.T) {
		s := start(t, mark, exe, enterer, "dgx-a100", "sh", "-c", busyScript)
		s.expect(t, "up")
		s.Process.Kill()
		noneLeft(t, exe, mark)
		s.Wait()
	})
	t.Run("at any moment", func(t *testing.T) {
		for range 40 {
			s := start(t, mark, exe, enterer, "dgx-a100", "sh", "-c", busyScript)
			time.Sleep(rand.N(60 * time.Millisecond))
			s.Process.Kill()
			noneLeft(t, exe, mark)
			s.Wait()
		}
	})
	t.Run("the first process instead", func(t *testing.T) {
		s := start(t, mark, exe, enterer, "dgx-a100", "sh", "-c", busyScript)
		s.expect(t, "up")
		for _, p := range processes(t, exe, "none") {
			var pid int
			fmt.Sscanf(p, "/proc/%d", &pid)
			if pid != s.Process.Pid {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		s.Wait()
		noneLeft(t, exe, mark)
	})
	same(t, "after all of it", before)
}

// A user who is nobody enters too, or is told what to allow.
func TestAnOrdinaryUserEnters(t *testing.T) {
	machinetest.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("the other tests are an ordinary user's already")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		machinetest.Skip(t, "no setpriv: %v", err)
	}
	cmd := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", self(t), enterer, "dgx-a100", "sh", "-c", `
		id -u; cat /sys/bus/pci/devices/0000:07:00.0/vendor; stat -c '%F %t:%T %a' /dev/nvidia7; echo x > /etc/made && cat /etc/made; ls /sys/class/net >/dev/null`)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if want := "0\n0x10de\ncharacter special file c3:7 666\nx\n"; err != nil || string(out) != want {
		t.Errorf("a user gets %v\n%swant\n%s", err, out, want)
	}
}

func TestWhoMayNotIsToldWhatToAllow(t *testing.T) {
	machinetest.Require(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		machinetest.Skip(t, "needs root and setpriv")
	}
	// In a user namespace that may have no further one, as where an administrator
	// forbids them.
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"`, "sh", setpriv, "--bounding-set=-sys_admin", "--inh-caps=-all", self(t), enterer, "no-gpu", "true")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 2 || !strings.Contains(string(out), "hint: run as root, or set sysctl user.max_user_namespaces=15000") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Where the folder that the host has in /tmp is there already, /tmp is the real one:
// what is made in it is seen outside, sockets answer, and nothing is put into the
// folder, so that nothing is left there by whom nobody lets end.
func TestTheRealTmpBesideAFolderOfTheHost(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("no python3, which makes the sockets: %v", err)
	}
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		var warn strings.Builder
		o.Warn = &warn
		dir, err := os.MkdirTemp("/tmp", "machine-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		folder := dir + "-nvidia-mps" // of this test alone, in the place of /tmp/nvidia-mps
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(folder)
		o.Files = map[string][]byte{folder + "/control": []byte("x")}
		outer, err := net.Listen("unix", dir+"/outer")
		if err != nil {
			t.Fatal(err)
		}
		defer outer.Close()
		made := dir + "-new" // at the top of /tmp
		defer os.Remove(made)
		defer os.Remove(made + ".sock")
		got := machinetest.Shell(t, machinetest.Host(t, "t4-server"), o, "ls "+folder+"; echo kept > "+made+`; python3 - <<'END'
import socket
s = socket.socket(socket.AF_UNIX); s.connect("`+dir+`/outer"); print("reached")
l = socket.socket(socket.AF_UNIX); l.bind("`+made+`.sock"); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect("`+made+`.sock"); print("connected")
END`)
		if got != "control\nreached\nconnected\n" || strings.Contains(warn.String(), "/tmp") {
			t.Errorf("inside: %s\nsaid: %s", got, warn.String())
		}
		if text, err := os.ReadFile(made); string(text) != "kept\n" {
			t.Errorf("what was made in /tmp: %q, %v", text, err)
		}
		if left, err := os.ReadDir(folder); len(left) > 0 || err != nil {
			t.Errorf("left in %s: %v, %v", folder, left, err)
		}
	})
}

// A host with files in /tmp has them in a directory of the machine's: that is said,
// and the folders that were there are the real ones.
func TestFilesOfAHostInTmp(t *testing.T) {
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		var warn strings.Builder
		o.Warn = &warn
		dir, err := os.MkdirTemp("/tmp", "machine-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		got := machinetest.Shell(t, machinetest.Host(t, "a100-mig-mixed"), o, "stat -c %a /tmp; ls /tmp/nvidia-mps; echo kept > "+dir+"/file; touch /tmp/machine-test-new")
		if got != "1777\ncontrol\ncontrol_lock\nlog\nnvidia-cuda-mps-control.pid\n" || strings.Count(warn.String(), "/tmp has files of the host here") != 1 ||
			!strings.Contains(warn.String(), "; mkdir /tmp/nvidia-mps before keeps it") {
			t.Errorf("inside: %s\nsaid: %s", got, warn.String())
		}
		if text, err := os.ReadFile(dir + "/file"); string(text) != "kept\n" {
			t.Errorf("what was written to a real folder: %q, %v", text, err)
		}
		for _, p := range []string{"/tmp/nvidia-mps", "/tmp/machine-test-new"} {
			if _, err := os.Lstat(p); err == nil {
				t.Errorf("%s is seen outside", p)
			}
		}
	})
}
