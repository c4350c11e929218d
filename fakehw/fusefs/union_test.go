package fusefs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// A union is one that is mounted.
type union struct {
	*fusefs.Served
	dir  string
	tree *tree.Tree
	lock sync.Mutex
}

func mountUnion(t testing.TB, u fusefs.Union) *union {
	t.Helper()
	m := &union{dir: t.TempDir(), tree: u.Tree}
	u.Lock = &m.lock
	conn, mnt, err := fusefs.Connect(fusefs.Options{}, true)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no FUSE here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(mnt)
	if m.Served, err = u.Serve(conn); err != nil {
		t.Fatal(err)
	}
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, m.dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	if err := fusefs.Settle(mnt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-m.Done()
	})
	return m
}

// change makes the tree another, as a live host does.
func (m *union) change(t testing.TB, f func(next *tree.Tree) error) {
	t.Helper()
	m.lock.Lock()
	next := m.tree.Clone()
	err := f(next)
	changes := m.tree.Update(next)
	m.lock.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	m.Changed(changes)
}

func (m *union) read(t testing.TB, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(m.dir, name)); err != nil || string(got) != want {
		t.Errorf("%s = %q, %v; want %q", name, got, err, want)
	}
}

func realDir(t testing.TB, files map[string]string) int {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestAUnionShowsTheTreeAmongWhatIsReal(t *testing.T) {
	fake := tree.New()
	fill(t, fake,
		fake.WriteFile("/sys/shared/gpu", []byte("fake\n"), 0o644),
		fake.WriteFile("/sys/alone/gpu", []byte("fake\n"), 0o644),
		fake.Symlink("/sys/shared/link", "../alone"))
	real := realDir(t, map[string]string{"shared/net": "real\n", "shared/gpu": "real\n", "shared/hidden": "real\n", "alone/net": "real\n", "denied": "real\n"})
	m := mountUnion(t, fusefs.Union{
		Tree: fake,
		Branches: map[string]fusefs.Branch{"sys": {
			Sub: "/sys", Real: real,
			Merge: func(rel string) bool { return rel == "" || rel == "shared" },
			Hide:  func(rel string) bool { return rel == "shared/hidden" },
			Deny:  func(rel string) bool { return rel == "denied" },
		}},
		Files: map[string]func() []byte{"made": func() []byte { return []byte("made\n") }},
	})
	m.read(t, "sys/shared/gpu", "fake\n")
	m.read(t, "sys/shared/net", "real\n")
	m.read(t, "sys/shared/link/gpu", "fake\n")
	m.read(t, "made", "made\n")
	for dir, want := range map[string]string{"": "made sys", "sys": "alone denied shared", "sys/shared": "gpu link net", "sys/alone": "gpu"} {
		entries, err := os.ReadDir(filepath.Join(m.dir, dir))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q has %s, %v; want %s", dir, got, err, want)
		}
	}
	for name, want := range map[string]error{"sys/shared/hidden": syscall.ENOENT, "sys/alone/net": syscall.ENOENT} {
		if _, err := os.Lstat(filepath.Join(m.dir, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(m.dir, "sys/denied"), []byte("x"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("write to what is denied: %v", err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "sys/shared/net"), []byte("written\n"), 0); err != nil {
		t.Errorf("write to what is real: %v", err)
	}
	m.read(t, "sys/shared/net", "written\n")
	if err := os.WriteFile(filepath.Join(m.dir, "sys/shared/gpu"), []byte("x"), 0); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to the tree of a union without Write: %v; want EROFS", err)
	}
}

// A write is refused with the errno of the host, before write(2) returns, and
// what it changed is seen by a reader right after, whatever the kernel kept.
func TestAWriteHasItsEffectBeforeItReturns(t *testing.T) {
	fake := tree.New()
	fill(t, fake,
		fake.WriteFile("/sys/unbind", nil, 0o200),
		fake.WriteFile("/sys/class", []byte("0x030200\n"), 0o444),
		fake.WriteFile("/sys/override", []byte("(null)\n"), 0o644),
		fake.WriteFile("/sys/gpu/driver/name", []byte("nvidia\n"), 0o644))
	var m *union
	var written []string
	m = mountUnion(t, fusefs.Union{
		Tree:     fake,
		Branches: map[string]fusefs.Branch{"sys": {Sub: "/sys", Real: -1}},
		Write: func(p string, data []byte) syscall.Errno {
			written = append(written, p+" "+string(data))
			switch string(data) {
			case "busy":
				return syscall.EBUSY
			case "none":
				return syscall.ENODEV
			}
			m.change(t, func(next *tree.Tree) error {
				if p == "/sys/unbind" {
					return errors.Join(next.Remove("/sys/gpu/driver/name"), next.Remove("/sys/gpu/driver"), next.Mkdir("/sys/vfio", 0o755))
				}
				return next.WriteFile(p, append(data, '\n'), 0o644)
			})
			return 0
		},
	})
	at := func(name string) string { return filepath.Join(m.dir, "sys", name) }
	for range 3 { // warm: the kernel knows all of it, and that vfio is not there
		m.read(t, "sys/gpu/driver/name", "nvidia\n")
		m.read(t, "sys/override", "(null)\n")
		if _, err := os.Stat(at("vfio")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for data, want := range map[string]error{"busy": syscall.EBUSY, "none": syscall.ENODEV} {
		if err := os.WriteFile(at("unbind"), []byte(data), 0); !errors.Is(err, want) {
			t.Errorf("write %q: %v; want %v", data, err, want)
		}
	}
	m.read(t, "sys/gpu/driver/name", "nvidia\n")
	held, err := os.Open(at("override"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, word := range []string{"vfio-pci", "x", "a longer word than both of them"} {
		if err := os.WriteFile(at("override"), []byte(word), 0); err != nil {
			t.Fatal(err)
		}
		m.read(t, "sys/override", word+"\n")
		buf := make([]byte, 100)
		if n, _ := held.ReadAt(buf, 0); string(buf[:n]) != word+"\n" {
			t.Errorf("a reader from before sees %q; want %q", buf[:n], word)
		}
	}
	if err := os.WriteFile(at("unbind"), []byte("0000:41:00.0"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at("gpu/driver")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	if _, err := os.Stat(at("vfio")); err != nil {
		t.Errorf("what was made: %v", err)
	}
	if want := "/sys/unbind 0000:41:00.0"; written[len(written)-1] != want {
		t.Errorf("written: %q", written)
	}
	for name, flags := range map[string]int{"unbind": os.O_RDONLY, "class": os.O_WRONLY} { // kernfs refuses root too
		if f, err := os.OpenFile(at(name), flags, 0); !errors.Is(err, syscall.EACCES) {
			t.Errorf("open %s: %v; want EACCES", name, err)
			f.Close()
		}
	}
	for name, err := range map[string]error{
		"create":  os.WriteFile(at("new"), nil, 0o644),
		"mkdir":   os.Mkdir(at("dir"), 0o755),
		"symlink": os.Symlink("a", at("link")),
		"remove":  os.Remove(at("class")),
		"rmdir":   syscall.Rmdir(at("vfio")),
		"rename":  os.Rename(at("class"), at("other")),
	} {
		if !errors.Is(err, fs.ErrPermission) { // EPERM or EACCES
			t.Errorf("%s: %v; want EPERM", name, err)
		}
	}
	m.read(t, "sys/class", "0x030200\n")
	// As in sysfs, root gives an attribute away; writing is still for the attribute to allow.
	if err := os.Chmod(at("class"), 0o640); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(at("class")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("after chmod: %v, %v", info, err)
	}
	if f, err := os.OpenFile(at("class"), os.O_WRONLY, 0); err != nil {
		t.Errorf("open to write what was made writable: %v", err)
	} else {
		f.Close()
	}
}
