package fault_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpurig/fakehw/fault"
)

// The documentation lists every kind of fault in the words of the program.
func TestTheDocumentationHasEveryFault(t *testing.T) {
	data, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range fault.Kinds() {
		if row := fmt.Sprintf("| `%s` | %s |\n", k.Form, k.Is); !strings.Contains(string(data), row) {
			t.Errorf("docs/hosts.md lacks the row\n%s", row)
		}
	}
}
