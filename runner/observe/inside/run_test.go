package inside_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gpurig/runner/observe"
	"gpurig/runner/observe/inside"
)

// order has Serve carry out one order.
func order(t *testing.T, o inside.Order) inside.Answer {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := inside.Serve(newEmpty(), strings.NewReader(string(text)), &out); err != nil {
		t.Fatal(err)
	}
	var a inside.Answer
	if err := json.Unmarshal([]byte(out.String()), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAProgramIsRunToItsEnd(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no shell here")
	}
	for _, tc := range []struct {
		script string
		code   int
		output string
	}{
		{"echo out; echo err >&2", 0, "out\nerr\n"},
		{"exit 3", 3, ""},
		{"kill -9 $$", 137, ""},
		{"while :; do echo 0123456789; i=$((i+1)); [ $i = 9000 ] && exit 0; done", 0, ""},
	} {
		a := order(t, inside.Order{Run: &observe.Program{Command: []string{"/bin/sh", "-c", tc.script}}})
		if a.Error != "" || a.Ran == nil || a.Ran.Code != tc.code || tc.output != "" && a.Ran.Output != tc.output || len(a.Ran.Output) > 64<<10 {
			t.Errorf("%s: %+v, %q", tc.script, a.Ran, a.Error)
		}
	}
	if a := order(t, inside.Order{Run: &observe.Program{Command: []string{"/no/such/program"}}}); a.Ran == nil || a.Ran.Code != 127 || !strings.Contains(a.Ran.Output, "no such file") {
		t.Errorf("a program that is not there: %+v", a)
	}
}
