package nvmllib_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpurig/fakehw/nvmllib"
)

// Every function of the library refuses zeros, junk and foreign handles with a
// code, and crashes on none. With sanitizers the library stops at the first
// misstep.
func TestNoFunctionTakesNonsense(t *testing.T) {
	t.Run("plain", func(t *testing.T) { abuse(t, "") })
	t.Run("sanitized", func(t *testing.T) {
		const flags = "-g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
		try := filepath.Join(t.TempDir(), "try.c")
		if err := os.WriteFile(try, []byte("int main(void) { return 0; }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cc", append(strings.Fields(flags), "-o", try+".out", try)...).CombinedOutput(); err != nil {
			t.Skipf("no sanitizers: %v %s", err, out)
		}
		if err := exec.CommandContext(t.Context(), try+".out").Run(); err != nil {
			t.Skipf("sanitizers do not run: %v", err)
		}
		t.Setenv("ASAN_OPTIONS", "detect_leaks=0") // a handle is valid as long as the program runs
		abuse(t, flags)
	})
}

// noMatter are functions for which arguments do not matter: they start, stop or name, or
// answer at any address that they are given.
var noMatter = []string{"nvmlErrorString", "nvmlShutdown", "nvmlInternalGetExportTable", "nvmlEventSetCreate"}

func abuse(t *testing.T, flags string) {
	t.Setenv("CFLAGS", flags)
	lib := library(t)
	program := filepath.Join(t.TempDir(), "abuse")
	args := append(strings.Fields(flags), "-o", program, "testdata/abuse.c", "-ldl")
	if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "nvml") && s.Section != elf.SHN_UNDEF && !slices.Contains(noMatter, s.Name) && !strings.HasPrefix(s.Name, "nvmlInit") {
			names = append(names, s.Name)
		}
	}
	if len(names) < 400 {
		t.Fatalf("only %d functions", len(names))
	}
	onHost(t, nvmllib.State(profile(t, "a100-mig-2g-3g")))
	out, err := exec.CommandContext(t.Context(), program, append([]string{lib}, names...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-2000):])
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 6*len(names) {
		t.Errorf("%d answers of %d functions", len(lines), len(names))
	}
	// a text of no length, a structure of no version, what is not modelled, or not there
	refusals := []int{2, 3, 6, 7, 25}
	for _, line := range lines {
		what, code, _ := strings.Cut(line, " nvml")
		name, number, _ := strings.Cut(code, " ")
		got, err := strconv.Atoi(number)
		switch {
		case err != nil:
			t.Errorf("%q is no answer", line)
		case what == "before" && name != "SystemGetNVMLVersion" && got != 1:
			t.Errorf("before nvmlInit nvml%s() = %d, want 1", name, got)
		case what != "before" && !slices.Contains(refusals, got):
			t.Errorf("nvml%s(%s, 0, …) = %d, want a refusal", name, what, got)
		}
	}
}
