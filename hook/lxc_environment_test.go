package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/core/emit/lxc"
	"gpurig/core/plan"
)

// A8: from LXC 7 on the variables of a plan reach the container's first process
// and no hook. Before, hook mount has them too, and the others do not: so much is
// known of an LXC that has no other key.
func TestA8WhichHooksReceiveTheVariables(t *testing.T) {
	for _, idmap := range []bool{false, true} {
		t.Run(fmt.Sprintf("idmap=%v", idmap), func(t *testing.T) {
			s := newLXC(t, idmap, "dir usr/lib/gpu")
			v := liblxc(t)
			config, err := lxc.Emit(plan.Plan{Env: []plan.Var{{Name: "NVIDIA_A8", Value: "seen"}}}, lxc.Options{LXCVersion: v})
			if err != nil {
				t.Fatal(err)
			}
			s.lines = config.Entries.Lines()
			dir := t.TempDir()
			open(t, dir)
			if err := os.Chmod(dir, 0o777); err != nil { // the mapped root's hook writes there
				t.Fatal(err)
			}
			hooks := []string{"pre-start", "mount", "start-host", "post-stop"}
			for _, h := range hooks {
				program := filepath.Join(dir, h)
				if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\n/usr/bin/env >%s.env\n", program), 0o755); err != nil {
					t.Fatal(err)
				}
				s.lines = append(s.lines, "lxc.hook."+h+" = "+program)
			}
			s.script = "/bin/busybox env >/tmp/seen"
			if err := s.start("start-host"); err != nil {
				t.Fatal(err)
			}
			const variable = "NVIDIA_A8=seen\n"
			if seen := s.read("tmp/seen"); !strings.Contains(seen, variable) {
				t.Errorf("LXC %s: the container has not got it: %q", v, seen)
			}
			for _, h := range hooks {
				seen, err := os.ReadFile(filepath.Join(dir, h+".env"))
				if err != nil || !strings.Contains(string(seen), "LXC_NAME=") {
					t.Fatalf("hook %s did not say what it has: %q, %v", h, seen, err)
				}
				want := h == "mount" && !v.RuntimeEnvironment()
				if got := strings.Contains(string(seen), variable); got != want {
					t.Errorf("LXC %s: hook %s has the variable: %v; want %v", v, h, got, want)
				}
			}
		})
	}
}
