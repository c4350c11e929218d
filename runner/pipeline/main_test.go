package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/core/show"
	"gpurig/runner/cli"
)

// be makes the test program gpurig itself.
const be = "GPURIG_BE_COMMAND"

func TestMain(m *testing.M) {
	cli.Init()
	if os.Getenv(be) != "" {
		os.Exit(cli.Main(context.Background(), cli.Stdio(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// A bench is a folder with programs before all others, gpurig among them.
type bench struct {
	t    *testing.T
	dir  string
	path string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	b.path = filepath.Join(b.dir, "programs")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.program("gpurig", fmt.Sprintf("%s=1 exec %s \"$@\"", be, show.Command(self)))
	return b
}

// program adds one that is a script of sh.
func (b *bench) program(name, script string) {
	b.t.Helper()
	b.write(filepath.Join("programs", name), "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(filepath.Join(b.path, name), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// command is one in the folder, with our programs first.
func (b *bench) command(words ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), "/usr/bin/env", append([]string{"PATH=" + b.path + ":" + os.Getenv("PATH")}, words...)...)
	cmd.Dir = b.dir
	return cmd
}

// run runs one, and returns what it says and its exit code.
func (b *bench) run(words ...string) (string, int) {
	b.t.Helper()
	cmd := b.command(words...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		b.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs one that must succeed.
func (b *bench) must(words ...string) string {
	b.t.Helper()
	out, code := b.run(words...)
	if code != 0 {
		b.t.Fatalf("%s: exit code %d\n%s", strings.Join(words, " "), code, out)
	}
	return out
}
