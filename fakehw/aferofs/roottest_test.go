package aferofs_test

import (
	"testing"

	"github.com/spf13/afero"

	"gpurig/core/host"
	"gpurig/fakehw/aferofs"
	"gpurig/fakehw/roottest"
	"gpurig/fakehw/tree"
)

func TestTreeThroughAfero(t *testing.T) {
	roottest.Test(t, func(_ testing.TB, fake *tree.Tree) host.Root {
		return aferofs.NewRoot(aferofs.New(fake))
	})
}

// Any other afero.Fs with links is as good: real files below a directory.
func TestRealFilesThroughAfero(t *testing.T) {
	roottest.Test(t, func(t testing.TB, fake *tree.Tree) host.Root {
		return aferofs.NewRoot(afero.NewBasePathFs(afero.NewOsFs(), roottest.Dir(t, fake)))
	})
}
