package tree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// What reading a tree must do is in package roottest.

func fill(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func mustBe(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

func TestParentsAreMadeAndLinksOnTheWayFollowed(t *testing.T) {
	fake := tree.New()
	fill(t,
		fake.Symlink("/lib", "usr/lib"),
		fake.Mkdir("/usr/lib", 0o755),
		fake.WriteFile("/lib/x86_64/libcuda.so.1", []byte("ELF"), 0o644))
	if got, err := fake.ReadFile("/usr/lib/x86_64/libcuda.so.1"); err != nil || string(got) != "ELF" {
		t.Errorf("below the link's target: %q, %v", got, err)
	}
	if i, err := fake.Lstat("/usr/lib/x86_64"); err != nil || i.Mode != fs.ModeDir|0o755 || i.UID != 0 {
		t.Errorf("a made parent: %+v, %v", i, err)
	}
	fill(t, fake.Mkdir("/proc", 0o555), fake.WriteFile("/proc/driver/nvidia/params", nil, 0o444))
	for _, p := range []string{"/proc/driver", "/proc/driver/nvidia"} {
		if i, err := fake.Lstat(p); err != nil || i.Mode != fs.ModeDir|0o555 {
			t.Errorf("a parent made where nobody may write: %+v, %v", i, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	base := func(t *testing.T) *tree.Tree {
		fake := tree.New()
		fill(t, fake.WriteFile("/file", []byte("x"), 0o644), fake.Mkdir("/dir/sub", 0o755),
			fake.Symlink("/dangling", "none"), fake.Symlink("/loop", "loop"), fake.Symlink("/to-dir", "dir"))
		return fake
	}
	for _, tc := range []struct {
		name string
		do   func(*tree.Tree) error
		want error
	}{
		{"a file over a directory", func(f *tree.Tree) error { return f.WriteFile("/dir", nil, 0o644) }, syscall.EISDIR},
		{"a link over a directory", func(f *tree.Tree) error { return f.Symlink("/dir", "x") }, syscall.EISDIR},
		{"a link over the root", func(f *tree.Tree) error { return f.Symlink("/", "x") }, syscall.EISDIR},
		{"a directory over a file", func(f *tree.Tree) error { return f.Mkdir("/file", 0o755) }, syscall.EEXIST},
		{"a directory over a dangling link", func(f *tree.Tree) error { return f.Mkdir("/dangling", 0o755) }, syscall.EEXIST},
		{"below a file", func(f *tree.Tree) error { return f.WriteFile("/file/x", nil, 0o644) }, syscall.ENOTDIR},
		{"deep below a file", func(f *tree.Tree) error { return f.Mkdir("/file/x/y", 0o755) }, syscall.ENOTDIR},
		{"below a dangling link", func(f *tree.Tree) error { return f.WriteFile("/dangling/x", nil, 0o644) }, fs.ErrNotExist},
		{"below a loop", func(f *tree.Tree) error { return f.WriteFile("/loop/x", nil, 0o644) }, syscall.ELOOP},
		{"a relative path", func(f *tree.Tree) error { return f.WriteFile("x", nil, 0o644) }, syscall.EINVAL},
		{"an empty path", func(f *tree.Tree) error { return f.Mkdir("", 0o755) }, syscall.EINVAL},
		{"an empty link", func(f *tree.Tree) error { return f.Symlink("/l", "") }, fs.ErrNotExist},
		{"a node of no type", func(f *tree.Tree) error { return f.Mknod(device.Node{Path: "/n", Num: device.Num{Major: 1}}) }, syscall.EINVAL},
		{"a node beyond dev_t", func(f *tree.Tree) error {
			return f.Mknod(device.Node{Path: "/n", Type: device.Char, Num: device.Num{Major: device.MaxMajor + 1}})
		}, syscall.EINVAL},
		{"removing the root", func(f *tree.Tree) error { return f.Remove("/..") }, syscall.EBUSY},
		{"removing nothing", func(f *tree.Tree) error { return f.Remove("/none") }, fs.ErrNotExist},
		{"removing below a file", func(f *tree.Tree) error { return f.Remove("/file/x") }, syscall.ENOTDIR},
		{"the owner of nothing", func(f *tree.Tree) error { return f.Chown("/none", 1, 1) }, fs.ErrNotExist},
		{"the mode of a dangling link", func(f *tree.Tree) error { return f.Chmod("/dangling", 0o600) }, fs.ErrNotExist},
		{"moving nothing", func(f *tree.Tree) error { return f.Rename("/none", "/x") }, fs.ErrNotExist},
		{"moving to nowhere", func(f *tree.Tree) error { return f.Rename("/file", "/none/x") }, fs.ErrNotExist},
		{"moving below a file", func(f *tree.Tree) error { return f.Rename("/dir", "/file/x") }, syscall.ENOTDIR},
		{"moving into itself", func(f *tree.Tree) error { return f.Rename("/dir", "/dir/sub/x") }, syscall.EINVAL},
		{"moving the root", func(f *tree.Tree) error { return f.Rename("/", "/dir/x") }, syscall.EBUSY},
		{"moving over the root", func(f *tree.Tree) error { return f.Rename("/file", "/") }, syscall.EBUSY},
		{"moving over a full directory", func(f *tree.Tree) error {
			return errors.Join(f.Mkdir("/other", 0o755), f.Rename("/other", "/dir"))
		}, syscall.ENOTEMPTY},
		{"moving a file over a directory", func(f *tree.Tree) error { return f.Rename("/file", "/dir") }, syscall.EISDIR},
		{"moving a directory over a file", func(f *tree.Tree) error { return f.Rename("/dir", "/file") }, syscall.ENOTDIR},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := base(t)
			before := fake.Clone()
			err := tc.do(fake)
			mustBe(t, tc.name, err, tc.want)
			if _, ok := errors.AsType[*fs.PathError](err); !ok {
				t.Errorf("%v is no PathError", err)
			}
			if tc.want != syscall.ENOTEMPTY && fake.Sum() != before.Sum() {
				t.Error("a refusal changed the tree")
			}
		})
	}
}

// On a merged-usr host "mkdir -p /lib" finds a directory; it must not replace
// the link by an empty one.
// Trees remember where they made something last.
func TestAPathIsWhereItLeadsNow(t *testing.T) {
	for name, change := range map[string]func(*tree.Tree) error{
		"removed":      func(f *tree.Tree) error { return f.Remove("/a") },
		"moved":        func(f *tree.Tree) error { return f.Rename("/a", "/b") },
		"another tree": func(f *tree.Tree) error { f.Update(tree.New()); return nil },
	} {
		fake := tree.New()
		fill(t, fake.WriteFile("/a/dir/old", nil, 0o644), change(fake), fake.WriteFile("/a/dir/new", nil, 0o644))
		if names, err := fake.ReadDir("/a/dir"); err != nil || !slices.Equal(names, []string{"new"}) {
			t.Errorf("%s: %v, %v; want the new file alone", name, names, err)
		}
	}
	fake := tree.New()
	fill(t, fake.Mkdir("/one", 0o755), fake.Mkdir("/two", 0o755), fake.Symlink("/link", "one"), fake.WriteFile("/link/old", nil, 0o644),
		fake.Symlink("/link", "two"), fake.WriteFile("/link/new", nil, 0o644))
	if names, err := fake.ReadDir("/two"); err != nil || !slices.Equal(names, []string{"new"}) {
		t.Errorf("a link that leads elsewhere: %v, %v; want the new file", names, err)
	}
}

func TestMkdirKeepsWhatIsThere(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/usr/lib/f", nil, 0o644), fake.Symlink("/lib", "usr/lib"),
		fake.Mkdir("/lib", 0o711), fake.Mkdir("/usr", 0o700))
	if i, err := fake.Lstat("/lib"); err != nil || !i.IsLink() {
		t.Errorf("/lib is %+v, %v; want the link", i, err)
	}
	for p, want := range map[string]fs.FileMode{"/usr/lib": 0o711, "/usr": 0o700} {
		if i, err := fake.Lstat(p); err != nil || i.Mode != fs.ModeDir|want {
			t.Errorf("%s is %v, %v; want mode %v", p, i.Mode, err, want)
		}
	}
	if _, err := fake.Lstat("/usr/lib/f"); err != nil {
		t.Error(err)
	}
}

func TestALinkIsReplacedNotWrittenThrough(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/target", []byte("old"), 0o644), fake.Symlink("/l", "target"), fake.WriteFile("/l", []byte("new"), 0o600))
	if got, err := fake.ReadFile("/target"); err != nil || string(got) != "old" {
		t.Errorf("the target has %q, %v", got, err)
	}
	if i, err := fake.Lstat("/l"); err != nil || i.Mode != 0o600 {
		t.Errorf("/l is %+v, %v; want a file", i, err)
	}
}

func TestOwnersAndModes(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/f", nil, 0o644), fake.Symlink("/l", "f"),
		fake.Chown("/l", 1, 2), fake.Chmod("/l", 0o600), fake.Chown("/", 3, 4), fake.Chmod("/", 0o700))
	for p, want := range map[string]host.Info{
		"/f": {Mode: 0o600}, // chmod follows, chown does not
		"/l": {Mode: fs.ModeSymlink | 0o777, UID: 1, GID: 2, Size: 1},
		"/":  {Mode: fs.ModeDir | 0o700, UID: 3, GID: 4},
	} {
		if got, err := fake.Lstat(p); err != nil || got != want {
			t.Errorf("Lstat(%q) = %+v, %v; want %+v", p, got, err, want)
		}
	}
}

func TestRename(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/a/f", []byte("x"), 0o640), fake.Mkdir("/b", 0o755), fake.Symlink("/to-b", "b"),
		fake.Rename("/a/f", "/to-b/g"), fake.Mkdir("/empty", 0o755), fake.Rename("/b", "/empty"), fake.Rename("/empty", "/empty"))
	var got []string
	fill(t, fake.Walk(func(p string, _ *tree.Entry) error { got = append(got, p); return nil }))
	if want := []string{"/", "/a", "/empty", "/empty/g", "/to-b"}; !slices.Equal(got, want) {
		t.Errorf("paths are %v; want %v", got, want)
	}
}

func TestACloneIsATreeOfItsOwn(t *testing.T) {
	one := tree.New()
	fill(t, one.WriteFile("/d/f", []byte("one"), 0o644), one.Mknod(device.Node{Path: "/dev/n", Type: device.Char, Num: device.Num{Major: 195}}))
	two := one.Clone()
	sum := one.Sum()
	if two.Sum() != sum {
		t.Fatal("a clone differs")
	}
	e, err := two.Entry("/d/f")
	fill(t, err)
	e.SetData([]byte("two, longer"))
	fill(t, two.Chown("/dev/n", 1, 1), two.Remove("/dev"), two.WriteFile("/new", nil, 0o600), two.Chmod("/", 0o700))
	if one.Sum() != sum {
		t.Error("changing the clone changed the tree")
	}
	if i, err := two.Lstat("/d/f"); err != nil || i.Size != 11 {
		t.Errorf("after SetData: %+v, %v; want size 11", i, err)
	}
}

func TestEverythingCountsInTheSum(t *testing.T) {
	build := func(change func(*tree.Tree) error) string {
		fake := tree.New()
		fill(t, fake.WriteFile("/f", []byte("x"), 0o644), fake.Symlink("/l", "f"), fake.Mkdir("/d", 0o755), fake.Fifo("/p", 0o600),
			fake.Mknod(device.Node{Path: "/n", Type: device.Char, Num: device.Num{Major: 195, Minor: 1}, Mode: 0o666}), change(fake))
		return fake.Sum()
	}
	same := func(*tree.Tree) error { return nil }
	seen := map[string]string{build(same): "nothing"}
	if build(same) != build(same) {
		t.Fatal("the sum of equal trees differs")
	}
	for name, change := range map[string]func(*tree.Tree) error{
		"content":  func(f *tree.Tree) error { return f.WriteFile("/f", []byte("y"), 0o644) },
		"mode":     func(f *tree.Tree) error { return f.Chmod("/f", 0o600) },
		"owner":    func(f *tree.Tree) error { return f.Chown("/f", 1, 0) },
		"group":    func(f *tree.Tree) error { return f.Chown("/f", 0, 1) },
		"target":   func(f *tree.Tree) error { return f.Symlink("/l", "d") },
		"a name":   func(f *tree.Tree) error { return f.Rename("/f", "/g") },
		"an entry": func(f *tree.Tree) error { return f.Mkdir("/d/e", 0o755) },
		"type":     func(f *tree.Tree) error { return f.Socket("/p", 0o600) },
		"number": func(f *tree.Tree) error {
			return f.Mknod(device.Node{Path: "/n", Type: device.Char, Num: device.Num{Major: 195, Minor: 2}, Mode: 0o666})
		},
		"device type": func(f *tree.Tree) error {
			return f.Mknod(device.Node{Path: "/n", Type: device.Block, Num: device.Num{Major: 195, Minor: 1}, Mode: 0o666})
		},
		"top mode": func(f *tree.Tree) error { return f.Chmod("/", 0o700) },
		"size alone": func(f *tree.Tree) error {
			e, err := f.Entry("/f")
			e.Size = 4096 // as sysfs says of an attribute
			return err
		},
	} {
		sum := build(change)
		if other, ok := seen[sum]; ok {
			t.Errorf("changing %s gives the sum of changing %s", name, other)
		}
		seen[sum] = name
	}
}

func TestNodes(t *testing.T) {
	fake := tree.New()
	want := []device.Node{
		{Path: "/dev/dri/card0", Type: device.Char, Num: device.Num{Major: 226}, Mode: 0o660, GID: 44},
		{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666},
		{Path: "/dev/nvme0n1", Type: device.Block, Num: device.Num{Major: 259}, Mode: 0o660, UID: 1},
	}
	for _, n := range want {
		fill(t, fake.Mknod(n))
	}
	fill(t, fake.WriteFile("/dev/file", nil, 0o644), fake.Mknod(device.Node{Path: "/other", Type: device.Char, Num: device.Num{Major: 1}}))
	if got := fake.Nodes("/dev"); !slices.Equal(got, want) {
		t.Errorf("Nodes(/dev) = %v; want %v", got, want)
	}
	if got := fake.Nodes("/none"); got != nil {
		t.Errorf("Nodes(/none) = %v; want none", got)
	}
}

// Entries made one after the other in a directory go the short way there.
func TestNamesAfterOneInTheSameDirectory(t *testing.T) {
	for p, want := range map[string]string{"/a/b/..": "/a", "/a/b/.": "/a/b", "/a/b/": "/a/b"} {
		fake := tree.New()
		fill(t, fake.WriteFile("/a/b/c", nil, 0o644))
		mustBe(t, "WriteFile "+p, fake.WriteFile(p, nil, 0o644), syscall.EISDIR)
		if e, err := fake.Entry(want); err != nil || !e.Mode.IsDir() {
			t.Errorf("after WriteFile(%q) %s is %v, %v; want the directory it was", p, want, e, err)
		}
	}
}

func TestWalkStopsAtTheFirstError(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mkdir("/a/b", 0o755), fake.Mkdir("/c", 0o755))
	stop := errors.New("stop")
	var seen []string
	err := fake.Walk(func(p string, _ *tree.Entry) error {
		seen = append(seen, p)
		if p == "/a" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || !slices.Equal(seen, []string{"/", "/a"}) {
		t.Errorf("Walk: %v after %v", err, seen)
	}
}

func TestCreatePath(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mkdir("/d", 0o755), fake.WriteFile("/f", nil, 0o644), fake.Symlink("/d/rel", "new"), fake.Symlink("/abs", "/d/new"),
		fake.Symlink("/far", "none/new"), fake.Symlink("/loop", "loop"))
	for p, want := range map[string]string{"/x": "/x", "/d/rel": "/d/new", "/abs": "/d/new", "/f": "/f"} {
		if got, err := fake.CreatePath(p); err != nil || got != want {
			t.Errorf("CreatePath(%q) = %q, %v; want %q", p, got, err, want)
		}
	}
	for p, want := range map[string]error{"/far": fs.ErrNotExist, "/none/x": fs.ErrNotExist, "/f/x": syscall.ENOTDIR, "/loop": syscall.ELOOP} {
		_, err := fake.CreatePath(p)
		mustBe(t, p, err, want)
	}
}

// Whatever is made under a path is found there, or was refused; nothing else
// changes hands, and no path panics.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"/a", "/a/../b", "//x//", "/lib/x", "rel", "", "/.", "/loop/x", "/\x00", "/a/./b/..", "/up/up/up/etc", "/up/up"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, p, q string) {
		fake := tree.New()
		fill(t, fake.Mkdir("/usr/lib", 0o755), fake.Symlink("/lib", "usr/lib"), fake.Symlink("/loop", "loop"), fake.Symlink("/up", ".."))
		at, err := host.ResolveDir(fake, path.Clean(p)) // a file in the place of a link that leads to it ends the path
		if err != nil {
			at = path.Clean(p)
		}
		if err := fake.WriteFile(p, []byte("x"), 0o644); err == nil {
			if got, err := fake.ReadFile(at); err != nil || string(got) != "x" {
				t.Fatalf("wrote %q and read %q, %v", p, got, err)
			}
			if real, err := host.Resolve(fake, at); err != nil || !path.IsAbs(real) {
				t.Fatalf("Resolve(%q) = %q, %v", at, real, err)
			}
		}
		_ = fake.Rename(p, q)
		count := 0
		fill(t, fake.Walk(func(at string, e *tree.Entry) error {
			if count++; at != path.Clean(at) || slices.Contains([]string{".", ".."}, path.Base(at)) {
				return fmt.Errorf("a path %q", at)
			}
			if got, err := fake.Entry(at); err != nil || got != e {
				return fmt.Errorf("Entry(%q) = %p, %v; want %p", at, got, err, e)
			}
			return nil
		}))
		if count > 300 {
			t.Fatalf("%d entries", count)
		}
	})
}
