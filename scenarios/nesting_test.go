package scenarios_test

import (
	"strings"
	"testing"

	"gpurig/scenarios"
)

func TestB11DeepNestingIsRefusedBeforeItIsParsed(t *testing.T) {
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", 200_000),
		"braces":   "a: " + strings.Repeat("{a: ", 50_000),
		"marks":    strings.Repeat("- ", 100_000),
	} {
		if _, err := scenarios.Parse("x", "x.yaml", []byte("# X.\n"+text), scenarios.Options{}); err == nil || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
