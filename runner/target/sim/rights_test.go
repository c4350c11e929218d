package sim

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
)

// TestRootReadsWithTheRightsOfInroot reads files of all modes and owners in memory
// and, by system calls as the container's root, on the disk.
func TestRootReadsWithTheRightsOfInroot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root: files of several owners")
	}
	const host = 100000
	memory, image := tree.New(), tree.New()
	var paths []string
	for dirName, dirMode := range map[string]fs.FileMode{"/open": 0o755, "/closed": 0o700, "/hidden": 0o711, "/none": 0} {
		for name, f := range map[string]struct {
			mode     fs.FileMode
			uid, gid uint32
		}{
			"own": {0o600, 0, 0}, "nobodys": {0, 0, 0}, "others": {0o600, 5, 5}, "groups": {0o640, 5, 0}, "all": {0o644, 5, 5}, "not-the-owner": {0o044, 0, 0},
		} {
			p := dirName + "/" + name
			paths = append(paths, p)
			for shift, t0 := range map[uint32]*tree.Tree{0: memory, host: image} {
				if err := t0.WriteFile(p, []byte(name), f.mode); err != nil {
					t.Fatal(err)
				}
				if err := t0.Chown(p, shift+f.uid, shift+f.gid); err != nil {
					t.Fatal(err)
				}
			}
		}
		paths = append(paths, dirName)
		for shift, t0 := range map[uint32]*tree.Tree{0: memory, host: image} {
			owner := shift + 5
			if dirName == "/none" {
				owner = shift
			}
			if err := t0.Chmod(dirName, dirMode); err != nil {
				t.Fatal(err)
			}
			if err := t0.Chown(dirName, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "root")
	if missing, err := disk.Write(t.Context(), image, dir, disk.Options{}); err != nil || len(missing) > 0 {
		t.Skipf("the disk cannot have such files: %v, %v", missing, err)
	}
	for _, up := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	real, err := inroot.Open(dir, inroot.Options{Owner: inroot.Owner{UID: host, GID: host}})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	leave, err := real.Enter()
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	refused := 0
	for _, p := range paths {
		for what, f := range map[string]func(r stage.Root) error{
			"lstat":   func(r stage.Root) error { _, err := r.Lstat(p); return err },
			"read":    func(r stage.Root) error { _, err := r.ReadFile(p, 100); return err },
			"readdir": func(r stage.Root) error { _, err := r.ReadDir(p, 100); return err },
		} {
			got := f(root{mountNS: newMountNS(memory, nil), owner: hookspec.Owner{UID: host, GID: host}})
			want := f(real)
			if class(got) != class(want) {
				t.Errorf("%s %s: in memory %v, on disk %v", what, p, got, want)
			}
			if want != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: the disk was read with the host's rights")
	}
}
