package sim

import (
	"math/rand/v2"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// Resolve has its own short way; it must agree with the rules of package host
// on any tree of folders, links and files.
func TestResolveAgreesWithPackageHost(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	targets := []string{"a", "../b", "/c", "/a/../b", "..", "../../..", "a/../c", "d/.", "/", "./a", "a/b/../..", "nowhere", "../d/a"}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		root := tree.New()
		pick := func() string {
			p := ""
			for range 1 + r.IntN(3) {
				p += "/" + names[r.IntN(len(names))]
			}
			return p
		}
		for range 14 {
			p := pick() // what the tree refuses (a file on the way, a loop) is left out
			switch r.IntN(3) {
			case 0:
				_ = root.Mkdir(p, 0o755)
			case 1:
				_ = root.Symlink(p, targets[r.IntN(len(targets))])
			case 2:
				_ = root.WriteFile(p, []byte("x"), 0o644)
			}
		}
		s := newMountNS(root, nil)
		compare := func(p string) {
			t.Helper()
			want, werr := host.Resolve(flat{s}, p)
			got, err := s.Resolve(p)
			if (err == nil) != (werr == nil) || got != want {
				t.Fatalf("seed %d: Resolve(%s) = %q, %v; package host: %q, %v", seed, p, got, err, want, werr)
			}
		}
		for range 40 {
			compare(pick())
		}
		s.still(func() {
			for range 80 {
				compare(pick())
			}
		})
	}
}
