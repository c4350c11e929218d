package mntns_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/device"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/tree"
)

func TestMain(m *testing.M) {
	mntns.Register("look", mntns.Handler{Build: machine, Run: look})
	mntns.Register("refuse", mntns.Handler{Build: machine, Run: func(context.Context, mntns.View, []byte) ([]byte, error) {
		return nil, &mntns.Error{Err: errors.New("not today"), Hint: "try tomorrow"}
	}})
	mntns.Register("panic", mntns.Handler{Build: machine, Run: func(context.Context, mntns.View, []byte) ([]byte, error) {
		panic("on purpose")
	}})
	mntns.Register("die", mntns.Handler{Build: machine, Run: func(context.Context, mntns.View, []byte) ([]byte, error) {
		return nil, syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	}})
	mntns.Register("hang", mntns.Handler{Build: machine, Run: func(context.Context, mntns.View, []byte) ([]byte, error) {
		select {}
	}})
	mntns.Register("count", mntns.Handler{Build: remembered, Run: count})
	mntns.Init()
	if os.Getenv("GPURIG_TEST_PARENT") != "" {
		beParent()
	}
	os.Exit(m.Run())
}

// beParent starts a child, prints its process id, and waits to be killed.
func beParent() {
	s := mntns.NewSession(mntns.Options{})
	reply, err := s.Do(context.Background(), "count", []byte("0"))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("child", strings.Fields(string(reply))[0])
	select {}
}

// remembered keeps its trees, by request.
var trees = map[string]*tree.Tree{}

func remembered(request []byte) (*tree.Tree, error) {
	t := trees[string(request)]
	if t == nil {
		t = tree.New()
		if err := t.WriteFile("/name", request, 0o600); err != nil {
			return nil, err
		}
		trees[string(request)] = t
	}
	return t, nil
}

// count appends to a file of the fake machine and returns process id, name, and
// how often it was here before.
func count(context.Context, mntns.View, []byte) ([]byte, error) {
	name, err := os.ReadFile("/name")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile("/visits", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("x")
	return fmt.Appendf(nil, "%d %s %d", os.Getpid(), name, info.Size()), err
}

// machine is a small fake host; the request is the text of /etc/name, and what
// follows a blank is how many files to add.
func machine(request []byte) (*tree.Tree, error) {
	var name string
	var n int
	if _, err := fmt.Sscanf(string(request), "%s %d", &name, &n); err != nil {
		return nil, fmt.Errorf("request %q: %w", request, err)
	}
	t := tree.New()
	err := errors.Join(
		t.WriteFile("/etc/name", []byte(name), 0o640),
		t.Symlink("/lib", "usr/lib"),
		t.WriteFile("/usr/lib/libcuda.so.1", []byte("\x7fELF"), 0o644),
		t.Mknod(device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666}),
		t.Mknod(device.Node{Path: "/dev/dri/card0", Type: device.Char, Num: device.Num{Major: 226}, Mode: 0o660, GID: 44}),
		t.Mknod(device.Node{Path: "/dev/nvidia-caps/nvidia-cap300", Type: device.Char, Num: device.Num{Major: 236, Minor: 300}, Mode: 0o444}),
		t.Socket("/run/nvidia-persistenced/socket", 0o666),
	)
	for i := range n {
		err = errors.Join(err, t.WriteFile(fmt.Sprintf("/sys/bus/pci/devices/%02x/%d", i%16, i), []byte("0x10de\n"), 0o444))
	}
	return t, err
}

// look describes what a program sees: every path with its type, number, owner.
func look(_ context.Context, v mntns.View, _ []byte) ([]byte, error) {
	var out strings.Builder
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&out, "wd %s\n", wd)
	fmt.Println("a handler may print; this must not reach the pipe")
	err = filepath.WalkDir("/", func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&out, "%s %v %d:%d %d:%d", p, info.Mode(), st.Uid, st.Gid, st.Rdev>>8&0xfff, st.Rdev&0xff|st.Rdev>>12&^0xff)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %q", data)
		}
		out.WriteString("\n")
		return nil
	})
	for _, m := range v.Missing {
		fmt.Fprintf(&out, "missing %s\n", m)
	}
	return []byte(out.String()), err
}

// session skips where the machine refuses, and says what to allow.
func session(t *testing.T, opts mntns.Options) *mntns.Session {
	t.Helper()
	s := mntns.NewSession(opts)
	t.Cleanup(func() { _ = s.Close() })
	_, err := s.Do(t.Context(), "refuse", []byte("probe 0"))
	if errors.Is(err, mntns.ErrUnable) {
		e, _ := errors.AsType[*mntns.Error](err)
		t.Skipf("%v (to allow it: %s)", err, e.Hint)
	}
	return s
}

func both(t *testing.T, f func(t *testing.T, opts mntns.Options)) {
	t.Run("as we are", func(t *testing.T) { f(t, mntns.Options{}) })
	t.Run("in a user namespace", func(t *testing.T) { f(t, mntns.Options{UserNamespace: true}) })
}

func do(t *testing.T, s *mntns.Session, kind, request string) string {
	t.Helper()
	reply, err := s.Do(t.Context(), kind, []byte(request))
	if err != nil {
		t.Fatalf("Do(%q, %q): %v", kind, request, err)
	}
	return string(reply)
}

// mountTable is the host's, without what the tests of other packages mount in
// their folders meanwhile.
func mountTable(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, " "+os.TempDir()+"/") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
