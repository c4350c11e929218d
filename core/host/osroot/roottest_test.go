package osroot_test

import (
	"testing"

	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/roottest"
	"gpurig/fakehw/tree"
)

func TestRealDirectory(t *testing.T) {
	roottest.Test(t, func(t testing.TB, fake *tree.Tree) host.Root {
		dir := t.TempDir()
		missing, err := disk.Write(t.Context(), fake, dir, disk.Options{Mknod: true})
		if err != nil || len(missing) > 0 {
			t.Skipf("this user cannot make the tree: %v %v", missing, err)
		}
		root, err := osroot.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		return root
	})
}
