package disk_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
)

func fill(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var card = device.Node{Path: "/dev/dri/card0", Type: device.Char, Num: device.Num{Major: 226}, Mode: 0o660, GID: 44}

// The surface checks of package roottest cover what is written; these are about
// what is not.

func TestDeviceNodesAreReportedUnlessAskedFor(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mknod(card), fake.WriteFile("/etc/name", []byte("x"), 0o644), fake.Chown("/etc/name", uint32(os.Geteuid()), uint32(os.Getegid())))
	dir := t.TempDir()
	missing, err := disk.Write(t.Context(), fake, dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(missing, func(m disk.Missing) bool { return m.Path == card.Path })
	if i < 0 || missing[i].What != "char 226:0" || !errors.Is(missing[i].Err, disk.ErrNotAsked) {
		t.Errorf("missing: %v; want %s, char 226:0", missing, card.Path)
	}
	if _, err := os.Lstat(filepath.Join(dir, card.Path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v; want none", card.Path, err)
	}
}

func TestDeviceNodesThatAreAskedForAreMadeOrAnError(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mknod(card))
	dir := t.TempDir()
	_, err := disk.Write(t.Context(), fake, dir, disk.Options{Mknod: true})
	var st unix.Stat_t
	made := unix.Lstat(filepath.Join(dir, card.Path), &st)
	switch {
	case err == nil && (made != nil || st.Rdev != unix.Mkdev(226, 0) || st.Gid != 44 || st.Mode != unix.S_IFCHR|0o660):
		t.Errorf("no error, but the node is %+v, %v", st, made)
	case err != nil && !errors.Is(err, fs.ErrPermission):
		t.Errorf("Write: %v; want it made, or fs.ErrPermission", err)
	case err != nil && !strings.Contains(err.Error(), card.Path):
		t.Errorf("Write: %v; want the path in it", err)
	}
}

func TestForeignOwnersAreSetOrReported(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/f", nil, 0o644), fake.Chown("/f", 12345, 54321))
	dir := t.TempDir()
	missing, err := disk.Write(t.Context(), fake, dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, "f"), &st); err != nil {
		t.Fatal(err)
	}
	reported := slices.ContainsFunc(missing, func(m disk.Missing) bool { return m.Path == "/f" && m.What == "owner 12345:54321" })
	if set := st.Uid == 12345 && st.Gid == 54321; set == reported {
		t.Errorf("owner %d:%d, reported: %v (%v)", st.Uid, st.Gid, reported, missing)
	}
}

func TestADirectoryCanBeLeftEmpty(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mknod(card), fake.WriteFile("/dev/file", nil, 0o644), fake.WriteFile("/device", nil, 0o644), fake.Chmod("/dev", 0o711))
	dir := t.TempDir()
	missing, err := disk.Write(t.Context(), fake, dir, disk.Options{Leave: []string{"/dev"}})
	if err != nil || slices.ContainsFunc(missing, func(m disk.Missing) bool { return m.Path == card.Path }) {
		t.Errorf("Write: %v, %v; want no word of what is below /dev", missing, err)
	}
	list, err := os.ReadDir(filepath.Join(dir, "dev"))
	if err != nil || len(list) != 0 {
		t.Errorf("/dev has %v, %v; want nothing", list, err)
	}
	if i, err := os.Stat(filepath.Join(dir, "dev")); err != nil || i.Mode() != fs.ModeDir|0o711 {
		t.Errorf("/dev: %v, %v; want mode 0711", i, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "device")); err != nil {
		t.Errorf("a name that only begins alike: %v", err)
	}
}

func TestOnlyWhatIsWantedIsWritten(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/etc/a/x", nil, 0o644), fake.WriteFile("/etc/b/x", nil, 0o644), fake.WriteFile("/b", nil, 0o644))
	dir := t.TempDir()
	only := func(dir, name string, e *tree.Entry) bool { return dir == "/etc/a" || e.Mode.IsDir() && name != "b" }
	if _, err := disk.Write(t.Context(), fake, dir, disk.Options{Only: only}); err != nil {
		t.Fatal(err)
	}
	var got []string
	fill(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		got = append(got, strings.TrimPrefix(p, dir))
		return err
	}))
	if want := []string{"", "/etc", "/etc/a", "/etc/a/x"}; !slices.Equal(got, want) {
		t.Errorf("written: %q; want %q", got, want)
	}
}

func TestWhatIsThereStaysAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(p string) error
	}{
		{"a file", func(p string) error { return os.WriteFile(p, []byte("mine"), 0o600) }},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"A41 a link out of the directory", func(p string) error { return os.Symlink("/etc", p) }},
		{"A41 a dangling link", func(p string) error { return os.Symlink("/tmp/none/such", p) }},
	} {
		for kind, put := range map[string]func(*tree.Tree) error{
			"file": func(f *tree.Tree) error { return f.WriteFile("/x", []byte("theirs"), 0o644) },
			"dir":  func(f *tree.Tree) error { return f.WriteFile("/x/y", []byte("theirs"), 0o644) },
			"link": func(f *tree.Tree) error { return f.Symlink("/x", "z") },
			"fifo": func(f *tree.Tree) error { return f.Fifo("/x", 0o644) },
		} {
			t.Run(tc.name+" against a "+kind, func(t *testing.T) {
				dir := t.TempDir()
				fake := tree.New()
				fill(t, tc.make(filepath.Join(dir, "x")), put(fake))
				before, err := os.Lstat(filepath.Join(dir, "x"))
				fill(t, err)
				if _, err := disk.Write(t.Context(), fake, dir, disk.Options{}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "/x") {
					t.Errorf("Write: %v; want fs.ErrExist for /x", err)
				}
				after, err := os.Lstat(filepath.Join(dir, "x"))
				if err != nil || before.Mode() != after.Mode() || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
					t.Errorf("x was %v, is %v (%v)", before, after, err)
				}
			})
		}
	}
}

// Trees made by methods cannot have such names; entries put in by hand can.
func TestA41NamesThatLeadElsewhereAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc", "nul\x00"} {
		fake := tree.New()
		fill(t, fake.WriteFile("/d/ok", nil, 0o644))
		d, err := fake.Entry("/d")
		fill(t, err)
		d.Children[name] = d.Children["ok"]
		if _, err := disk.Write(t.Context(), fake, t.TempDir(), disk.Options{}); !errors.Is(err, disk.ErrName) {
			t.Errorf("entry %q: %v; want ErrName", name, err)
		}
	}
}

// A directory that hands down its group, and its bit, makes no difference.
func TestModesDoNotDependOnASetGroupIDDirectory(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Mkdir("/empty", 0o755), fake.WriteFile("/full/file", []byte("x"), 0o644))
	dir := t.TempDir()
	fill(t, os.Chmod(dir, 0o755|os.ModeSetgid))
	if _, err := disk.Write(t.Context(), fake, dir, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"empty": 0o755, "full": 0o755, "full/file": 0o644} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Mode()&(os.ModePerm|os.ModeSetgid) != want {
			t.Errorf("%s has %v, %v; want %v", name, i.Mode(), err, want)
		}
	}
}

// Nodes, sockets and pipes have their mode whether or not the umask grants it.
func TestModesOfNodesDoNotDependOnTheUmask(t *testing.T) {
	fake := tree.New()
	fill(t, fake.Socket("/open", 0o666), fake.Socket("/shut", 0o600))
	for _, mask := range []int{0, 0o022, 0o777} {
		dir := t.TempDir()
		old := syscall.Umask(mask)
		_, err := disk.Write(t.Context(), fake, dir, disk.Options{})
		syscall.Umask(old)
		fill(t, err)
		for name, want := range map[string]os.FileMode{"open": 0o666, "shut": 0o600} {
			if i, err := os.Lstat(filepath.Join(dir, name)); err != nil || i.Mode().Perm() != want {
				t.Errorf("umask %03o: %s has %v, %v; want %v", mask, name, i.Mode(), err, want)
			}
		}
	}
}

// A default ACL or an odd umask must not change modes; the latter can be had here.
func TestModesDoNotDependOnTheUmask(t *testing.T) {
	fake := tree.New()
	modes := map[string]fs.FileMode{"a": 0o777, "b": 0o666, "c": 0o644, "d": 0o400, "e": 0}
	for name, mode := range modes {
		fill(t, fake.WriteFile("/dir/"+name, []byte("x"), mode))
	}
	fill(t, fake.Mkdir("/dir", 0o777))
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		dir := t.TempDir()
		old := syscall.Umask(mask)
		_, err := disk.Write(t.Context(), fake, dir, disk.Options{})
		syscall.Umask(old)
		fill(t, err)
		for name, want := range modes {
			if i, err := os.Stat(filepath.Join(dir, "dir", name)); err != nil || i.Mode() != want {
				t.Errorf("umask %03o: %s has %v, %v; want %v", mask, name, i.Mode(), err, want)
			}
		}
		if i, err := os.Stat(filepath.Join(dir, "dir")); err != nil || i.Mode().Perm() != 0o777 {
			t.Errorf("umask %03o: the directory has %v, %v; want 0777", mask, i.Mode(), err)
		}
	}
}

func TestAnEndedContextStopsTheWriting(t *testing.T) {
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	dir := t.TempDir()
	fake := tree.New()
	fill(t, fake.WriteFile("/f", nil, 0o644))
	if _, err := disk.Write(ctx, fake, dir, disk.Options{}); !errors.Is(err, reason) {
		t.Errorf("Write: %v; want the cause", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("written all the same: %v, %v", list, err)
	}
}

func TestTheDirectoryIsMadeButNotOutOfAFile(t *testing.T) {
	fake := tree.New()
	top := t.TempDir()
	if _, err := disk.Write(t.Context(), fake, filepath.Join(top, "a", "b"), disk.Options{}); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	fill(t, os.WriteFile(filepath.Join(top, "f"), nil, 0o600))
	if _, err := disk.Write(t.Context(), fake, filepath.Join(top, "f"), disk.Options{}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file in its place: %v; want ENOTDIR", err)
	}
}
