// Package powercut has a disk for tests whose power can be cut, and which can
// fail: an ext4 on a loop device whose image is on a tmpfs. After a cut it has
// what the file system had written to the device, like a disk without a cache;
// data that was still in the kernel's memory is lost. The mount options disable
// what ext4 does for programs that forget to sync.
//
// It changes mounts: use it in a test's own mount namespace, as root.
package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Disk is mounted at At.
type Disk struct {
	At    string
	t     testing.TB
	store string // a tmpfs with the image, and room for a second
}

const (
	megabytes = 16
	// Nothing is written out by itself: neither when a file takes the place of
	// another nor after some seconds.
	options = "loop,noauto_da_alloc,data=writeback,commit=3000"
)

// New makes an empty disk and mounts it on the folder at. The error says what
// this machine lacks.
func New(t testing.TB, at string) (*Disk, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, os.ErrPermission
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		return nil, err
	}
	store, err := os.MkdirTemp("", "powercut")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.Remove(store) })
	if err := unix.Mount("tmpfs", store, "tmpfs", 0, "size=48m"); err != nil {
		return nil, &os.PathError{Op: "mount", Path: store, Err: err}
	}
	t.Cleanup(func() { unix.Unmount(store, unix.MNT_DETACH) })
	d := &Disk{At: at, t: t, store: store}
	if err := os.WriteFile(d.image(), nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image(), megabytes<<20); err != nil {
		return nil, err
	}
	if err := run(mkfs, "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image()); err != nil {
		return nil, err
	}
	if err := run("mount", "-o", options, d.image(), at); err != nil {
		return nil, err
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return d, nil
}

func (d *Disk) image() string { return filepath.Join(d.store, "image") }

// Sync has the disk hold all that was written up to now.
func (d *Disk) Sync() {
	d.t.Helper()
	f, err := os.Open(d.At)
	if err == nil {
		err = unix.Syncfs(int(f.Fd()))
		f.Close()
	}
	if err != nil {
		d.t.Fatalf("sync %s: %v", d.At, err)
	}
}

// Commit has the file system write its journal out, names and sizes, and no
// file's contents: another program's fsync at just that moment.
func (d *Disk) Commit() {
	d.t.Helper()
	f, err := os.CreateTemp(d.At, "somebody-else")
	if err == nil {
		err = f.Sync()
		f.Close()
	}
	if err != nil {
		d.t.Fatalf("commit: %v", err)
	}
}

// Cut takes the power away and gives it back: whoever has a file of the disk open
// must be gone.
func (d *Disk) Cut() {
	d.t.Helper()
	left := filepath.Join(d.store, "left")
	if err := run("cp", "--sparse=always", d.image(), left); err != nil {
		d.t.Fatal(err)
	}
	d.off()
	if err := os.Rename(left, d.image()); err != nil {
		d.t.Fatal(err)
	}
	d.on()
	stray, _ := filepath.Glob(filepath.Join(d.At, "somebody-else*"))
	for _, name := range stray {
		os.Remove(name)
	}
}

// Fail has the disk fail every write to a place that was never written, once it
// took so many more bytes. The file system hears EIO or, as from a thin volume that
// is used up, ENOSPC, and turns read-only where that hit its journal.
func (d *Disk) Fail(after int64) {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.store, "ballast"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err = f.Write(block); err != nil {
			break
		}
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(max(0, info.Size()-after))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// Heal ends Fail, with a new mount: a file system that saw its disk fail is
// read-only until then.
func (d *Disk) Heal() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.store, "ballast")); err != nil {
		d.t.Fatal(err)
	}
	d.off()
	// What the file system noted of the failure is for an administrator to clear.
	if out, err := exec.Command("e2fsck", "-p", d.image()).CombinedOutput(); err != nil && !strings.Contains(string(out), "clean") && !strings.Contains(string(out), "recovering") {
		d.t.Logf("e2fsck: %v, %s", err, out)
	}
	d.on()
}

func (d *Disk) off() {
	d.t.Helper()
	if err := run("umount", d.At); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Disk) on() {
	d.t.Helper()
	if err := run("mount", "-o", options, d.image(), d.At); err != nil {
		d.t.Fatal(err)
	}
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return &exec.Error{Name: name + " " + strings.Join(args, " ") + ": " + strings.TrimSpace(string(out)), Err: err}
	}
	return nil
}

// insideEnv names the test that runs in a mount namespace of its own.
const insideEnv = "GPURIG_POWERCUT_INSIDE"

// Inside runs the calling test once more, by itself, in a mount namespace of its
// own, and reports whether this is that run. It skips without root.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a disk")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && cmd.ProcessState == nil:
		t.Skipf("no mount namespace can be made here: %v", err)
	case err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("in a mount namespace of its own:\n%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("in a mount namespace of its own:\n%s", out)
	}
	return false
}
