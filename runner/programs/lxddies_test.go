package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/reports"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
)

// A daemon that dies in a scenario makes that one broken, with how it ended and the end
// of its log, and the next scenario has a daemon: whether ours is carried out by LXD, or
// LXD passes the GPU itself on a fake machine.
func TestLXDThatDiesIsBrokenAndReplaced(t *testing.T) {
	requireLXD(t)
	real, err := exec.LookPath("lxd")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, native := range []bool{false, true} {
		t.Run(fmt.Sprintf("native=%v", native), func(t *testing.T) {
			at := t.TempDir()
			// The first daemon kills itself when it has given a container a device.
			program := filepath.Join(at, "lxd")
			text := fmt.Sprintf(`#!/bin/sh
if [ "$1" = --logfile ] && mkdir %[1]s/first 2>/dev/null; then
	(while [ -z "$(ls -A $LXD_DIR/devices/gpurig-* 2>/dev/null)" ]; do sleep 0.02; done; kill -9 $$) &
fi
exec %[2]s "$@"
`, at, real)
			if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			opts := lxd.Options{Socket: lxd.Private, Daemon: program, Images: image.NewSet(nil), Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")}
			var on target.Target = lxd.New(opts)
			if native {
				on = lxd.NewNative(opts)
			}
			t.Cleanup(func() {
				if err := on.Close(context.Background()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			for _, r := range told(t, "testdata/lxddies/a-*.yaml", on) {
				if r.Verdict != reports.Broken || !strings.Contains(r.Reason, "lxd ended: signal: killed; its last words: ") || len(r.Evidence) == 0 {
					t.Errorf("%s: %s, %s, evidence %q; want broken, how the daemon ended, and its log", r.Key(), r.Verdict, r.Reason, r.Evidence)
				}
				t.Log(r.Reason)
			}
			for _, r := range told(t, "testdata/lxddies/b-*.yaml", on) {
				if r.Verdict != reports.Pass && r.Verdict != reports.Differ {
					t.Errorf("%s: %s, %s %v; want a daemon again", r.Key(), r.Verdict, r.Reason, r.Findings)
				}
			}
		})
	}
}
