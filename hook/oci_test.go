package hook_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// bundle writes an OCI bundle around the root of a stand.
func (s *stand) bundle(config map[string]any) string {
	s.t.Helper()
	dir := filepath.Dir(s.root)
	data, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// TestOCIByHand gives the hook a container's state as runtimes do.
func TestOCIByHand(t *testing.T) {
	for _, tc := range []struct {
		name, state string
		config      map[string]any
		code        int
		said        string
	}{
		{"a relative root", `{"ociVersion":"1.0.2","id":"c1","status":"creating","pid":1,"bundle":"$B"}`, map[string]any{"root": map[string]any{"path": "root"}}, hook.ExitOK, ""},
		{"an absolute root", `{"bundle":"$B"}`, map[string]any{"root": map[string]any{"path": "$B/root"}}, hook.ExitOK, ""},
		{"a root that is a link to the host (A14)", `{"bundle":"$B"}`, map[string]any{"root": map[string]any{"path": "l"}}, hook.ExitFailed, "not a directory"},
		{"a root outside, through the bundle", `{"bundle":"$B"}`, map[string]any{"root": map[string]any{"path": "/"}}, hook.ExitUsage, "host's own root"},
		{"no root", `{"bundle":"$B"}`, map[string]any{}, hook.ExitFailed, "no root.path"},
		{"no bundle", `{}`, nil, hook.ExitUsage, "bundle is empty"},
		{"a relative bundle", `{"bundle":"b"}`, nil, hook.ExitUsage, "not an absolute, clean path"},
		{"no JSON", `state`, nil, hook.ExitFailed, "not JSON"},
		{"nothing", ``, nil, hook.ExitFailed, "not JSON"},
		{"too much", `{"bundle":"` + strings.Repeat("x", 2<<20) + `"}`, nil, hook.ExitFailed, "larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, "dir usr/lib")
			full(s)
			s.write()
			dir := filepath.Dir(s.root)
			s.plant(dir, "link l $H")
			if tc.config != nil {
				if r, ok := tc.config["root"].(map[string]any); ok {
					r["path"] = strings.ReplaceAll(r["path"].(string), "$B", dir)
				}
				s.bundle(tc.config)
			}
			s.photo()
			cmd := hookCommand(t, "--oci", s.file)
			cmd.Stdin = strings.NewReader(strings.ReplaceAll(tc.state, "$B", dir))
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(out), tc.said) {
				t.Errorf("exit %d, %s; want %d, %q", code, out, tc.code, tc.said)
			}
			s.canary()
			if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.1")); (err == nil) != (tc.code == hook.ExitOK) {
				t.Errorf("the link: %v", err)
			}
		})
	}
}

// Where the container's root cannot read the bundle, the hook is told the root.
func TestOCIWithRoot(t *testing.T) {
	for _, tc := range []struct {
		name, root string
		code       int
		said       string
	}{
		{"a root", "$R", hook.ExitOK, ""},
		{"the host's", "/", hook.ExitUsage, "host's own root"},
		{"a relative one", "root", hook.ExitUsage, "not an absolute, clean path"},
		{"a link to the host (A14)", "$B/l", hook.ExitFailed, "not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, "dir usr/lib")
			full(s)
			s.write()
			dir := filepath.Dir(s.root)
			s.plant(dir, "link l $H")
			s.photo()
			cmd := hookCommand(t, "--oci", "--root", strings.NewReplacer("$R", s.root, "$B", dir).Replace(tc.root), s.file)
			cmd.Stdin = strings.NewReader(`{"bundle":"/not/to/be/read"}`)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(out), tc.said) {
				t.Errorf("exit %d, %s; want %d, %q", code, out, tc.code, tc.said)
			}
			s.canary()
			if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.1")); (err == nil) != (tc.code == hook.ExitOK) {
				t.Errorf("the link: %v", err)
			}
		})
	}
}

// A poststop hook is told of a stopped container: what prepare made for mounts
// goes, what apply made stays for the next start.
func TestOCIStopped(t *testing.T) {
	s := newStand(t, "dir usr/lib")
	full(s)
	s.run(hook.Prepare)
	s.run(hook.Apply)
	point := s.spec.MountPoints[0].Path
	if _, err := os.Lstat(s.path(point)); err != nil {
		t.Fatal(err)
	}
	dir := s.bundle(map[string]any{"root": map[string]any{"path": "root"}})
	cmd := hookCommand(t, "--oci", s.file)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"ociVersion":"1.0.2","id":"c1","status":"stopped","bundle":%q}`, dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Lstat(s.path(point)); !os.IsNotExist(err) {
		t.Errorf("mount point %s: %v; want it gone", point, err)
	}
	if _, err := os.Lstat(s.path("usr/lib/gpu/libcuda.so.1")); err != nil {
		t.Errorf("the link went too: %v", err)
	}
}

// ociRuntimes are the ones that call the hook as container managers have them.
var ociRuntimes = []string{"crun", "runc"}

// eachOCI runs f for every runtime, without and with an id map.
func eachOCI(t *testing.T, f func(t *testing.T, c ociContainer)) {
	for _, name := range ociRuntimes {
		program, err := exec.LookPath(name)
		if err != nil || os.Geteuid() != 0 {
			skip(t, "needs root and %s (apt-get install %s)", name, name)
		}
		if _, err := os.Stat("/bin/busybox"); err != nil {
			skip(t, "busybox is not installed (apt-get install busybox-static)")
		}
		for _, idmap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/idmap=%v", name, idmap), func(t *testing.T) { f(t, ociContainer{program, idmap}) })
		}
	}
}

// An ociContainer is one that a runtime makes of a stand.
type ociContainer struct {
	runtime string // its program
	idmap   bool
}

// start runs sh's script in a container with cdi-hook as createContainer hook, and
// returns what it and the hook said. share is bound to /mnt/share, if it is not empty.
func (c ociContainer) start(s *stand, share, script string) (string, error) {
	s.t.Helper()
	open(s.t, filepath.Dir(s.root))
	namespaces := []map[string]any{{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}}
	linux := map[string]any{}
	if c.idmap {
		namespaces = append(namespaces, map[string]any{"type": "user"})
		ids := []map[string]any{{"containerID": 0, "hostID": 100000, "size": 65536}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
		s.chown()
		s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
	}
	linux["namespaces"] = namespaces
	mounts := []map[string]any{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=755"}},
	}
	if share != "" {
		mounts = append(mounts, map[string]any{"destination": "/mnt/share", "type": "bind", "source": share, "options": []string{"bind", "ro"}})
	}
	s.run(hook.Prepare)
	s.photo()
	dir := s.bundle(map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": "root"},
		"process":    map[string]any{"cwd": "/", "user": map[string]any{"uid": 0, "gid": 0}, "args": []string{"/bin/busybox", "sh", "-c", script}},
		"mounts":     mounts,
		"hooks":      map[string]any{"createContainer": []map[string]any{{"path": hookProgram(s.t), "args": []string{"cdi-hook", "--oci", s.file}}}},
		"linux":      linux,
	})
	options := ""
	if filepath.Base(c.runtime) == "crun" {
		options = "--cgroup-manager=disabled"
	}
	// Some crun refuse a machine with both cgroup versions, whatever is
	// asked of them: here they see one, in a mount namespace of their own.
	line := fmt.Sprintf("umount -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec %s --root %s %s run -b %s cdi-hook-%d-%d",
		c.runtime, s.t.TempDir(), options, dir, os.Getpid(), containers.Add(1))
	cmd := exec.CommandContext(s.t.Context(), "/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	cmd.Stdin = strings.NewReader("") // crun gives the streams to the container's root: without, the machine's /dev/null
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// containers counts those made, so that each has a name of its own.
var containers atomic.Int32

// TestOCIWithARuntime has real runtimes run a container with cdi-hook as
// createContainer hook.
func TestOCIWithARuntime(t *testing.T) {
	eachOCI(t, func(t *testing.T, c ociContainer) {
		s := newStand(t, "copy bin/busybox /bin/busybox", "dir proc", "dir dev", "dir tmp")
		s.spec.Links = []hookspec.Link{{Path: "/dev/dri/by-path/x", Target: "../card0"}, {Path: "/usr/lib/gpu/libcuda.so", Target: "libcuda.so.1"}}
		s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
		out, err := c.start(s, "", "/bin/busybox find /dev/dri /usr/lib/gpu /etc")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, want := range []string{"/dev/dri/by-path/x\n", "/usr/lib/gpu/libcuda.so\n", "/etc/ld.so.cache\n", "/etc/ld.so.conf.d/00-cdi-hook.conf\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q was not seen inside:\n%s", want, out)
			}
		}
		s.canary()
	})
}

// TestOCINothingIsReadThatTheContainerCouldNot (A45, A46): in containers of real runtimes,
// the image leads the hook to a folder that an administrator has mounted, with a file
// that only the host's root can read.
func TestOCINothingIsReadThatTheContainerCouldNot(t *testing.T) {
	for _, f := range readFiles(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			eachOCI(t, func(t *testing.T, c ociContainer) {
				s := newStand(t, append([]string{"copy bin/busybox /bin/busybox", "dir proc", "dir dev", "dir tmp", "dir lib", "dir mnt/share", "link " + f.path + " /mnt/share/secret"}, f.image...)...)
				full(s)
				s.spec.MountPoints = nil
				copyAs(t, f.text, filepath.Join(s.host, "share/secret"))
				out, err := c.start(s, filepath.Join(s.host, "share"), "/bin/busybox cat /etc/ld.so.cache /etc/ld-musl-x86_64.path /etc/ld.so.conf.d/00-cdi-hook.conf /mnt/share/secret > /tmp/seen 2>/tmp/errors; true")
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				s.canary()
				if !c.idmap { // that root is the host's, and has read the file itself
					if err := os.Remove(s.path("tmp/seen")); err != nil {
						t.Fatal(err)
					}
				} else if denied := s.read("tmp/errors"); !strings.Contains(denied, "/mnt/share/secret': Permission denied") && !strings.Contains(denied, "/mnt/share/secret: Permission denied") {
					t.Fatalf("the container can read the file itself, or it is not there: %s", denied)
				}
				journal, err := os.ReadFile(s.file + ".made")
				if err != nil {
					t.Fatal(err)
				}
				s.nowhere(out + decoded(journal))
			})
		})
	}
}

// TestOCIAPathFileBehindALinkThatAMountChanges (F8): in containers of real runtimes, what
// musl's path file leads to is on a volume by the time that the hook runs.
func TestOCIAPathFileBehindALinkThatAMountChanges(t *testing.T) {
	eachOCI(t, func(t *testing.T, c ociContainer) {
		s := newStand(t, "copy bin/busybox /bin/busybox", "dir proc", "dir dev", "dir tmp", "dir usr/lib/gpu", "file lib/ld-musl-x86_64.so.1 x",
			"link etc/ld-musl-x86_64.path ../mnt/share/own.path", "file mnt/share/own.path /lib:/opt/own\n")
		s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
		s.plant(s.host, "file share/own.path /opt/volume\n")
		if c.idmap {
			s.chown()
		}
		before := s.tree()
		out, err := c.start(s, filepath.Join(s.host, "share"), "/bin/busybox cat /etc/ld-musl-x86_64.path /mnt/share/own.path")
		if want := "/lib\n/opt/own\n/usr/lib/gpu\n/opt/volume\n"; err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("%v: the container saw %q, want %q", err, out, want)
		}
		s.run(hook.Finish, hook.Clean)
		if after := s.tree(); after != before {
			t.Errorf("taken back:\n%s", differing(before, after))
		}
		s.canary()
	})
}
