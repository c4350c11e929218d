package hook_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A start is how somebody starts the hook: by hand, as LXC or as an OCI runtime does.
type start struct {
	args, env []string
	state     string // on standard input
}

// starts are those of a container's life, and the stages by hand. Root is mounted at
// mounted, and process is one of the container.
func (s *stand) starts(mounted string, process int) []start {
	lxc := func(typ, root string) start {
		return start{[]string{s.file}, []string{"LXC_HOOK_TYPE=" + typ, "LXC_NAME=c1", root}, ""}
	}
	hand := func(stage hook.Stage) start {
		return start{[]string{"--stage", string(stage), "--root", s.root, s.file}, nil, ""}
	}
	all := []start{
		lxc("pre-start", "LXC_ROOTFS_PATH="+s.root), lxc("mount", "LXC_ROOTFS_MOUNT="+mounted), lxc("start-host", fmt.Sprintf("LXC_PID=%d", process)),
		{[]string{"--oci", "--root", s.root, s.file}, nil, `{"status":"creating"}`}, lxc("post-stop", "LXC_ROOTFS_PATH="+s.root), hand(hook.Clean), hand(hook.Apply),
	}
	for i := range all {
		if s.walk {
			all[i].args = append([]string{"--no-openat2"}, all[i].args...)
		}
	}
	return all
}

// stages starts the hook in each way and returns all that was said. Whether it is done
// matters only where it is told so.
func (s *stand) stages(done bool) (said string) {
	s.t.Helper()
	mounted := s.root + "-mounted"
	if err := errJoin(os.MkdirAll(mounted, 0o755), unix.Mount(s.root, mounted, "", unix.MS_BIND|unix.MS_REC, "")); err != nil {
		s.t.Fatal(err)
	}
	defer unix.Unmount(mounted, unix.MNT_DETACH)
	for _, st := range s.starts(mounted, s.process()) {
		cmd := hookCommand(s.t, st.args...)
		cmd.Env, cmd.Stdin = st.env, strings.NewReader(st.state)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{starterGroup}}}
		}
		out, err := cmd.CombinedOutput()
		if done && err != nil {
			s.t.Errorf("%q %q: %v, %s", st.args, st.env, err, out)
		}
		said += string(out)
		data, _ := os.ReadFile(s.file + ".made")
		said += decoded(data)
	}
	return said
}

// asRooted is the name by which this program is a process of a container, in its root
// directory and with mounts of its own, until its input ends.
const asRooted = "cdi-hook-rooted"

func rootedMain() int {
	if err := errJoin(unix.Chroot(os.Args[1]), os.Chdir("/")); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// process is one of the container's.
func (s *stand) process() int {
	s.t.Helper()
	cmd := hookCommand(s.t, s.root)
	cmd.Args[0] = asRooted
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("no process in the root: %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// TestEveryStarterReads (A45, A46): what the container may read is read in each way of
// starting the hook, so that nothing of a secret is for a reason.
func TestEveryStarterReads(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	roots(t, func(t *testing.T, mapped bool) {
		for _, f := range readFiles(t) {
			t.Run(f.name, func(t *testing.T) {
				s := newStand(t, append([]string{"dir lib"}, f.image...)...)
				full(s)
				if f.name == "a library of our folder" { // that of the mount point is empty
					s.spec.MountPoints = nil
				}
				if mapped {
					s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
				}
				s.plant(s.root, "file "+f.path+" "+f.text)
				if mapped {
					s.chown()
				}
				s.write()
				said := s.stages(true)
				_, kept := strings.CutPrefix(f.name, "the ") // preload file and cache are not passed on
				if data, _ := os.ReadFile(s.path("etc/ld.so.cache")); !kept && !strings.Contains(said+string(data), secret) {
					t.Error("it was not read at all")
				}
			})
		}
	})
}
