package packaging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// naiveEnv asks for the negative control, which compiles half of the module once
// more: make naive sets it.
const naiveEnv = "GPURIG_NAIVE"

// mustFail are the attacks that a naive hook and a naive translator fall for.
var mustFail = []string{"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A10", "A13", "A23", "A24", "A25", "A26", "A27", "A36", "A45", "A46", "A47", "A54", "A55", "A56", "A57", "A58"}

// naiveTests hold these attacks. Others would not be safe with the naive build:
// it would change the mode of the machine's own /dev/null (A53), and write into the
// machine's own /usr (A51, A52).
const naiveTests = "^(TestAttacks|TestA3A22ExchangeRace|TestA4MagicLinksLeadNowhere|TestA5NothingIsWrittenThroughMounts|TestA5MountsAreNotWrittenThrough|" +
	"TestA10HostileSONAMEs|TestA36TakingBackFollowsNothing|TestNothingIsWrittenOutside|TestA45NothingIsReadThroughMounts|TestA46NothingIsReadWithTheHostsRights|TestA47OnlyThePlansOwnMountsAreRead|TestA54CleanPutsBackByteForByte|TestTheHostsLibraryWins|TestMuslTakesTheHosts|TestStrictRefusesAnotherLibrary|" +
	"TestRefusals|TestMountPointsA13|TestMountRefusals|TestLineBreaksA23)$"

// alsoNaive are tests with such a number that even the naive build passes.
var alsoNaive = map[string]string{
	"/A6_/etc_is_a_loop":                  "the kernel itself refuses a loop",
	"/A6_a_looping_link":                  "the kernel itself refuses a loop",
	"/A6_the_cache_is_a_link_to_a":        "the host's ldconfig renames, too",
	"/A13_a_target_that_does_not_resolve": "what cannot be resolved has no line in any build",
	"/A57_no_configuration":               "a drop-in is enough there",
	"TestLineBreaksA23/folder":            "a path with a break is not clean either",
	"TestLineBreaksA23/hook_env":          "one variable only is known",
	"TestLineBreaksA23/hook_name":         "few stages are known",
	"TestLineBreaksA23/hostPath":          "there is no such node",
	"TestLineBreaksA23/mount_source":      "there is no such file",
	"TestLineBreaksA23/mount_type":        "few types are known",
	"TestLineBreaksA23/node_type":         "few types are known",
	"TestLineBreaksA23/path":              "not a path below /dev",
	"TestLineBreaksA23/permissions":       "few letters are known",
}

var number = regexp.MustCompile(`A\d+`)

// TestNaiveBuildFails is the negative control of the attack tests: with paths that
// are joined, files that are appended to, the host's ldconfig and create=, each
// of them must fail. One that passes then tests nothing.
func TestNaiveBuildFails(t *testing.T) {
	if os.Getenv(naiveEnv) == "" {
		t.Skipf("make naive runs it (%s=1)", naiveEnv)
	}
	if os.Geteuid() != 0 {
		t.Fatal("needs root: the host's ldconfig changes its root directory")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "naive", "-count=1", "-timeout", "4m", "-json", "-run", naiveTests,
		"-skip", ".*/(A18|A19|A2[0-2]|A2[89]|A3|B|F)", "../hook/...", "../core/emit/lxc", "../core/translate")
	out, err := cmd.Output()
	if err == nil {
		t.Fatal("every test passes with the naive build")
	}
	failed, passed := outcomes(t, out)
	for _, n := range mustFail {
		if failed[n] == 0 {
			t.Errorf("%s: no test fails with the naive build", n)
		}
		t.Logf("%s: %d tests fail with the naive build", n, failed[n])
	}
	for _, name := range passed {
		t.Errorf("%s passes with the naive build: it tests nothing", name)
	}
}

// outcomes counts the tests that failed, by number, and lists those that passed
// although they carry one. A test that has tests of its own is not counted.
func outcomes(t *testing.T, out []byte) (failed map[string]int, passed []string) {
	t.Helper()
	ends := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Action == "build-fail" || e.Action == "fail" && strings.Contains(e.Output, "timed out") {
			t.Fatalf("the naive build does not run: %s", out)
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			ends[e.Package+" "+e.Test] = e.Action
		}
	}
	failed = map[string]int{}
	for name, action := range ends {
		isParent := false
		for other := range ends {
			isParent = isParent || strings.HasPrefix(other, name+"/")
		}
		all := number.FindAllString(name, -1)
		if isParent || !slices.ContainsFunc(all, func(n string) bool { return slices.Contains(mustFail, n) }) {
			continue
		}
		if action == "fail" {
			for _, n := range all {
				failed[n]++
			}
			continue
		}
		excused := false
		for part := range alsoNaive {
			excused = excused || strings.Contains(name, part)
		}
		if !excused {
			passed = append(passed, name)
		}
	}
	slices.Sort(passed)
	return failed, passed
}

// TestNaiveIsNeverShipped: naive code is behind its tag, a program with that tag
// does not compile, and nothing that builds programs gives it.
func TestNaiveIsNeverShipped(t *testing.T) {
	var naive []string
	for _, dir := range []string{"../cmd", "../core", "../hook", "../runner", "../fakehw"} {
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && strings.Contains(d.Name(), "naive") && strings.HasSuffix(p, ".go") {
				naive = append(naive, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	with := build.Default
	with.BuildTags = []string{"naive"}
	for _, p := range naive {
		plain, err := build.Default.MatchFile(filepath.Split(p))
		if err != nil {
			t.Fatal(err)
		}
		tagged, err := with.MatchFile(filepath.Split(p))
		if err != nil {
			t.Fatal(err)
		}
		if plain || !tagged {
			t.Errorf("%s is compiled without the tag naive: %v; with it: %v", p, plain, tagged)
		}
	}
	for _, command := range []string{"cdi-hook", "gpurig"} {
		p := "../cmd/" + command + "/naive.go"
		text, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(text, []byte("var _ = the_naive_build_is_for_tests_only")) {
			t.Errorf("%s does not keep the tag from compiling: %v", p, err)
		}
	}
	if len(naive) < 5 {
		t.Errorf("only %d naive files were found: %q", len(naive), naive)
	}
	for _, p := range []string{"../Makefile", "../hook/program_test.go"} {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("vet -tags naive"), nil) // makes no program
		if bytes.Contains(text, []byte(",naive")) || bytes.Contains(text, []byte("tags naive")) {
			t.Errorf("%s builds with the tag naive", p)
		}
	}
}
