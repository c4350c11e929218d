package osroot_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
)

func open(t testing.TB, dir string) *osroot.Root {
	t.Helper()
	r, err := osroot.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestTheMachineItself(t *testing.T) {
	r := open(t, "/")
	if i, err := r.Lstat("/dev/null"); err != nil || i.DeviceType() != device.Char || i.Num != (device.Num{Major: 1, Minor: 3}) {
		t.Errorf("Lstat(/dev/null) = %+v, %v; want char 1:3", i, err)
	}
	if got, err := r.Readlink("/proc/self"); err != nil || got == "" {
		t.Errorf("Readlink(/proc/self) = %q, %v", got, err)
	}
	if r.Dir() != "/" {
		t.Errorf("Dir() = %q", r.Dir())
	}
}

// procfs says size 0 and sysfs says one page, whatever a file holds.
func TestAttributesAreReadWhateverTheirSizeSays(t *testing.T) {
	r := open(t, "/")
	for _, p := range []string{"/proc/self/status", "/proc/devices", "/proc/self/mountinfo", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		want, err := os.ReadFile(p)
		if err != nil {
			t.Logf("not on this machine: %v", err)
			continue
		}
		got, err := r.ReadFile(p)
		// The start only: counters change between two reads.
		if n := min(len(want), 16); err != nil || len(got) < n || !bytes.Equal(got[:n], want[:n]) {
			t.Errorf("ReadFile(%q) = %.40q, %v; want %.40q", p, got, err, want)
		}
	}
}

func TestAFileLongerThanAnyBufferIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for _, size := range []int{0, 1, 4095, 4096, 4097, 1 << 20, osroot.MaxFile} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.ReadFile("/f"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
	}
}

func TestR9TooLargeIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "huge"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "huge"), osroot.MaxFile+1); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, dir).ReadFile("/huge")
	if !errors.Is(err, osroot.ErrTooLarge) || got != nil {
		t.Errorf("ReadFile(/huge) = %d bytes, %v; want ErrTooLarge", len(got), err)
	}
}

// /dev/zero has no end: reading it would fill memory.
func TestB2AnEndlessDeviceIsNotRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, "/").ReadFile(filepath.Join(dir, "a.yaml")); !errors.Is(err, osroot.ErrNotRegular) || got != nil {
		t.Errorf("read %d bytes, %v; want ErrNotRegular", len(got), err)
	}
	// Inside the directory alone the link leads nowhere.
	if _, err := open(t, dir).ReadFile("/a.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("inside its directory: %v; want fs.ErrNotExist", err)
	}
}

func TestMagicLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := open(t, "/")
	for _, p := range []string{"/proc/self/root/etc", "/proc/self/cwd"} {
		if got, err := r.ReadDir(p); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("ReadDir(%q) = %v, %v; want ELOOP", p, got, err)
		}
	}
	if got, err := r.Readlink("/proc/self/exe"); err != nil || !strings.HasPrefix(got, "/") {
		t.Errorf("Readlink(/proc/self/exe) = %q, %v: looking at one is fine", got, err)
	}
}

// A directory that a hostile process swaps with a link to elsewhere, again and
// again, must never show what is elsewhere.
func TestA3AnExchangeRaceDoesNotLeadOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for p, text := range map[string]string{filepath.Join(dir, "d", "f"): "inside", filepath.Join(outside, "f"): "outside"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, filepath.Join(dir, "s"), unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	r := open(t, dir)
	for range 5_000 {
		got, err := r.ReadFile("/d/f")
		if string(got) == "outside" {
			t.Error("a read got outside")
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("read: %v", err)
			break
		}
	}
	close(stop)
	<-stopped
}

// The root stays the directory that was opened, wherever its name goes.
func TestA14TheRootIsPinned(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if err := errors.Join(os.Rename(dir, dir+"2"), os.Symlink("/", dir)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadFile("/f"); err != nil || string(got) != "x" {
		t.Errorf("ReadFile(/f) = %q, %v; want x", got, err)
	}
	if got, err := r.ReadDir("/"); err != nil || len(got) != 1 {
		t.Errorf("ReadDir(/) = %v, %v; want f alone", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{"/nowhere/at/all": fs.ErrNotExist, file: syscall.ENOTDIR, "": fs.ErrNotExist} {
		r, err := osroot.New(dir)
		if pe, ok := errors.AsType[*fs.PathError](err); r != nil || !ok || !errors.Is(err, want) || pe.Path != dir {
			t.Errorf("New(%q) = %v, %v; want a PathError with %v", dir, r, err, want)
		}
	}
}

func TestAClosedRootFails(t *testing.T) {
	r := open(t, t.TempDir())
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadDir("/"); err == nil {
		t.Error("ReadDir after Close: no error")
	}
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Symlink("f", filepath.Join(dir, "l")), unix.Mkfifo(filepath.Join(dir, "p"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	before := descriptors(t)
	for range 10 {
		for _, p := range []string{"/", "/f", "/l", "/p", "/none", "rel"} {
			for _, f := range []func(host.Root, string){
				func(r host.Root, p string) { _, _ = r.Lstat(p) },
				func(r host.Root, p string) { _, _ = r.Readlink(p) },
				func(r host.Root, p string) { _, _ = r.ReadFile(p) },
				func(r host.Root, p string) { _, _ = r.ReadDir(p) },
			} {
				f(r, p)
			}
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Open is for files too large to be read as a whole, and for nothing else.
func TestOpenOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := osroot.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := r.Open("/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 4)
	if _, err := f.ReadAt(buf, 3); err != nil || string(buf) != "tent" {
		t.Errorf("four bytes at 3 are %q, %v", buf, err)
	}
	if _, err := r.Open("/fifo"); !errors.Is(err, osroot.ErrNotRegular) {
		t.Errorf("Open of a FIFO: %v; want ErrNotRegular", err)
	}
	if _, err := r.Open("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
}
