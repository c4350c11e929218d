package fusefs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/roottest"
	"gpurig/fakehw/tree"
)

// mount skips where this machine does not let us.
func mount(t testing.TB, fake *tree.Tree, opts fusefs.Options) string {
	t.Helper()
	dir := t.TempDir()
	m, err := fusefs.Mount(t.Context(), fake, dir, opts)
	if errors.Is(err, fusefs.ErrUnavailable) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) {
		t.Skipf("no FUSE here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Unmount(), m.Unmount()); err != nil {
			t.Error(err)
		}
		<-m.Served()
	})
	return dir
}

// ways are the two ways to mount.
func ways(t *testing.T, f func(t *testing.T, opts fusefs.Options)) {
	t.Run("by mount calls", func(t *testing.T) { f(t, fusefs.Options{}) })
	t.Run("by fusermount3", func(t *testing.T) { f(t, fusefs.Options{Helper: true}) })
}

func TestMountedTree(t *testing.T) {
	ways(t, func(t *testing.T, opts fusefs.Options) {
		roottest.Test(t, func(t testing.TB, fake *tree.Tree) host.Root {
			root, err := osroot.New(mount(t, fake, opts))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { root.Close() }) // before the unmount, which waits for it
			return root
		})
	})
}

func fill(t testing.TB, fake *tree.Tree, err ...error) *tree.Tree {
	t.Helper()
	if err := errors.Join(err...); err != nil {
		t.Fatal(err)
	}
	return fake
}

// A directory lists itself and the one above first, as those of the kernel's own file
// systems do, and has a link for each directory in it: ls -la shows both.
func TestADirectoryHasItsDotsAndLinks(t *testing.T) {
	ways(t, func(t *testing.T, opts fusefs.Options) {
		fake := tree.New()
		fill(t, fake, fake.Mkdir("/a", 0o755), fake.Mkdir("/b/c", 0o755), fake.WriteFile("/file", nil, 0o644))
		dir := mount(t, fake, opts)
		out, err := exec.Command("ls", "-f1", dir).Output()
		if names := strings.Fields(string(out)); err != nil || len(names) < 3 || names[0] != "." || names[1] != ".." {
			t.Errorf("ls -f: %q, %v", out, err)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err != nil || st.Nlink != 4 {
			t.Errorf("%d links, want 4: %v", st.Nlink, err)
		}
	})
}

func TestOnlyOneDirectoryOfTheTree(t *testing.T) {
	fake := tree.New()
	fill(t, fake,
		fake.Mknod(device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666}),
		fake.WriteFile("/etc/hidden", nil, 0o644))
	dir := mount(t, fake, fusefs.Options{Sub: "/dev"})
	got, err := os.ReadDir(dir)
	if err != nil || len(got) != 1 || got[0].Name() != "nvidia0" {
		t.Errorf("the mount has %v, %v; want nvidia0 alone", got, err)
	}
	if _, err := fusefs.Mount(t.Context(), fake, t.TempDir(), fusefs.Options{Sub: "/etc/hidden"}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file as the top: %v; want ENOTDIR", err)
	}
	if _, err := fusefs.Mount(t.Context(), fake, t.TempDir(), fusefs.Options{Sub: "/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing as the top: %v; want fs.ErrNotExist", err)
	}
}

func TestAttributesAreReadWhateverTheirSizeSays(t *testing.T) {
	fake := tree.New()
	fill(t, fake, fake.WriteFile("/empty-looking", []byte("0x10de\n"), 0o444), fake.WriteFile("/page", []byte("1\n"), 0o444))
	for p, size := range map[string]int64{"/empty-looking": 0, "/page": 4096} {
		e, err := fake.Entry(p)
		if err != nil {
			t.Fatal(err)
		}
		e.Size = size
	}
	dir := mount(t, fake, fusefs.Options{})
	for name, want := range map[string]string{"empty-looking": "0x10de\n", "page": "1\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestAChangeIsSeenAtOnce(t *testing.T) {
	fake := tree.New()
	fill(t, fake, fake.WriteFile("/sys/driver", []byte("nvidia\n"), 0o644), fake.WriteFile("/sys/gone", nil, 0o644))
	var lock sync.Mutex
	dir := mount(t, fake, fusefs.Options{Lock: &lock})
	at := func(name string) string { return filepath.Join(dir, "sys", name) }
	read := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
	read("driver", "nvidia\n")
	if _, err := os.Lstat(at("new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	held, err := os.Open(at("gone"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	lock.Lock()
	err = errors.Join(
		fake.WriteFile("/sys/driver", []byte("vfio-pci, a longer word\n"), 0o444),
		fake.WriteFile("/sys/new", []byte("here\n"), 0o644),
		fake.Remove("/sys/gone"))
	lock.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	read("driver", "vfio-pci, a longer word\n")
	read("new", "here\n")
	if _, err := os.Lstat(at("gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it is removed: %v", err)
	}
	if _, err := held.Stat(); err != nil {
		t.Errorf("a removed file that is open: %v", err)
	}
	if info, err := os.Stat(at("driver")); err != nil || info.Mode() != 0o444 {
		t.Errorf("mode %v, %v; want 0444", info, err)
	}
}

func TestTheMountIsReadOnly(t *testing.T) {
	fake := tree.New()
	fill(t, fake, fake.WriteFile("/f", []byte("x"), 0o666))
	before := fake.Sum()
	dir := mount(t, fake, fusefs.Options{})
	for name, err := range map[string]error{
		"write":  os.WriteFile(filepath.Join(dir, "f"), nil, 0o644),
		"create": os.WriteFile(filepath.Join(dir, "g"), nil, 0o644),
		"mkdir":  os.Mkdir(filepath.Join(dir, "d"), 0o755),
		"remove": os.Remove(filepath.Join(dir, "f")),
		"rename": os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "g")),
		"chmod":  os.Chmod(filepath.Join(dir, "f"), 0o600),
		"link":   os.Symlink("x", filepath.Join(dir, "l")),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v; want EROFS", name, err)
		}
	}
	if fake.Sum() != before {
		t.Error("the tree changed")
	}
}

func TestADeviceNodeOpensOnlyWhenAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only real root may mount device nodes that open")
	}
	fake := tree.New()
	fill(t, fake, fake.Mknod(device.Node{Path: "/none", Type: device.Char, Num: device.Num{Major: 240, Minor: 77}, Mode: 0o666}))
	for dev, want := range map[bool]error{false: syscall.EACCES, true: syscall.ENXIO} {
		dir := mount(t, fake, fusefs.Options{Dev: dev})
		if _, err := os.Open(filepath.Join(dir, "none")); !errors.Is(err, want) && !(dev && errors.Is(err, syscall.EPERM)) {
			t.Errorf("Dev %v: %v; want %v", dev, err, want)
		}
	}
}

func TestEverybodySeesTheNodes(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and setpriv to become another user")
	}
	fake := tree.New()
	fill(t, fake, fake.Mknod(device.Node{Path: "/nvidia-cap300", Type: device.Char, Num: device.Num{Major: 236, Minor: 300}, Mode: 0o444, GID: 44}))
	ways(t, func(t *testing.T, opts fusefs.Options) {
		dir := mount(t, fake, opts)
		for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
			if up != dir {
				if err := os.Chmod(up, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		out, err := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups",
			"stat", "-c", "%F %Hr:%Lr %a %u:%g", filepath.Join(dir, "nvidia-cap300")).CombinedOutput()
		if want := "character special file 236:300 444 0:44\n"; err != nil || string(out) != want {
			t.Errorf("another user sees %q, %v; want %q", out, err, want)
		}
	})
}

func TestUnmountDoesNotWaitForOpenFiles(t *testing.T) {
	fake := tree.New()
	fill(t, fake, fake.WriteFile("/f", []byte("x"), 0o644))
	ways(t, func(t *testing.T, opts fusefs.Options) {
		mount(t, fake, opts) // skips where there can be none
		dir := t.TempDir()
		m, err := fusefs.Mount(t.Context(), fake, dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if table(t, dir) != 1 {
			t.Errorf("%s is not in the mount table", dir)
		}
		if err := m.Unmount(); err != nil {
			t.Fatal(err)
		}
		if table(t, dir) != 0 {
			t.Errorf("%s is still in the mount table", dir)
		}
		if got, err := io.ReadAll(f); err != nil || string(got) != "x" {
			t.Errorf("the open file reads %q, %v; want x", got, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		<-m.Served()
	})
}

func table(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), " "+dir+" ")
}

func TestMountRefusals(t *testing.T) {
	fake := tree.New()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name, dir string
		ctx       context.Context
		want      error
	}{
		{"nothing there", "/nowhere/at/all", t.Context(), fs.ErrNotExist},
		{"a file", file, t.Context(), unix.ENOTDIR},
		{"too late", t.TempDir(), ended, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := fusefs.Mount(tc.ctx, fake, tc.dir, fusefs.Options{})
			if m != nil {
				_ = m.Unmount()
			}
			if errors.Is(err, fusefs.ErrUnavailable) {
				t.Skip(err)
			}
			if e, ok := errors.AsType[*fusefs.Error](err); !ok || !errors.Is(err, tc.want) || e.Dir != tc.dir {
				t.Errorf("Mount = %v; want an Error with %v", err, tc.want)
			}
			if table(t, tc.dir) != 0 {
				t.Error("something is mounted")
			}
		})
	}
}

func BenchmarkMount1000Nodes(b *testing.B) {
	fake := tree.New()
	for i := range 1000 {
		fill(b, fake, fake.Mknod(device.Node{Path: fmt.Sprintf("/n%d", i), Type: device.Char, Num: device.Num{Major: 195, Minor: uint32(i)}}))
	}
	dir := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		m, err := fusefs.Mount(b.Context(), fake, dir, fusefs.Options{})
		if err != nil {
			b.Skip(err)
		}
		if err := m.Unmount(); err != nil {
			b.Fatal(err)
		}
	}
}
