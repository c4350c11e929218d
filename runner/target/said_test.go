package target_test

import (
	"testing"

	"gpurig/runner/target"
)

func TestHookSaid(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"lxc-start: no such container\n", ""},
		{"cdi-hook: note: a\ncdi-hook: write x: in the way\n", "cdi-hook: write x: in the way"},
		{"cdi-hook: write x: in the way\nlxc ERROR\nlxc DEBUG - produced output: cdi-hook: note: of the clean-up\n", "cdi-hook: write x: in the way"},
		{"cdi-hook: first\ncdi-hook: second", "cdi-hook: second"},
		{"cdi-hook: note: a\ncdi-hook: note: b\n", "cdi-hook: note: b"},
		{`level=error msg="exit status 1, stdout: , stderr: cdi-hook: note: a\ncdi-hook: no such root\n"` + "\n", "cdi-hook: no such root"},
	} {
		if got := target.HookSaid(tc.text); got != tc.want {
			t.Errorf("HookSaid(%q) = %q; want %q", tc.text, got, tc.want)
		}
	}
}
