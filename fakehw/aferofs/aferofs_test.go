package aferofs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/fakehw/aferofs"
	"gpurig/fakehw/tree"
)

func fill(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func machine(t testing.TB) *tree.Tree {
	fake := tree.New()
	fill(t,
		fake.WriteFile("/usr/lib/libcuda.so.1", []byte("ELF"), 0o644),
		fake.Symlink("/lib", "usr/lib"),
		fake.Symlink("/dangling", "made"),
		fake.Mknod(device.Node{Path: "/dev/nvidia-cap300", Type: device.Char, Num: device.Num{Major: 236, Minor: 300}, Mode: 0o444, GID: 44}),
		fake.Mknod(device.Node{Path: "/dev/nvme0n1", Type: device.Block, Num: device.Num{Major: 259}, Mode: 0o660}),
		fake.Mkdir("/empty", 0o700))
	return fake
}

func TestDeviceNodesKeepTypeNumberAndOwner(t *testing.T) {
	f := aferofs.New(machine(t))
	for p, want := range map[string]struct {
		mode fs.FileMode
		rdev uint64
		gid  uint32
	}{
		"/dev/nvidia-cap300": {fs.ModeDevice | fs.ModeCharDevice | 0o444, unix.Mkdev(236, 300), 44},
		"/dev/nvme0n1":       {fs.ModeDevice | 0o660, unix.Mkdev(259, 0), 0},
	} {
		i, err := f.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		st, ok := i.Sys().(*syscall.Stat_t)
		if i.Mode() != want.mode || !ok || st.Rdev != want.rdev || st.Gid != want.gid {
			t.Errorf("Stat(%q) = %v, %+v; want %+v", p, i.Mode(), st, want)
		}
		if _, err := f.Open(p); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("Open(%q): %v; want ENXIO", p, err)
		}
	}
}

func TestLinksStayLinks(t *testing.T) {
	f := aferofs.New(machine(t))
	if i, lstat, err := f.LstatIfPossible("/lib"); err != nil || !lstat || i.Mode()&fs.ModeSymlink == 0 || i.Name() != "lib" {
		t.Errorf("Lstat(/lib) = %v, %v, %v; want a link", i, lstat, err)
	}
	if i, err := f.Stat("/lib"); err != nil || !i.IsDir() || i.Name() != "lib" {
		t.Errorf("Stat(/lib) = %v, %v; want the directory", i, err)
	}
	if got, err := f.ReadlinkIfPossible("/lib"); err != nil || got != "usr/lib" {
		t.Errorf("Readlink(/lib) = %q, %v", got, err)
	}
	fill(t, f.SymlinkIfPossible("../dev", "/empty/d"))
	if i, err := f.Stat("/empty/d/nvme0n1"); err != nil || i.IsDir() {
		t.Errorf("through a new link: %v, %v", i, err)
	}
	for newname, want := range map[string]error{"/lib": fs.ErrExist, "/none/l": fs.ErrNotExist, "/usr/lib/libcuda.so.1/l": syscall.ENOTDIR} {
		if err := f.SymlinkIfPossible("x", newname); !errors.Is(err, want) {
			t.Errorf("Symlink(%q): %v; want %v", newname, err, want)
		}
	}
	// afero's own walk sees each once, and does not run into links.
	var seen []string
	fill(t, afero.Walk(f, "/lib", func(p string, _ os.FileInfo, err error) error { seen = append(seen, p); return err }))
	if !slices.Equal(seen, []string{"/lib"}) {
		t.Errorf("Walk(/lib) saw %v", seen)
	}
}

func TestWrites(t *testing.T) {
	fake := machine(t)
	f := aferofs.New(fake)
	has := func(p, want string, mode fs.FileMode) {
		t.Helper()
		got, err := fake.ReadFile(p)
		if err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", p, got, err, want)
		}
		if e, err := fake.Follow(p); err != nil || e.Mode != mode || e.Size != int64(len(want)) {
			t.Errorf("%s: %+v, %v; want mode %v and the size", p, e, err, mode)
		}
	}
	kept := fake.Clone()
	sum := kept.Sum()

	file, err := f.OpenFile("/lib/libcuda.so.1", os.O_RDWR|os.O_APPEND, 0)
	fill(t, err)
	_, err = file.WriteString("64")
	fill(t, err)
	has("/usr/lib/libcuda.so.1", "ELF64", 0o644)
	_, err = file.WriteAt([]byte("elf"), 0)
	fill(t, err)
	has("/usr/lib/libcuda.so.1", "elf64", 0o644)
	_, err = file.WriteAt([]byte("!"), 7)
	fill(t, err, file.Sync())
	has("/usr/lib/libcuda.so.1", "elf64\x00\x00!", 0o644)
	fill(t, file.Truncate(3))
	has("/usr/lib/libcuda.so.1", "elf", 0o644)
	at, err := file.Seek(-2, io.SeekEnd)
	fill(t, err)
	rest, err := io.ReadAll(file)
	if at != 1 || err != nil || string(rest) != "lf" {
		t.Errorf("after Seek to %d: %q, %v; want lf", at, rest, err)
	}
	fill(t, file.Close())

	fill(t, afero.WriteFile(f, "/dangling", []byte("x"), 0o600)) // makes what the link names
	has("/made", "x", 0o600)
	fill(t, afero.WriteFile(f, "relative", []byte("r"), 0o644)) // starts at the root
	has("/relative", "r", 0o644)
	created, err := f.Create("/made")
	fill(t, err, created.Close())
	has("/made", "", 0o600) // emptied, mode kept

	if kept.Sum() != sum {
		t.Error("a clone made before changed too")
	}
}

func TestDirectories(t *testing.T) {
	fake := machine(t)
	f := aferofs.New(fake)
	fill(t, f.Mkdir("/lib/new", 0o711), f.MkdirAll("/a/b/c", 0o750), f.MkdirAll("/lib", 0o700))
	for p, want := range map[string]fs.FileMode{"/usr/lib/new": 0o711, "/a/b": 0o750, "/a/b/c": 0o750, "/usr/lib": 0o755} {
		if i, err := f.Stat(p); err != nil || i.Mode() != fs.ModeDir|want {
			t.Errorf("Stat(%q) = %v, %v; want mode %v", p, i, err, want)
		}
	}
	d, err := f.Open("/")
	fill(t, err)
	var all []string
	for {
		some, err := d.Readdirnames(2)
		all = append(all, some...)
		if err == io.EOF {
			break
		}
		fill(t, err)
	}
	if want := []string{"a", "dangling", "dev", "empty", "lib", "usr"}; !slices.Equal(all, want) {
		t.Errorf("names two by two: %v; want %v", all, want)
	}
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		t.Error(err)
	}
	if again, err := d.Readdir(-1); err != nil || len(again) != 6 || again[4].Mode()&fs.ModeSymlink == 0 {
		t.Errorf("again: %v, %v; want six, lib a link", again, err)
	}
	if none, err := d.Readdir(0); err != nil || len(none) != 0 {
		t.Errorf("at the end: %v, %v; want nothing and no error", none, err)
	}
	fill(t, d.Close(), f.Remove("/a/b/c"), f.RemoveAll("/a"), f.RemoveAll("/a"), f.Rename("/empty", "/full"))
	if ok, err := afero.DirExists(f, "/full"); !ok || err != nil {
		t.Errorf("/full: %v, %v", ok, err)
	}
}

func TestRefusals(t *testing.T) {
	fake := machine(t)
	f := aferofs.New(fake)
	before := fake.Sum()
	opened := func(name string, flag int) error { _, err := f.OpenFile(name, flag, 0o644); return err }
	read, err := f.Open("/lib/libcuda.so.1")
	fill(t, err)
	write, err := f.OpenFile("/lib/libcuda.so.1", os.O_WRONLY, 0)
	fill(t, err)
	dir, err := f.Open("/usr")
	fill(t, err)
	shut, err := f.Open("/usr")
	fill(t, err, shut.Close())
	one := make([]byte, 1)
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"open what is not there":      {opened("/none", os.O_RDWR), fs.ErrNotExist},
		"make a file in no directory": {opened("/none/x", os.O_RDWR|os.O_CREATE), fs.ErrNotExist},
		"make a file below a file":    {opened("/lib/libcuda.so.1/x", os.O_RDWR|os.O_CREATE), syscall.ENOTDIR},
		"make what is there":          {opened("/lib/libcuda.so.1", os.O_RDWR|os.O_CREATE|os.O_EXCL), fs.ErrExist},
		"write to a directory":        {opened("/usr", os.O_RDWR), syscall.EISDIR},
		"mkdir what is there":         {f.Mkdir("/lib", 0o755), fs.ErrExist},
		"mkdir in no directory":       {f.Mkdir("/none/x", 0o755), fs.ErrNotExist},
		"mkdir below a file":          {f.MkdirAll("/lib/libcuda.so.1/x", 0o755), syscall.ENOTDIR},
		"remove what is full":         {f.Remove("/usr"), syscall.ENOTEMPTY},
		"remove nothing":              {f.Remove("/none"), fs.ErrNotExist},
		"rename nothing":              {f.Rename("/none", "/x"), fs.ErrNotExist},
		"chmod nothing":               {f.Chmod("/none", 0o600), fs.ErrNotExist},
		"chown nothing":               {f.Chown("/none", 1, 1), fs.ErrNotExist},
		"set a time":                  {f.Chtimes("/usr", time.Time{}, time.Time{}), errors.ErrUnsupported},
		"read a link that is none":    {second(f.ReadlinkIfPossible("/usr")), syscall.EINVAL},
		"write a file open to read":   {second(read.Write(one)), syscall.EBADF},
		"cut a file open to read":     {read.Truncate(0), syscall.EINVAL},
		"read a file open to write":   {second(write.Read(one)), syscall.EBADF},
		"read before the start":       {second(read.ReadAt(one, -1)), syscall.EINVAL},
		"seek before the start":       {second(read.Seek(-1, io.SeekStart)), syscall.EINVAL},
		"write a very long way out":   {second(write.WriteAt(one, 1<<40)), syscall.EFBIG},
		"read a directory":            {second(dir.Read(one)), syscall.EISDIR},
		"list a file":                 {second(read.Readdir(-1)), syscall.ENOTDIR},
		"stat what is closed":         {second(shut.Stat()), fs.ErrClosed},
		"close what is closed":        {shut.Close(), fs.ErrClosed},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%s: %v; want %v", name, tc.err, tc.want)
		}
	}
	if fake.Sum() != before {
		t.Error("a refusal changed the tree")
	}
}

func second[T any](_ T, err error) error { return err }

func TestChownFollowsAndKeeps(t *testing.T) {
	fake := machine(t)
	f := aferofs.New(fake)
	fill(t, f.Chown("/lib", 5, -1), f.Chown("/lib", -1, 6), f.Chmod("/lib", 0o700))
	if i, err := fake.Lstat("/usr/lib"); err != nil || i.UID != 5 || i.GID != 6 || i.Mode.Perm() != 0o700 {
		t.Errorf("/usr/lib is %+v, %v; want 5:6 and 0700", i, err)
	}
}

// A file system without links or owners is a root too, with what it has.
func TestAPlainFileSystemIsARoot(t *testing.T) {
	plain := afero.NewMemMapFs()
	fill(t, plain.MkdirAll("/d/e", 0o755), afero.WriteFile(plain, "/d/f", []byte("x"), 0o644))
	r := aferofs.NewRoot(plain)
	if got, err := r.ReadFile("/d/f"); err != nil || string(got) != "x" {
		t.Errorf("ReadFile(/d/f) = %q, %v", got, err)
	}
	if got, err := r.ReadDir("/d"); err != nil || !slices.Equal(got, []string{"e", "f"}) {
		t.Errorf("ReadDir(/d) = %v, %v", got, err)
	}
	if _, err := r.Readlink("/d/f"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Readlink(/d/f): %v; want a refusal", err)
	}
	if _, err := r.Lstat("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat(/none): %v; want fs.ErrNotExist", err)
	}
}

func TestB9TooLargeIsRefused(t *testing.T) {
	fake := tree.New()
	fill(t, fake.WriteFile("/f", make([]byte, aferofs.MaxFile+1), 0o644))
	if got, err := aferofs.NewRoot(aferofs.New(fake)).ReadFile("/f"); !errors.Is(err, aferofs.ErrTooLarge) || got != nil {
		t.Errorf("read %d bytes, %v; want ErrTooLarge", len(got), err)
	}
}
