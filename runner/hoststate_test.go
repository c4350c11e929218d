package runner

import (
	"os"
	"path/filepath"
	"testing"

	"gpurig/runner/image"
	"gpurig/scenarios"
)

// Files of equal content are one host, whose tree, Specs and plans are made once; another
// content is another host.
func TestHostsAreKeptByContent(t *testing.T) {
	dir := t.TempDir()
	const text = "# A server.\nkernel: 6.1.0-25-amd64\nos: {id: debian, version: \"12\"}\ndriver: {version: \"535\"}\ngpus: [{product: t4, at: \"3b:00.0\"}]\n"
	for name, text := range map[string]string{"a/own.yaml": text, "b/other.yaml": text, "c/own.yaml": text + "iommu: true\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &hostCache{source: Profiles{}, images: image.NewSet(image.Bare{})}
	state := func(folder, host string) *hostState {
		t.Helper()
		m, err := p.first(t.Context(), &scenarios.Scenario{File: filepath.Join(dir, folder, "s.yaml"), Host: host, Changes: []scenarios.Change{{Remove: []string{"/etc/ld.so.cache"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if a := state("a", "own.yaml"); a != state("b", "other.yaml") || a == state("c", "own.yaml") {
		t.Error("a host is not its content")
	}
}
