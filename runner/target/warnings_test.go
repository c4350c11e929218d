package target_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/runner/target"
)

func TestHookWarnings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.json")
	if got, err := target.HookWarnings(file); err != nil || got != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	want := []hookspec.Warning{{Reason: hookspec.LibraryShadowed, SONAME: "libcuda.so.1", Host: "/a", Loads: "/b", By: "ld.so.cache"}}
	data, err := hookspec.MarshalWarnings(want)
	if err != nil {
		t.Fatal(err)
	}
	for content, broken := range map[string]bool{string(data): false, "": false, "{": true} {
		if err := os.WriteFile(hookspec.WarningsFile(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := target.HookWarnings(file)
		if errors.Is(err, target.ErrBroken) != broken || content == string(data) && !slices.Equal(got, want) {
			t.Errorf("of %q: %v, %v", content, got, err)
		}
	}
	for range 2 { // gone is gone
		if err := target.ForgetWarnings(file); err != nil {
			t.Error(err)
		}
	}
	if got, err := target.HookWarnings(file); err != nil || got != nil {
		t.Errorf("forgotten: %v, %v", got, err)
	}
}
