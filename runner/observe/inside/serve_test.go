package inside_test

import (
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
	"gpurig/runner/observe/inside"
)

// empty is a container with nothing in it: the tests never look at this machine.
type empty struct {
	*tree.Tree
	env []string
}

func (e empty) Head(string, int) ([]byte, error)     { return nil, nil }
func (e empty) Mounts() ([]observe.MountLine, error) { return nil, nil }
func (e empty) Environ() ([]string, error)           { return e.env, nil }
func (e empty) Groups() ([]uint32, error)            { return nil, nil }
func (e empty) OpenNode(string, bool) syscall.Errno  { return syscall.ENXIO }
func newEmpty(env ...string) empty                   { return empty{Tree: tree.New(), env: env} }

func TestServeAnswersEachRequest(t *testing.T) {
	var out strings.Builder
	if err := inside.Serve(newEmpty("A=1"), strings.NewReader(`{} {"paths":["/x"]}`), &out); err != nil {
		t.Fatal(err)
	}
	want := `{"observation":{"env":["A=1"]}}` + "\n" +
		`{"observation":{"files":[{"path":"/x","type":"absent","size":0,"mode":0,"uid":0,"gid":0}],"env":["A=1"]}}` + "\n"
	if out.String() != want {
		t.Errorf("Serve() wrote\n%swant\n%s", out.String(), want)
	}
}

func TestServeSaysThatARequestIsBroken(t *testing.T) {
	var out strings.Builder
	err := inside.Serve(newEmpty(), strings.NewReader(`{"paths":1}`), &out)
	var a inside.Answer
	if err == nil || json.Unmarshal([]byte(out.String()), &a) != nil || !strings.HasPrefix(a.Error, "request: ") {
		t.Errorf("Serve() = %v, wrote %q; want an error and an answer that says so", err, out.String())
	}
}

func TestInitEndsWhenTheHarnessHangsUp(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, inside.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() { done <- inside.Init(newEmpty(), dir) }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(conn).Encode(observe.Request{}); err != nil {
		t.Fatal(err)
	}
	var a inside.Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil || a.Error != "" {
		t.Fatalf("answer %+v, %v", a, err)
	}
	conn.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Init() = %v; want nil after the harness hung up", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Init() did not end after the harness hung up (F29)")
	}
}

func TestGuardRefusesAMachine(t *testing.T) {
	if err := inside.Guard(newEmpty("HOME=/"), nil); !errors.Is(err, inside.ErrNotContainer) {
		t.Errorf("Guard(no container) = %v; want ErrNotContainer", err)
	}
	if err := inside.Guard(newEmpty("container=lxc"), nil); err != nil {
		t.Errorf("Guard(container=lxc) = %v; want nil", err)
	}
	if err := inside.Guard(newEmpty(), []string{"container=lxc"}); err != nil {
		t.Errorf("Guard() with container=lxc of our own = %v; want nil", err)
	}
}
