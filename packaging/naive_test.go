package packaging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// naiveEnv asks for the negative control, which compiles half of the module once
// more: make naive sets it.
const naiveEnv = "GPURIG_NAIVE"

// The patches of folder naive take the defences out of the product: paths are joined,
// files appended to, the host's ldconfig run. They have the form of mutants, and a line
// "attacks: A1 A2" names whose tests fail with them. All are put in at once, by go's
// -overlay, so nothing of them is ever in the tree or in a program.

// naiveTests hold these attacks.
const naiveTests = "^(TestAttacks|TestA3A22ExchangeRace|TestA4MagicLinksLeadNowhere|TestA5NothingIsWrittenThroughMounts|TestA5MountsAreNotWrittenThrough|" +
	"TestA10HostileSONAMEs|TestA36TakingBackFollowsNothing|TestNothingIsWrittenOutside|TestA45NothingIsReadThroughMounts|TestA46NothingIsReadWithTheHostsRights|" +
	"TestA47OnlyThePlansOwnMountsAreRead|TestA51PartsOfTheHostAreNoRoot|TestA52AProcessOfTheHostIsNoContainer|TestA53NodesOfTheImageKeepTheirMode|" +
	"TestA54CleanPutsBackByteForByte|TestTheHostsLibraryWins|TestMuslTakesTheHosts|TestStrictRefusesAnotherLibrary|" +
	"TestRefusals|TestMountPointsA13|TestMountRefusals|TestLineBreaksA23|" +
	"TestSprintf|TestCheck|TestNumbersOfOtherDrivers|TestFind|TestA59SizesThatFileSystemsReport|TestLookSaysWhoseFileALibraryIs|TestReadingIsBoundedByTheFile)$"

var naivePackages = []string{"../hook/...", "../core/emit/lxc", "../core/translate", "../core/show", "../core/ldcache",
	"../fakehw/cachedir", "../fixtures/hosts", "../reports", "../runner/observe"}

// alsoNaive are tests with such a number that even the naive build passes.
var alsoNaive = map[string]string{
	"/A6_/etc_is_a_loop":                              "the kernel itself refuses a loop",
	"/A6_a_looping_link":                              "the kernel itself refuses a loop",
	"/A6_the_cache_is_a_link_to_a":                    "the host's ldconfig renames, too",
	"/A13_a_target_that_does_not_resolve":             "what cannot be resolved has no line in any build",
	"/A57_no_configuration":                           "a drop-in is enough there",
	"TestA59SizesThatFileSystemsReport/1099511627776": "the end of a library hides nothing",
	"TestLineBreaksA23/folder":                        "a path with a break is not clean either",
	"TestLineBreaksA23/hook_env":                      "one variable only is known",
	"TestLineBreaksA23/hook_name":                     "few stages are known",
	"TestLineBreaksA23/hostPath":                      "there is no such node",
	"TestLineBreaksA23/mount_source":                  "there is no such file",
	"TestLineBreaksA23/mount_type":                    "few types are known",
	"TestLineBreaksA23/node_type":                     "few types are known",
	"TestLineBreaksA23/path":                          "not a path below /dev",
	"TestLineBreaksA23/permissions":                   "few letters are known",
}

var number = regexp.MustCompile(`A\d+`)

// readNaive returns the patches, and the attacks that they are about.
func readNaive(t *testing.T) (patches []mutant, attacks []string) {
	t.Helper()
	patches = readMutants(t, "naive")
	for _, m := range patches {
		if len(m.attacks) == 0 {
			t.Errorf("%s: no line names its attacks", m.name)
		}
		attacks = append(attacks, m.attacks...)
	}
	slices.SortFunc(attacks, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	return patches, slices.Compact(attacks)
}

// TestNaiveFits: every patch can be put into the code as it is now, and every attack of
// the table whose test can tell is of one of them.
func TestNaiveFits(t *testing.T) {
	patches, attacks := readNaive(t)
	if _, err := mutateAll(patches); err != nil {
		t.Error(err)
	}
	table, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range attacks {
		if rows := tableTests(string(table), n); len(rows) == 0 {
			t.Errorf("%s has no row in docs/security.md", n)
		}
	}
	for i := 42; i <= gate["A"]; i++ {
		if n := fmt.Sprint("A", i); !slices.Contains(attacks, n) {
			t.Errorf("%s: no naive patch shows that its test can fail", n)
		}
	}
}

// tableTests are the tests of an attack, as "directory.Test".
func tableTests(table, n string) (out []string) {
	for _, row := range gateRow.FindAllStringSubmatch(table, -1) {
		if row[1] != n {
			continue
		}
		for _, test := range gateTest.FindAllStringSubmatch(row[3], -1) {
			dir := test[1]
			if dir == "" {
				dir = "hook"
			}
			out = append(out, dir+"."+test[2])
		}
	}
	return out
}

// TestNaiveBuildFails is the negative control of the attack tests: without the defences,
// each of them must fail. One that passes then tests nothing.
func TestNaiveBuildFails(t *testing.T) {
	if os.Getenv(naiveEnv) == "" {
		t.Skipf("make naive runs it (%s=1)", naiveEnv)
	}
	if os.Geteuid() != 0 {
		t.Fatal("needs root: the host's ldconfig changes its root directory")
	}
	patches, attacks := readNaive(t)
	files, err := mutateAll(patches)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-overlay", writeOverlay(t, t.TempDir(), files), "-count=1", "-timeout", "4m", "-json",
		"-run", naiveTests, "-skip", ".*/(A18|A19|A2[0-2]|A2[89]|A3|B|F)"}, naivePackages...)...)
	out, err := cmd.Output()
	if err == nil {
		t.Fatal("every test passes with the naive build")
	}
	table, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	ends := outcomes(t, out)
	for _, n := range attacks {
		failed := ofAttack(ends, n, tableTests(string(table), n))
		if failed == 0 {
			t.Errorf("%s: no test fails with the naive build", n)
		}
		t.Logf("%s: %d tests fail with the naive build", n, failed)
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		if of := number.FindAllString(name, -1); ends[name] != "fail" && slices.ContainsFunc(of, func(n string) bool { return slices.Contains(attacks, n) }) && !excused(name) {
			t.Errorf("%s passes with the naive build: it tests nothing", name)
		}
	}
}

// ofAttack counts the failed tests of one attack: those whose names have its number, and
// those without any number that the table names.
func ofAttack(ends map[string]string, n string, table []string) (failed int) {
	for name, action := range ends {
		of := number.FindAllString(name, -1)
		dir, test, _ := strings.Cut(name, ".")
		top, _, _ := strings.Cut(test, "/")
		if action == "fail" && (slices.Contains(of, n) || len(of) == 0 && slices.Contains(table, dir+"."+top)) {
			failed++
		}
	}
	return failed
}

func excused(name string) bool {
	for part := range alsoNaive {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// outcomes returns how each test ended that has no tests of its own, by "directory.Test/case".
func outcomes(t *testing.T, out []byte) map[string]string {
	t.Helper()
	ends, parents := map[string]string{}, map[string]bool{}
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
		if name := strings.TrimPrefix(e.Package, "gpurig/") + "." + e.Test; e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			ends[name] = e.Action
			for up := e.Test; strings.Contains(up, "/"); {
				up = path.Dir(up)
				parents[strings.TrimSuffix(name, e.Test)+up] = true
			}
		}
	}
	maps.DeleteFunc(ends, func(name, _ string) bool { return parents[name] })
	return ends
}
