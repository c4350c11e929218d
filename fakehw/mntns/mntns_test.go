package mntns_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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

func TestTheFakeMachineIsTheRootDirectory(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		s := session(t, opts)
		for _, name := range []string{"first", "second"} { // one child, two trees
			got := do(t, s, "look", name+" 2")
			for _, want := range []string{
				"wd /\n",
				"\n/etc/name -rw-r----- 0:0 0:0 " + fmt.Sprintf("%q", name),
				"\n/lib Lrwxrwxrwx ",
				"\n/dev/nvidia0 Dcrw-rw-rw- 0:0 195:0\n",
				"\n/dev/nvidia-caps/nvidia-cap300 Dcr--r--r-- 0:0 236:300\n",
				"\n/dev/dri/card0 Dcrw-rw---- 0:",
				"\n/run/nvidia-persistenced/socket Srw-rw-rw- ",
				"\n/sys/bus/pci/devices/01/1 -r--r--r-- ",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: want %q in\n%s", name, want, got)
				}
			}
			if lines := strings.Count(got, "\n/"); lines > 30 {
				t.Errorf("%s: %d paths: more than the fake machine has\n%s", name, lines, got)
			}
			// A foreign group is true or reported, never just wrong.
			if !strings.Contains(got, "/dev/dri/card0 Dcrw-rw---- 0:44 ") &&
				!strings.Contains(got, "missing /dev/dri/card0: owner 0:44: ") {
				t.Errorf("%s: the group of /dev/dri/card0 is wrong and not reported\n%s", name, got)
			}
		}
	})
}

func TestA41NothingIsSeenOutside(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		before := mountTable(t)
		s := session(t, opts)
		do(t, s, "look", "name 0")
		if during := mountTable(t); before != during {
			t.Errorf("the mount table changed from\n%s to\n%s", before, during)
		}
	})
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

func TestRefusalsReachTheCaller(t *testing.T) {
	s := session(t, mntns.Options{})
	_, err := s.Do(t.Context(), "refuse", []byte("name 0"))
	e, ok := errors.AsType[*mntns.Error](err)
	if !ok || !errors.Is(err, mntns.ErrRemote) || e.Hint != "try tomorrow" || !strings.Contains(err.Error(), "refuse: ") {
		t.Errorf("a refusing Run: %#v (%v)", err, err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("nonsense")); !errors.Is(err, mntns.ErrRemote) {
		t.Errorf("a refusing Build: %v; want ErrRemote", err)
	}
	if _, err := s.Do(t.Context(), "nobody", nil); !errors.Is(err, mntns.ErrUnknownKind) {
		t.Errorf("an unknown kind: %v; want ErrUnknownKind", err)
	}
	if got := do(t, s, "look", "after 0"); !strings.Contains(got, `"after"`) {
		t.Errorf("after refusals the child sees\n%s", got)
	}
}

func TestF28AChildThatDiesIsReplaced(t *testing.T) {
	s := session(t, mntns.Options{})
	if _, err := s.Do(t.Context(), "die", []byte("name 0")); !errors.Is(err, mntns.ErrLost) {
		t.Errorf("a killed child: %v; want ErrLost", err)
	}
	do(t, s, "look", "name 0")
	if _, err := s.Do(t.Context(), "panic", []byte("name 0")); err == nil || !strings.Contains(err.Error(), "panic: on purpose") {
		t.Errorf("a panicking handler: %v", err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("name 0")); err != nil && !errors.Is(err, mntns.ErrLost) {
		t.Errorf("after a panic: %v", err)
	}
	do(t, s, "look", "name 0")
}

// F24, F28: whoever waits is not kept, and what was cancelled is no answer.
func TestF24ACancelledRequestEndsTheChild(t *testing.T) {
	s := session(t, mntns.Options{})
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(reason)
	if _, err := s.Do(ctx, "hang", []byte("name 0")); !errors.Is(err, reason) {
		t.Errorf("a cancelled request: %v; want %v", err, reason)
	}
	do(t, s, "look", "name 0")
}

func TestSessionServesManyCallers(t *testing.T) {
	s := session(t, mntns.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("caller%d", i)
			reply, err := s.Do(t.Context(), "look", []byte(name+" 0"))
			if err != nil || !strings.Contains(string(reply), name) {
				t.Errorf("%s: %v\n%s", name, err, reply)
			}
		})
	}
	all.Wait()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("name 0")); !errors.Is(err, mntns.ErrClosed) {
		t.Errorf("after Close: %v; want ErrClosed", err)
	}
}

func TestATreeStaysSetUpUntilEightOthersCame(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		s := session(t, opts)
		visit := func(request, want string) {
			t.Helper()
			got := strings.Fields(do(t, s, "count", request))
			if got[1] != request || got[2] != want {
				t.Errorf("visit of %s: saw %s for the %sth time; want %s", request, got[1], got[2], want)
			}
		}
		visit("a", "0")
		visit("a", "1")
		for i := range 7 {
			visit(fmt.Sprint(i), "0")
		}
		visit("a", "2")
		for i := range 8 {
			visit(fmt.Sprint(100+i), "0")
		}
		visit("a", "0")
	})
}

func TestF29TheChildDiesWithAKilledParent(t *testing.T) {
	session(t, mntns.Options{}) // skips where there can be none
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GPURIG_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also when the test ends early; twice does no harm
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var pid int
	if _, err := fmt.Fscanf(out, "child %d\n", &pid); err != nil {
		t.Fatalf("the parent did not say its child's number: %v", err)
	}
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("child %d: %v", pid, err)
	}
	defer unix.Close(child)
	holdPipes(t, pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "killed", as it should be
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 10_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Fatalf("child %d outlives its parent (%v)", pid, err)
		}
		return
	}
}

// holdPipes keeps the process from reading end of file when its parent dies, as
// if it were busy with a request.
func holdPipes(t *testing.T, pid int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("child %d has no descriptors (%v)", pid, err)
	}
	held := 0
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, "pipe:") {
			continue
		}
		f, err := os.OpenFile(link, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
			t.Logf("not privileged to hold %s: an idle child is tested, not a busy one", link)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		held++
	}
	if held == 0 {
		t.Fatalf("child %d has no pipe among %v", pid, links)
	}
}

func TestAbleAgreesWithTrying(t *testing.T) {
	able := mntns.Able()
	_, err := mntns.Once(t.Context(), "look", []byte("name 0"))
	if (able == nil) != (err == nil) {
		t.Errorf("Able() = %v, but Once: %v", able, err)
	}
	if able != nil {
		e, ok := errors.AsType[*mntns.Error](able)
		if !ok || !errors.Is(able, mntns.ErrUnable) || e.Hint == "" || strings.Contains(able.Error(), "\n") {
			t.Errorf("Able() = %#v; want one line with a hint", able)
		}
	}
}

func BenchmarkOnce700Entries(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mntns.Once(b.Context(), "refuse", []byte("name 700")); !errors.Is(err, mntns.ErrRemote) {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest700Entries(b *testing.B) {
	s := mntns.NewSession(mntns.Options{})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Do(b.Context(), "refuse", []byte("name 700")); !errors.Is(err, mntns.ErrRemote) {
			b.Fatal(err)
		}
	}
}

// A single-use child is another one for each request, and is gone after Close.
func TestASingleChildAnswersOnce(t *testing.T) {
	s := session(t, mntns.Options{Single: true})
	var pids []string
	for range 2 {
		reply, err := s.Do(t.Context(), "count", []byte("single"))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(reply))[0])
	}
	if pids[0] == pids[1] {
		t.Errorf("one child, %s, answered twice", pids[0])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("child %s after Close: %v", pid, err)
		}
	}
}
