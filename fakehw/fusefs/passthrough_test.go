package fusefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// mountSys mounts these files as /sys; what is written to one becomes its content.
func mountSys(t testing.TB, files map[string]string, mode fs.FileMode) *union {
	t.Helper()
	fake := tree.New()
	for name, text := range files {
		fake = fill(t, fake, fake.WriteFile("/sys/"+name, []byte(text), mode))
	}
	var m *union
	write := func(path string, data []byte) syscall.Errno {
		m.set(t, path, string(data))
		return 0
	}
	m = mountUnion(t, fusefs.Union{Tree: fake, Write: write, Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}}})
	return m
}

func (m *union) set(t testing.TB, path, text string) {
	t.Helper()
	m.change(t, func(next *tree.Tree) error {
		e, err := next.Entry(path)
		if err == nil {
			e.Data, e.Size = []byte(text), int64(len(text))
		}
		return err
	})
}

// needPassthrough skips where the kernel cannot answer for us, and fails where it
// can and does not.
func needPassthrough(t *testing.T, m *union) {
	t.Helper()
	if _, may := m.Passes(); may {
		return
	}
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case major < 6 || major == 6 && minor < 9:
		t.Skipf("Linux %d.%d has no FUSE passthrough", major, minor)
	case os.Geteuid() != 0 || strings.Join(strings.Fields(string(users)), " ") != "0 0 4294967295":
		t.Skip("FUSE passthrough takes root of the machine itself")
	}
	t.Error("the kernel does not answer for us, though it could")
}

// look says what a program can see of an attribute.
func look(t *testing.T, path string) (out []string) {
	t.Helper()
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	size := func(fd int) {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		say("size %d, mode %o, %v", st.Size, st.Mode, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	other, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	size(fd)
	buf := make([]byte, 8192)
	for range 3 {
		n, err := unix.Read(fd, buf)
		say("read %d, %.32q, %v", n, buf[:n], err)
		at, err := unix.Seek(fd, 0, unix.SEEK_CUR)
		say("at %d, %v", at, err)
	}
	for _, off := range []int64{0, 1, 2, 3, 100, 4095, 4096, 1 << 40} {
		n, err := unix.Pread(fd, buf[:3], off)
		say("pread at %d: %q, %v", off, buf[:n], err)
	}
	_, err = unix.Pread(fd, buf, -1)
	say("pread at -1: %v", err)
	at, err := unix.Seek(fd, 0, unix.SEEK_SET)
	say("at %d, %v", at, err)
	for range 4 {
		n, err := unix.Read(fd, buf[:1])
		say("one byte: %q, %v", buf[:n], err)
	}
	n, err := unix.Read(other, buf)
	say("the other reader: %d, %.32q, %v", n, buf[:n], err)
	size(fd)
	for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDONLY | unix.O_DIRECT, unix.O_RDONLY | unix.O_APPEND, unix.O_RDONLY | unix.O_DIRECTORY} {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		say("open with %#x: %v", flags, err)
	}
	at, err = unix.Seek(fd, -1, unix.SEEK_END)
	say("at %d, %v", at, err)
	_, err = unix.Write(fd, []byte("x"))
	say("write: %v", err)
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	k, err := unix.Splice(other, new(int64), pipe[1], nil, 100, 0)
	say("splice: %d, %v", k, err)
	if text, err := os.ReadFile(path); true {
		say("whole: %d, %.32q, %v", len(text), text, err)
	}
	size(fd)
	return out
}

func TestAnAttributeIsAsInSysfs(t *testing.T) {
	for _, real := range []string{"/sys/devices/system/cpu/possible", "/sys/bus/pci/devices/0000:00:00.0/vendor", "/sys/bus/pci/devices/0000:00:00.0/config"} {
		t.Run(filepath.Base(real), func(t *testing.T) {
			text, err := os.ReadFile(real)
			if err != nil {
				t.Skipf("this machine has none: %v", err)
			}
			info, err := os.Stat(real)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(real)
			m := mountSys(t, map[string]string{name: string(text)}, info.Mode().Perm())
			want := look(t, real)
			for _, most := range []int{0, 100} { // we answer; the kernel does, where it can
				m.PassAtMost(most)
				if most > 0 {
					needPassthrough(t, m)
				}
				if diff := cmp.Diff(want, look(t, filepath.Join(m.dir, "sys", name))); diff != "" {
					t.Errorf("with at most %d backings (-sysfs +ours):\n%s", most, diff)
				}
			}
			if n, may := m.Passes(); may && (n == 1) != (info.Mode()&0o222 == 0) {
				t.Errorf("of a file of mode %v %d have a backing", info.Mode(), n)
			}
		})
	}
}

func TestTheKernelReadsWhatItWasGiven(t *testing.T) {
	m := mountSys(t, map[string]string{"a": "0x10de\n"}, 0o444)
	needPassthrough(t, m)
	f, err := os.Open(filepath.Join(m.dir, "sys/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan string)
	m.lock.Lock() // we could not answer
	go func() {
		buf := make([]byte, 100)
		n, err := unix.Pread(int(f.Fd()), buf, 0)
		done <- fmt.Sprint(string(buf[:n]), err)
	}()
	select {
	case got := <-done:
		m.lock.Unlock()
		if want := "0x10de\n<nil>"; got != want {
			t.Errorf("read %q; want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		m.lock.Unlock()
		t.Errorf("a read waits for us; then %q", <-done)
	}
}

func TestEveryReaderSeesAChange(t *testing.T) {
	for _, most := range []int{0, 100} {
		m := mountSys(t, map[string]string{"a": "first\n"}, 0o444)
		m.PassAtMost(most)
		path := filepath.Join(m.dir, "sys/a")
		var held []int // one opened at each content
		defer func() {
			for _, fd := range held {
				unix.Close(fd)
			}
		}()
		buf := make([]byte, 8192)
		for _, text := range []string{"first\n", "2\n", "a longer one, the third\n", "", "five\n", strings.Repeat("x", 4000) + "\n"} {
			if text != "first\n" {
				for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC} { // beside the readers
					fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
					if err != nil {
						t.Fatalf("open beside %d readers: %v", len(held), err)
					}
					if _, err := unix.Write(fd, []byte(text)); err != nil && text != "" {
						t.Fatal(err)
					}
					unix.Close(fd)
				}
				if text == "" {
					m.set(t, "/sys/a", text)
				}
			}
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if held = append(held, fd); len(held) == 1 {
				if err := os.Chmod(path, 0o644); err != nil { // the kernel reads it, and now it can be written
					t.Fatal(err)
				}
			}
			for i, fd := range held {
				if n, err := unix.Pread(fd, buf, 0); err != nil || string(buf[:n]) != text {
					t.Errorf("at most %d: reader %d sees %.20q, %v; want %.20q", most, i, buf[:n], err, text)
				}
			}
			m.read(t, "sys/a", text)
			if info, err := os.Stat(path); err != nil || info.Size() != 4096 {
				t.Errorf("size %v, %v; want 4096", info, err)
			}
		}
	}
}

// The first change is made before, since of a file that was open then a reader
// may see half.
func TestNoReaderSeesHalfOfAChange(t *testing.T) {
	texts := []string{"first and longest\n", "second\n", "3\n"}
	m := mountSys(t, map[string]string{"a": texts[0]}, 0o444)
	m.read(t, "sys/a", texts[0])
	m.set(t, "/sys/a", texts[1])
	end := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if got, err := os.ReadFile(filepath.Join(m.dir, "sys/a")); err != nil || !slices.Contains(texts, string(got)) {
					t.Errorf("a reader sees %q, %v", got, err)
					return
				}
			}
		})
	}
	for i := range 300 {
		m.set(t, "/sys/a", texts[i%3])
	}
	close(end)
	readers.Wait()
}

func TestBackingsAreGivenUp(t *testing.T) {
	count := func() (n int) {
		names, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "/memfd:"+fusefs.Name) {
				n++
			}
		}
		return n
	}
	until := func(want int) {
		t.Helper()
		for range 400 { // the kernel forgets when it likes to
			if count() == want {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%d backings; want %d", count(), want)
	}
	t.Run("mounted", func(t *testing.T) {
		m := mountSys(t, map[string]string{"a": "1\n", "b": "2\n", "c": "3\n"}, 0o444)
		needPassthrough(t, m)
		m.PassAtMost(2)
		for range 2 {
			for name, text := range map[string]string{"a": "1\n", "b": "2\n", "c": "3\n"} {
				m.read(t, "sys/"+name, text)
			}
		}
		until(2)
		m.change(t, func(next *tree.Tree) error {
			return errors.Join(next.Remove("/sys/a"), next.Remove("/sys/b"), next.Remove("/sys/c"))
		})
		until(0)
		m.change(t, func(next *tree.Tree) error { return next.WriteFile("/sys/a", []byte("again\n"), 0o444) })
		m.read(t, "sys/a", "again\n")
		until(1)
	})
	until(0)
}

func TestEntriesAreAsOldAsTheFirstLookAtThem(t *testing.T) {
	fake := tree.New()
	fake = fill(t, fake, fake.WriteFile("/sys/dir/a", []byte("1\n"), 0o444), fake.Symlink("/sys/link", "dir/a"))
	u := mountUnion(t, fusefs.Union{Tree: fake, Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}}, Files: map[string]func() []byte{"made": func() []byte { return nil }}})
	for name, dir := range map[string]string{"union": u.dir, "mount": mount(t, fake, fusefs.Options{})} {
		for _, p := range []string{"", "sys", "sys/dir", "sys/dir/a", "sys/link", "made"} {
			if name == "mount" && p == "made" {
				continue
			}
			first, err := os.Lstat(filepath.Join(dir, p))
			if err != nil {
				t.Fatal(err)
			}
			again, err := os.Lstat(filepath.Join(dir, p))
			if err != nil {
				t.Fatal(err)
			}
			if old := time.Since(first.ModTime()); old < 0 || old > time.Hour || !again.ModTime().Equal(first.ModTime()) {
				t.Errorf("%s: %q is of %v, then of %v", name, p, first.ModTime(), again.ModTime())
			}
		}
	}
}
