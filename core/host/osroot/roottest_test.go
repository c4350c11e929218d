package osroot_test

import (
	"testing"

	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/fakehw/roottest"
	"gpurig/fakehw/tree"
)

func TestRealDirectory(t *testing.T) {
	roottest.Test(t, func(t testing.TB, fake *tree.Tree) host.Root {
		root, err := osroot.New(roottest.Dir(t, fake))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		return root
	})
}
