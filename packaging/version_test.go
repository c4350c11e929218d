package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The version is that of the last tag, and says how far the source is from it.
func TestVersion(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	script, err := os.ReadFile("version.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/packaging", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("packaging/version.sh", string(script))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	want := func(name, pattern string) {
		t.Helper()
		out, err := exec.Command(filepath.Join(dir, "packaging/version.sh")).CombinedOutput()
		got := strings.TrimSpace(string(out))
		if ok, _ := filepath.Match(pattern, got); err != nil || !ok {
			t.Errorf("%s: %q, %v; want %s", name, got, err, pattern)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "one")
	want("no tag", "0.0.0+1.g????????????")
	git("tag", "v1.2.3")
	want("at the tag", "1.2.3")
	write("packaging/version.sh", string(script)+"\n# changed\n")
	want("changed", "1.2.3+dirty")
	git("commit", "-qam", "two")
	want("after the tag", "1.2.3+1.g????????????")
	write("VERSION", "1.3.0\n")
	want("the source of a release", "1.3.0")
}
