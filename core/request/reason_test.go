package request_test

import (
	"os"
	"regexp"
	"testing"

	"gpurig/core/refuse"
)

// constants returns the reasons that a source file declares.
func constants(t *testing.T, file string) []refuse.Reason {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []refuse.Reason
	for _, m := range regexp.MustCompile(`refuse\.Reason = "([^"]+)"`).FindAllSubmatch(src, -1) {
		out = append(out, refuse.Reason(m[1]))
	}
	return out
}
