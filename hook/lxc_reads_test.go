package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLXCNothingIsReadThatTheContainerCouldNot: real containers, privileged and with
// an id map, with the hook before the start and as start-host or mount hook. An
// administrator has mounted a folder with a file that only the host's root can
// read, and the image leads to it, or to such a file of procfs.
func TestLXCNothingIsReadThatTheContainerCouldNot(t *testing.T) { // A45, A46
	for _, f := range readFiles(t) {
		for _, applyIn := range []string{"mount", "start-host"} {
			for _, idmap := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/idmap=%v", f.name, applyIn, idmap), func(t *testing.T) {
					t.Parallel()
					s := newLXC(t, idmap, append([]string{"dir lib", "dir mnt/share", "link " + f.path + " /mnt/share/secret"}, f.image...)...)
					s.withSecret(f.text)
					s.secretStarts(applyIn)
				})
			}
		}
	}
	for _, applyIn := range []string{"mount", "start-host"} {
		for _, idmap := range []bool{false, true} {
			t.Run(fmt.Sprintf("procfs/%s/idmap=%v", applyIn, idmap), func(t *testing.T) {
				t.Parallel()
				// What of procfs only the host's root can read, or else its process's alone.
				own := "/proc/slabinfo"
				want, err := os.ReadFile(own)
				if err != nil || len(want) < 64 {
					own = "/proc/1/environ"
					want = []byte("LXC_") // of the container's first process, as liblxc has it
				}
				s := newLXC(t, idmap, "file lib/ld-musl-x86_64.so.1 x", "link etc/ld-musl-x86_64.path "+own, "link etc/ld.so.conf "+own)
				s.withSecret(string(library(t, "lib"+secret+".so.1")))
				s.secretStarts(applyIn)
				if seen := s.read("tmp/seen"); !strings.HasPrefix(seen, "/usr/lib/cdi-hook/amd64\n/lib\n/usr/local/lib\n/usr/lib\n/usr/lib/gpu\n") || strings.Contains(seen, string(want[:4])) {
					t.Errorf("the container saw %.300q", seen)
				}
			})
		}
	}
}

// withSecret is a plan, and a folder that an administrator mounts.
func (s *lxcStand) withSecret(text string) {
	s.t.Helper()
	s.driver("550.1")
	s.lines = append(s.lines[:1], "lxc.mount.entry = "+s.host+"/share mnt/share none bind,create=dir 0 0")
	s.plant(s.host, "dir share")
	if err := os.WriteFile(filepath.Join(s.host, "share/secret"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// secretStarts starts the container, and looks for the secret in all that is said
// and left. A start that fails must not be for what the image cannot read.
func (s *lxcStand) secretStarts(applyIn string) {
	s.t.Helper()
	s.script = "cat /etc/ld.so.cache /etc/ld-musl-x86_64.path /etc/ld.so.conf.d/00-cdi-hook.conf > /tmp/seen 2>/dev/null; true"
	s.install()
	s.photo()
	cmd, log := s.command(applyIn, s.name, s.t.TempDir())
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(log)
	if err != nil {
		s.t.Errorf("%v: %s\n%.2000s", err, out, text)
	}
	journal, _ := os.ReadFile(s.file + ".made")
	s.canary()
	s.nowhere(string(out) + string(text) + decoded(journal))
	clean, err := exec.CommandContext(s.t.Context(), hookProgram(s.t), s.args("clean")...).CombinedOutput()
	if err != nil {
		s.t.Errorf("clean: %v, %s", err, clean)
	}
	s.nowhere(string(clean))
}
