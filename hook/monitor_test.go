package hook_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A monitor is a process that runs the hooks of one life one after the other, as
// liblxc's does: by a shell.
type monitor struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func newMonitor(t testing.TB) *monitor {
	t.Helper()
	m := &monitor{t: t, cmd: exec.CommandContext(t.Context(), "/bin/sh", "-c", `while read -r line; do /bin/sh -c "$line" 2>&1; echo "exit $?"; done`)}
	m.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.in, m.out = in, bufio.NewScanner(out)
	t.Cleanup(m.end)
	return m
}

// end ends the monitor, whatever it is at.
func (m *monitor) end() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

// run runs one line, to its end, and returns what it said and "exit N".
func (m *monitor) run(line string) string {
	m.t.Helper()
	if _, err := io.WriteString(m.in, line+"\n"); err != nil {
		m.t.Fatal(err)
	}
	var said []string
	for m.out.Scan() {
		said = append(said, m.out.Text())
		if strings.HasPrefix(m.out.Text(), "exit ") {
			return strings.Join(said, "\n")
		}
	}
	m.t.Fatalf("%s: the monitor ended after %q", line, said)
	return ""
}

// lxcHook is how liblxc runs cdi-hook for a container that is not started.
func (s *stand) lxcHook(typ string) string {
	walk := ""
	if s.walk {
		walk = "--no-openat2 "
	}
	return fmt.Sprintf("LXC_HOOK_TYPE=%s LXC_NAME=%s LXC_ROOTFS_PATH=dir:%s %s %s%s", typ, s.spec.Container, s.root, hookProgram(s.t), walk, s.file)
}

func (m *monitor) hook(s *stand, typ string) string {
	m.t.Helper()
	said := m.run(s.lxcHook(typ))
	if !strings.HasSuffix(said, "exit 0") {
		m.t.Fatalf("%s: %s", typ, said)
	}
	return said
}

func (s *stand) journal() string {
	s.t.Helper()
	data, err := os.ReadFile(s.file + ".made")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}
