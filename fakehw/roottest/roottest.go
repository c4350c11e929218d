// Package roottest has the checks that every implementation of host.Root must pass:
// the memory tree, afero, files on disk, FUSE and the reader of real directories.
//
// If an implementation cannot be set up for a check (device nodes on disk without
// privileges), its build function skips the check with the reason.
package roottest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// A Check is one promise of host.Root.
type Check struct {
	Fill func(*tree.Tree) error             // makes what is to be read
	Look func(t testing.TB, root host.Root) // reads it
}

// Test runs every check against what build makes of a tree. Build may skip.
func Test(t *testing.T, build func(t testing.TB, fake *tree.Tree) host.Root) {
	for _, name := range slices.Sorted(maps.Keys(Checks)) {
		t.Run(name, func(t *testing.T) {
			fake := tree.New()
			if err := Checks[name].Fill(fake); err != nil {
				t.Fatalf("fill: %v", err)
			}
			before := fake.Sum()
			Checks[name].Look(t, build(t, fake))
			if fake.Sum() != before {
				t.Error("reading changed the tree")
			}
		})
	}
}

// Checks are all promises, by name. The names are sentences.
var Checks = map[string]Check{
	"a directory lists its names in order": {fillNames, func(t testing.TB, r host.Root) {
		names(t, r, "/d", "10", "2", "B", "a", "a b", "é\n\\")
		names(t, r, "/")
		names(t, r, "/empty", []string{}...)
	}},
	"a directory says that it is one": {fillNames, func(t testing.TB, r host.Root) {
		for _, p := range []string{"/", "/d", "/empty"} {
			if i := lstat(t, r, p); i.Mode != fs.ModeDir|0o755 {
				t.Errorf("Lstat(%q): mode %v; want %v", p, i.Mode, fs.ModeDir|0o755)
			}
		}
	}},
	"a file has its contents and size": {fillFiles, func(t testing.TB, r host.Root) {
		read(t, r, "/f", "text\n")
		read(t, r, "/zero", "")
		read(t, r, "/bytes", "\x00\xff\x7fELF\x00")
		read(t, r, "/big", strings.Repeat("0123456789abcdef", 20_000))
		if i := lstat(t, r, "/f"); i.Size != 5 {
			t.Errorf("Lstat(/f): size %d; want 5", i.Size)
		}
	}},
	"a file's contents are the reader's own": {fillFiles, func(t testing.TB, r host.Root) {
		first, err := r.ReadFile("/f")
		if err != nil {
			t.Fatal(err)
		}
		clear(first)
		read(t, r, "/f", "text\n")
	}},
	"permission bits are kept": {fillModes, func(t testing.TB, r host.Root) {
		for _, mode := range modes {
			p := fmt.Sprintf("/m%o", mode)
			if i := lstat(t, r, p); i.Mode != mode {
				t.Errorf("Lstat(%q): mode %v; want %v", p, i.Mode, mode)
			}
		}
		if i := lstat(t, r, "/closed"); i.Mode != fs.ModeDir|0o555 {
			t.Errorf("Lstat(/closed): mode %v; want %v", i.Mode, fs.ModeDir|0o555)
		}
		read(t, r, "/closed/inside", "x")
	}},
	"setuid, setgid and sticky bits are kept": {fillBits, func(t testing.TB, r host.Root) {
		for p, want := range map[string]fs.FileMode{
			"/tmp": fs.ModeDir | fs.ModeSticky | 0o777, "/shared": fs.ModeDir | fs.ModeSetgid | 0o775,
			"/tmp/modprobe": fs.ModeSetuid | 0o755, "/tmp/wall": fs.ModeSetgid | 0o755,
		} {
			if i := lstat(t, r, p); i.Mode != want {
				t.Errorf("Lstat(%q): mode %v; want %v", p, i.Mode, want)
			}
		}
	}},
	"owners are kept": {fillOwners, func(t testing.TB, r host.Root) {
		for _, p := range []string{"/dir", "/dir/file", "/dir/link"} {
			if i := lstat(t, r, p); i.UID != 1000 || i.GID != 44 {
				t.Errorf("Lstat(%q): owner %d:%d; want 1000:44", p, i.UID, i.GID)
			}
		}
	}},
	"a device node has its type and number": {fillNodes, func(t testing.TB, r host.Root) {
		for _, n := range nodes {
			i := lstat(t, r, n.Path)
			if !i.IsDevice() || i.DeviceType() != n.Type || i.Num != n.Num || i.Mode.Perm() != n.Mode || i.UID != n.UID || i.GID != n.GID {
				t.Errorf("Lstat(%q) = %+v; want %+v", n.Path, i, n)
			}
		}
		names(t, r, "/dev", "cap300", "fifo", "last", "nvidia0", "nvme0n1", "socket")
	}},
	"a device node is not read": {fillNodes, func(t testing.TB, r host.Root) {
		refuses(t, r, "/dev/nvidia0")
		refuses(t, r, "/dev/nvme0n1")
	}},
	"R9 a pipe or socket has its type and is not read, which would wait": {fillSockets, func(t testing.TB, r host.Root) {
		for p, want := range map[string]fs.FileMode{"/fifo": fs.ModeNamedPipe | 0o644, "/socket": fs.ModeSocket | 0o666} {
			if i := lstat(t, r, p); i.Mode != want {
				t.Errorf("Lstat(%q): mode %v; want %v", p, i.Mode, want)
			}
			refuses(t, r, p)
		}
		refuses(t, r, "/to-fifo")
	}},
	"a directory is not read as a file": {fillNames, func(t testing.TB, r host.Root) { refuses(t, r, "/d") }},
	"a link is a link": {fillLinks, func(t testing.TB, r host.Root) {
		for p, target := range map[string]string{
			"/lib": "usr/lib", "/abs": "/usr/lib/libcuda.so.1", "/dangling": "no/where", "/loop": "loop",
		} {
			if i := lstat(t, r, p); !i.IsLink() || i.Size != int64(len(target)) {
				t.Errorf("Lstat(%q) = %+v; want a link of size %d", p, i, len(target))
			}
			if got, err := r.Readlink(p); err != nil || got != target {
				t.Errorf("Readlink(%q) = %q, %v; want %q", p, got, err, target)
			}
		}
	}},
	"links in directories are followed": {fillLinks, func(t testing.TB, r host.Root) {
		read(t, r, "/lib/libcuda.so.1", "ELF")
		names(t, r, "/lib", "libcuda.so.1", "up")
		if i := lstat(t, r, "/lib/up"); !i.IsLink() {
			t.Errorf("Lstat(/lib/up) = %+v; want a link", i)
		}
		if got, err := r.Readlink("/lib/up"); err != nil || got != "../x" {
			t.Errorf("Readlink(/lib/up) = %q, %v; want ../x", got, err)
		}
	}},
	"a relative link starts where the link really is": {fillLinks, func(t testing.TB, r host.Root) {
		read(t, r, "/lib/up", "in usr")
	}},
	"A1 an absolute link starts at the root": {fillLinks, func(t testing.TB, r host.Root) {
		read(t, r, "/abs", "ELF")
		read(t, r, "/deep/root/x", "in root")
		names(t, r, "/deep/root/usr", "lib", "x")
	}},
	"A2 no link leads above the root": {fillLinks, func(t testing.TB, r host.Root) {
		read(t, r, "/climb", "in root")
		read(t, r, "/deep/climb", "in root")
		read(t, r, "/above/x", "in root")
	}},
	"B4 forty links are followed and no more": {fillChain, func(t testing.TB, r host.Root) {
		read(t, r, "/l40", "end")
		fails(t, r, "/l41", syscall.ELOOP)
	}},
	"B4 a loop is an error":         {fillLinks, func(t testing.TB, r host.Root) { fails(t, r, "/loop", syscall.ELOOP) }},
	"a dangling link leads nowhere": {fillLinks, func(t testing.TB, r host.Root) { fails(t, r, "/dangling", fs.ErrNotExist) }},
	"what is missing does not exist": {fillNames, func(t testing.TB, r host.Root) {
		for _, p := range []string{"/none", "/none/below", "/d/none"} {
			fails(t, r, p, fs.ErrNotExist)
			for op, err := range map[string]error{"Lstat": second(r.Lstat(p)), "Readlink": second(r.Readlink(p))} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s(%q): %v; want fs.ErrNotExist", op, p, err)
				}
			}
		}
	}},
	"a file is no directory": {fillFiles, func(t testing.TB, r host.Root) {
		fails(t, r, "/f/below", syscall.ENOTDIR)
		for op, err := range map[string]error{
			"Lstat": second(r.Lstat("/f/below")), "ReadDir": second(r.ReadDir("/f")),
		} {
			if !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf("%s: %v; want ENOTDIR", op, err)
			}
		}
	}},
	"only a link is read as a link": {fillFiles, func(t testing.TB, r host.Root) {
		for _, p := range []string{"/f", "/"} {
			if got, err := r.Readlink(p); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("Readlink(%q) = %q, %v; want EINVAL", p, got, err)
			}
		}
	}},
	"A39 a slash at the end does not follow a link": {fillLinks, func(t testing.TB, r host.Root) {
		if i := lstat(t, r, "/lib/"); !i.IsLink() {
			t.Errorf("Lstat(/lib/) = %+v; want a link", i)
		}
	}},
	"a path that is not absolute is refused": {fillFiles, func(t testing.TB, r host.Root) {
		for _, p := range []string{"", "f", "./f", "../f"} {
			for op, err := range map[string]error{
				"Lstat": second(r.Lstat(p)), "Readlink": second(r.Readlink(p)),
				"ReadFile": second(r.ReadFile(p)), "ReadDir": second(r.ReadDir(p)),
			} {
				if err == nil {
					t.Errorf("%s(%q): no error", op, p)
				}
			}
		}
	}},
	"errors name the path": {fillFiles, func(t testing.TB, r host.Root) {
		for op, err := range map[string]error{
			"Lstat": second(r.Lstat("/none")), "Readlink": second(r.Readlink("/none")),
			"ReadFile": second(r.ReadFile("/none")), "ReadDir": second(r.ReadDir("/none")),
		} {
			if err == nil || !strings.Contains(err.Error(), "/none") {
				t.Errorf("%s(/none): %v; want the path in it", op, err)
			}
		}
	}},
}

func second[T any](_ T, err error) error { return err }

func lstat(t testing.TB, r host.Root, p string) host.Info {
	t.Helper()
	i, err := r.Lstat(p)
	if err != nil {
		t.Errorf("Lstat(%q): %v", p, err)
	}
	return i
}

func read(t testing.TB, r host.Root, p, want string) {
	t.Helper()
	got, err := r.ReadFile(p)
	if err != nil || !bytes.Equal(got, []byte(want)) {
		t.Errorf("ReadFile(%q) = %.40q (%d bytes), %v; want %.40q (%d bytes)", p, got, len(got), err, want, len(want))
	}
}

// names compares a listing; without want it only asks for order.
func names(t testing.TB, r host.Root, p string, want ...string) {
	t.Helper()
	got, err := r.ReadDir(p)
	switch {
	case err != nil:
		t.Errorf("ReadDir(%q): %v", p, err)
	case want == nil && !slices.IsSorted(got):
		t.Errorf("ReadDir(%q) = %q: not sorted", p, got)
	case want != nil && !slices.Equal(got, want):
		t.Errorf("ReadDir(%q) = %q; want %q", p, got, want)
	}
}

func refuses(t testing.TB, r host.Root, p string) {
	t.Helper()
	if got, err := r.ReadFile(p); err == nil || errors.Is(err, fs.ErrNotExist) || got != nil {
		t.Errorf("ReadFile(%q) = %.40q, %v; want a refusal", p, got, err)
	}
}

// fails wants reading p, as a file and as a directory, to fail with err.
func fails(t testing.TB, r host.Root, p string, want error) {
	t.Helper()
	for op, err := range map[string]error{"ReadFile": second(r.ReadFile(p)), "ReadDir": second(r.ReadDir(p))} {
		if !errors.Is(err, want) {
			t.Errorf("%s(%q): %v; want %v", op, p, err, want)
		}
	}
}

func fillNames(t *tree.Tree) error {
	err := t.Mkdir("/empty", 0o755)
	for _, name := range []string{"B", "a", "10", "2", "a b", "é\n\\"} {
		err = errors.Join(err, t.WriteFile("/d/"+name, nil, 0o644))
	}
	return err
}

func fillFiles(t *tree.Tree) error {
	return errors.Join(
		t.WriteFile("/f", []byte("text\n"), 0o644),
		t.WriteFile("/zero", nil, 0o644),
		t.WriteFile("/bytes", []byte("\x00\xff\x7fELF\x00"), 0o644),
		t.WriteFile("/big", bytes.Repeat([]byte("0123456789abcdef"), 20_000), 0o644),
	)
}

var modes = []fs.FileMode{0o000, 0o200, 0o444, 0o640, 0o755, 0o777}

func fillModes(t *tree.Tree) error {
	err := t.Mkdir("/closed", 0o555)
	err = errors.Join(err, t.WriteFile("/closed/inside", []byte("x"), 0o444))
	for _, mode := range modes {
		err = errors.Join(err, t.WriteFile(fmt.Sprintf("/m%o", mode), nil, mode))
	}
	return err
}

func fillOwners(t *tree.Tree) error {
	err := errors.Join(t.WriteFile("/dir/file", nil, 0o644), t.Symlink("/dir/link", "file"))
	for _, p := range []string{"/dir", "/dir/file", "/dir/link"} {
		err = errors.Join(err, t.Chown(p, 1000, 44))
	}
	return err
}

var nodes = []device.Node{
	{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666},
	{Path: "/dev/cap300", Type: device.Char, Num: device.Num{Major: 236, Minor: 300}, Mode: 0o444},
	{Path: "/dev/last", Type: device.Char, Num: device.Num{Major: 511, Minor: device.MaxMinor}, Mode: 0o600, UID: 7},
	{Path: "/dev/nvme0n1", Type: device.Block, Num: device.Num{Major: 259, Minor: 1}, Mode: 0o660, GID: 6},
}

func fillBits(t *tree.Tree) error {
	return errors.Join(
		t.Mkdir("/tmp", fs.ModeSticky|0o777),
		t.Mkdir("/shared", fs.ModeSetgid|0o775),
		t.WriteFile("/tmp/modprobe", []byte("x"), fs.ModeSetuid|0o755),
		t.WriteFile("/tmp/wall", []byte("x"), fs.ModeSetgid|0o755),
	)
}

func fillNodes(t *tree.Tree) error {
	err := errors.Join(t.Fifo("/dev/fifo", 0o600), t.Socket("/dev/socket", 0o600))
	for _, n := range nodes {
		err = errors.Join(err, t.Mknod(n))
	}
	return err
}

func fillSockets(t *tree.Tree) error {
	return errors.Join(t.Fifo("/fifo", 0o644), t.Socket("/socket", 0o666), t.Symlink("/to-fifo", "fifo"))
}

func fillLinks(t *tree.Tree) error {
	return errors.Join(
		t.WriteFile("/x", []byte("in root"), 0o644),
		t.WriteFile("/usr/x", []byte("in usr"), 0o644),
		t.WriteFile("/usr/lib/libcuda.so.1", []byte("ELF"), 0o644),
		t.Symlink("/usr/lib/up", "../x"), // by path /lib/up this is /usr/x, not /x
		t.Symlink("/lib", "usr/lib"),
		t.Symlink("/abs", "/usr/lib/libcuda.so.1"),
		t.Symlink("/dangling", "no/where"),
		t.Symlink("/loop", "loop"),
		t.Symlink("/deep/root", "/"),
		t.Symlink("/climb", "../../../../../../../../../../../../../../x"),
		t.Symlink("/deep/climb", "../../../../../../../../../../../../../../x"),
		t.Symlink("/above", "/../../.."),
	)
}

func fillChain(t *tree.Tree) error {
	err := t.WriteFile("/l0", []byte("end"), 0o644)
	for i := 1; i <= 41; i++ {
		err = errors.Join(err, t.Symlink(fmt.Sprintf("/l%d", i), fmt.Sprintf("l%d", i-1)))
	}
	return err
}
