package roottest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
)

// Dir writes fake to a directory of the test, for surfaces that read real
// files. It skips the test when this user cannot make what fake has, except
// that files need not be root's: only who asks for another owner asks at all.
func Dir(t testing.TB, fake *tree.Tree) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { openAll(t, dir) })
	missing, err := disk.Write(t.Context(), fake, dir, disk.Options{Mknod: true})
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("this user cannot make the tree: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		if m.What != "owner 0:0" {
			t.Skipf("this user cannot make the tree: %v", m)
		}
	}
	closeAll(t, fake, dir)
	return dir
}

// closeAll gives directories the modes of fake that disk opens to an ordinary user.
func closeAll(t testing.TB, fake *tree.Tree, dir string) {
	err := fake.Walk(func(p string, e *tree.Entry) error {
		if !e.Mode.IsDir() || e.Mode.Perm()&0o200 != 0 {
			return nil
		}
		return os.Chmod(filepath.Join(dir, p), e.Mode.Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openAll lets an ordinary user remove directories that forbid it.
func openAll(t testing.TB, dir string) {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(p, 0o755)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
