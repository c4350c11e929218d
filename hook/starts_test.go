package hook_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// applies are the ways to start the hook when everything is mounted, "apply" by hand.
var applies = []string{"mount", "start-host", "oci", "apply"}

// starts are those of a container's life, with some of applies. The root is mounted at
// mounted, and process is one of the container.
func (s *stand) starts(mounted string, process int, applies ...string) []start {
	lxc := func(typ, root string) start {
		return start{[]string{s.file}, []string{"LXC_HOOK_TYPE=" + typ, "LXC_NAME=c1", root}, ""}
	}
	hand := func(stage hook.Stage) start {
		return start{[]string{"--stage", string(stage), "--root", s.root, s.file}, nil, ""}
	}
	of := map[string]start{
		"mount": lxc("mount", "LXC_ROOTFS_MOUNT="+mounted), "start-host": lxc("start-host", fmt.Sprintf("LXC_PID=%d", process)),
		"oci": {[]string{"--oci", "--root", s.root, s.file}, nil, `{"status":"creating"}`}, "apply": hand(hook.Apply),
	}
	all := []start{lxc("pre-start", "LXC_ROOTFS_PATH="+s.root)}
	for _, name := range applies {
		all = append(all, of[name])
	}
	all = append(all, lxc("post-stop", "LXC_ROOTFS_PATH="+s.root), hand(hook.Clean))
	for i := range all {
		if s.walk {
			all[i].args = append([]string{"--no-openat2"}, all[i].args...)
		}
	}
	return all
}

// stages starts the hook for a container's life and returns all that was said. With done
// it has to be done each time, and the caches are said too.
func (s *stand) stages(done bool, applies ...string) (said string) {
	s.t.Helper()
	mounted, process := s.root+"-mounted", 0
	if slices.Contains(applies, "start-host") {
		process = s.process()
	}
	if err := errJoin(os.MkdirAll(mounted, 0o755), unix.Mount(s.root, mounted, "", unix.MS_BIND|unix.MS_REC, "")); err != nil {
		s.t.Fatal(err)
	}
	defer unix.Unmount(mounted, unix.MNT_DETACH)
	for _, st := range s.starts(mounted, process, applies...) {
		cmd := hookCommand(s.t, st.args...)
		cmd.Env, cmd.Stdin = st.env, strings.NewReader(st.state)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{starterGroup}}}
		}
		out, err := cmd.CombinedOutput()
		if done {
			if err != nil {
				s.t.Errorf("%q %q: %v, %s", st.args, st.env, err, out)
			}
			cache, _ := os.ReadFile(s.path("etc/ld.so.cache"))
			said += string(cache)
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
				said := s.stages(true, applies...)
				_, kept := strings.CutPrefix(f.name, "the ") // preload file and cache are not passed on
				if !kept && !strings.Contains(said, secret) {
					t.Error("it was not read at all")
				}
			})
		}
	})
}

// TestTheJournalsTextIsNotSaid (A46), nor that of the hook file: what is in their place
// may be any file of the host's root.
func TestTheJournalsTextIsNotSaid(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	for _, file := range []string{"", ".made"} {
		for i, text := range []string{secret + " = x", `{"` + secret + `": 1}`, `{"version": "` + secret + `"}`, `{"version": 2, "links": "` + secret + `"}`, `["` + secret + `"]`} {
			for _, link := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d%s link=%v", i, file, link), func(t *testing.T) {
					s := newStand(t)
					full(s)
					s.write()
					at := s.file + file
					if link {
						at = filepath.Join(s.host, "secret")
						if err := errJoin(os.RemoveAll(s.file+file), os.Symlink(at, s.file+file)); err != nil {
							t.Fatal(err)
						}
					}
					copyAs(t, text, at)
					s.photo()
					for _, st := range s.starts(s.root, os.Getpid(), applies...) {
						cmd := hookCommand(t, st.args...)
						cmd.Env, cmd.Stdin = st.env, strings.NewReader(st.state)
						out, _ := cmd.CombinedOutput()
						s.nowhere(string(out))
					}
					s.canary()
				})
			}
		}
	}
}
