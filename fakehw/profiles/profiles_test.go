package profiles_test

import (
	"testing"

	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
)

// Every shipped profile loads, expands and can be built.
func TestEveryShippedProfileIsABuildableHost(t *testing.T) {
	names := profiles.Names()
	if len(names) == 0 {
		t.Fatal("no profile is shipped")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			p, err := profiles.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.Model()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fakehw.Build(m); err != nil {
				t.Fatal(err)
			}
		})
	}
}
