package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpurig/runner/cli"
	"gpurig/runner/smoke"
)

// Each command has a page with all its flags, and each shell a completion.
func TestManual(t *testing.T) {
	share := t.TempDir()
	if err := write(share, cli.Command(), "1700000000"); err != nil {
		t.Fatal(err)
	}
	pages := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		pages++
		page := read(t, filepath.Join(share, "man/man1", strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if !strings.Contains(page, "Nov 2023") {
			t.Errorf("%s: the date is not that of SOURCE_DATE_EPOCH", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("%s: no --%s in its page", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(cli.Command())
	if pages < 15 {
		t.Errorf("%d pages; the test looked at the wrong command", pages)
	}
	for _, f := range []string{"bash-completion/completions/gpurig", "zsh/vendor-completions/_gpurig", "fish/vendor_completions.d/gpurig.fish"} {
		if !strings.Contains(read(t, filepath.Join(share, f)), "gpurig") {
			t.Errorf("%s does not complete gpurig", f)
		}
	}
	if err := write(share, cli.Command(), "yesterday"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday is taken")
	}
}

// The page of gpurig-smoke, which has no such command, has all its exit codes.
func TestManualOfSmoke(t *testing.T) {
	page := read(t, "../gpurig-smoke.1")
	for cause, code := range smoke.ExitCodes {
		if !strings.Contains(page, fmt.Sprintf("\n%d\t%s", code, cause)) {
			t.Errorf("gpurig-smoke.1 lacks exit code %d, %s", code, cause)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
