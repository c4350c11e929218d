package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// TestA9NothingOfTheImageIsRunOrOpened watches every call of a whole run in an
// image full of programs, loaders, devices and FIFOs: nothing is executed but
// cdi-hook itself, nothing mapped executable, no node or FIFO opened (A18), no
// path of the host tree named (A38), nothing of the image named by a joined path.
func TestA9NothingOfTheImageIsRunOrOpened(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "strace is not installed")
	}
	program := hookProgram(t)
	each(t, func(t *testing.T, walk bool) {
		script := "#!/bin/sh\necho owned > $H/owned\n"
		s := newStand(t, "file sbin/ldconfig "+script, "file lib64/ld-linux-x86-64.so.2 "+script, "file etc/ld.so.preload /evil.so",
			"file etc/nsswitch.conf passwd: evil", "file lib/libnss_evil.so.2 "+script, "file evil.so "+script,
			"dir usr/lib/gpu", "link usr/lib/p $H", "fifo usr/lib/gpu/libfifo.so.1", "fifo etc/ld.so.conf", "link usr/lib/gpu/libout.so.1 $H/d/libcuda.so.1",
			"link usr/lib/gpu/libmagic.so.1 /proc/self/exe")
		s.walk = walk
		if os.Geteuid() == 0 { // of a driver whose open is an action, were it one of those
			for _, p := range []string{"usr/lib/gpu/libnode.so.1", "etc/ld-musl-x86_64.path"} {
				if err := unix.Mknod(s.path(p), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
					skip(t, "no device node can be made here: %v", err)
				}
			}
		}
		for _, f := range []string{"sbin/ldconfig", "lib64/ld-linux-x86-64.so.2"} {
			if err := os.Chmod(s.path(f), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		full(s)
		s.write()
		s.photo()
		for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
			log := filepath.Join(t.TempDir(), "trace")
			cmd := exec.CommandContext(t.Context(), strace, append([]string{"-f", "-y", "-s", "4096", "-o", log, program}, s.args(stage)...)...)
			cmd.Env = []string{}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v, %s", stage, err, out)
			}
			trace, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			s.judgeTrace(string(trace))
			s.canary()
		}
	})
}

var (
	execCall = regexp.MustCompile(`\bexecve(at)?\(`)
	// A call that opens for more than a handle: no O_PATH.
	opened = regexp.MustCompile(`\bopenat2?\(.*\) = \d+<([^>]*)>`)
)

func (s *stand) judgeTrace(trace string) {
	s.t.Helper()
	runs, opens := 0, 0
	for line := range strings.Lines(trace) {
		switch {
		case execCall.MatchString(line):
			if runs++; runs > 1 && !strings.Contains(line, `"/proc/self/exe", ["`) {
				s.t.Errorf("executes something: %s", line)
			}
			continue // names its arguments, paths of ours among them
		case strings.Contains(line, "mmap(") && strings.Contains(line, "PROT_EXEC") && !strings.Contains(line, "MAP_ANONYMOUS"):
			s.t.Errorf("maps a file executable: %s", line)
		case strings.Contains(line, `"`+s.host), strings.Contains(line, `"`+s.root+"/"):
			if !strings.Contains(line, "readlinkat") && !strings.Contains(line, "write(") { // the text of a link, what is said
				s.t.Errorf("names a path below the host tree or the root: %s", line)
			}
		}
		if m := opened.FindStringSubmatch(line); m != nil && !strings.Contains(line, "O_PATH") && strings.HasPrefix(m[1], s.root) {
			opens++
			if st, err := os.Lstat(m[1]); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
				s.t.Errorf("opens what is neither file nor directory: %s", line)
			}
		}
	}
	if runs == 0 || opens == 0 { // a supervised run has a second program: itself
		s.t.Errorf("the trace shows %d programs and %d opened files: it does not show what it should", runs, opens)
	}
}

// TestA18AFileThatIsANode: one in the place of a file that is read.
func TestA18AFileThatIsANode(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root to make a device node")
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "file lib/ld-musl-x86_64.so.1 x")
		s.walk = walk
		if err := unix.Mknod(s.path("etc/ld-musl-x86_64.path"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil { // /dev/zero
			skip(t, "no device node can be made here: %v", err)
		}
		s.spec.LibraryDirs = []string{"/opt/gpu"}
		s.spec.Links = []hookspec.Link{{Path: "/opt/gpu/l", Target: "x"}}
		s.write()
		if _, err := s.try(hook.Apply); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%v; want it refused", err)
		}
		s.canary()
	})
}
