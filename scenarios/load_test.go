package scenarios_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gpurig/core/strictdoc"
	"gpurig/fixtures/golden"
	"gpurig/scenarios"
)

var words = scenarios.Options{
	Hosts:  []string{"dgx-a100", "dgx-h100", "t4-server"},
	Images: []string{"glibc", "glibc-unmerged", "musl", "none", "a", "b", "c", "d"},
	Fault: func(text string) error {
		if strings.HasPrefix(text, "off-bus:") {
			return nil
		}
		return fmt.Errorf("%s is no fault", text)
	},
	Ldconfig: func(image string) bool { return image != "musl" },
	Content: func(image string, c scenarios.Content) *scenarios.ContentError {
		if slices.Contains(c.Remove, "/nothing") {
			return &scenarios.ContentError{Key: "remove", Path: "/nothing", Err: errors.New(image + " has nothing there")}
		}
		return nil
	},
}

// expected takes the first comment of a bad file, which says what is wrong with
// it, and puts a title of as many lines in its place.
func expected(data string) (want, body string) {
	var comment []string
	lines := strings.Split(data, "\n")
	for i, l := range lines {
		rest, ok := strings.CutPrefix(l, "# ")
		if !ok {
			break
		}
		comment = append(comment, rest)
		lines[i] = "# This is a title."
	}
	return strings.Join(comment, "\n"), strings.Join(lines, "\n")
}

// Every file in testdata/bad is refused with exactly the problems that its
// first comment lists, in order. B47
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("testdata/bad has %d files (%v); want at least 10", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			want, body := expected(string(data))
			_, err = scenarios.Parse("bad", "f", []byte(body), words)
			if err == nil {
				t.Fatal("was accepted")
			}
			got := strings.ReplaceAll("\n"+err.Error(), "\nf:", "\n")[1:]
			if golden.Updating() {
				n := strings.Count(body, "# This is a title.\n")
				_, rest, _ := strings.Cut(body, strings.Repeat("# This is a title.\n", n))
				golden.Equal(t, f, []byte("# "+strings.ReplaceAll(got, "\n", "\n# ")+"\n"+rest))
				return
			}
			if got != want {
				t.Errorf("problems:\n%s\nwant, by its first comment:\n%s", got, want)
			}
		})
	}
}

const good = `# One GPU reaches the container.
host: dgx-a100
containers:
  c1: {devices: {gpu0: {id: "nvidia.com/gpu=0"}}}
`

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"no title", strings.TrimPrefix(good, "# One GPU reaches the container.\n") + "expect: {c1: {running: true}}", "f:1:1: the first comment is missing"},
		{"a title that is no sentence", "# todo\n" + good, `f:1:1: the first comment is not a sentence: "todo One GPU`},
		{"nothing in it", "# A title that stands alone.\n", "f:1:1: holds no scenario"},
		{"a control character", good + "\x00", "f:5:1: control character U+0000"},
		{"not UTF-8", good + "\xff", "f:5:1: the byte 0xff is not UTF-8"},
		{"too large, B47", good + "# " + strings.Repeat("x", 300<<10), "f: has 307312 bytes; a scenario has at most 262144"},
		{"a million entries, B47", good + "expect: {c1: {absent: [" + strings.Repeat("/a, ", 5000) + "]}}", "has 5000 entries; at most 4096"},
		{"a million containers, B47", "# Far too many containers.\nhost: dgx-a100\nexpect: {c1: {running: true}}\ncontainers: {" + many(70) + "}", "70 containers; at most 64"},
		{"a negative index, B47", good + "changes: [{remove-gpu: -1}]", "GPU -1: want an NVML index, 0 to 63"},
		{"a huge number, B47", good + "changes: [{remove-gpu: 1000000000000000000000}]", `is 1000000000000000000000; want a whole number`},
		{"a reason nobody has", good + "expect: {c1: {refused: not-fuond}}", `unknown reason "not-fuond"; did you mean "not-found"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := words
			opts.Reasons = []string{"not-found"}
			s, err := scenarios.Parse("x/y", "f", []byte(tc.in), opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse = %v; want an error with %q", err, tc.want)
			}
			if s.Host != "" {
				t.Errorf("Parse returned a scenario along with the error: %+v", s)
			}
		})
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "c%d: {devices: {}}, ", i)
	}
	return b.String()
}

func TestAProblemShowsItsPlace(t *testing.T) {
	_, err := scenarios.Parse("x", "f.yaml", []byte(good+"expect:\n\tc1: {}\n"), words)
	if err == nil {
		t.Fatal("a tab as indentation was accepted")
	}
	_, err = scenarios.Parse("x", "f.yaml", []byte(good+"expect: {c1: {runing: true}}\n"), words)
	ps, ok := errors.AsType[strictdoc.Problems](err)
	if !ok {
		t.Fatalf("Parse = %v; want Problems", err)
	}
	const want = `     5 | expect: {c1: {runing: true}}
       |               ^
`
	if p := ps[0]; p.Error() != `f.yaml:5:15: unknown key "runing"; did you mean "running"?` || p.Excerpt() != want || !strings.HasPrefix(p.Hint, "Known here: refused, says,") {
		t.Errorf("%v\n%s%s\nwant it to have\n%s", p, p.Excerpt(), p.Hint, want)
	}
}

func TestValuesAreTakenAsWritten(t *testing.T) {
	s, err := scenarios.Parse("x", "f", []byte(`# Numbers and words are texts as they stand.
# And the title may have two lines.
#
# This is not part of it.
host: dgx-a100
driver: 550.10
changes: [{nodes: [{path: /dev/nvidia0, mode: 0660, uid: 0}]}]
containers: {c1: {devices: {gpu0: {id: 0, mig.gi: 1, uid: 1000, mode: 0660}}}}
expect: {c1: {only-nodes: [], env: {A: true}, nodes: {/dev/a: {number: 195:0}}}}
`), words)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Numbers and words are texts as they stand. And the title may have two lines."; s.Title != want {
		t.Errorf("Title = %q; want %q", s.Title, want)
	}
	d := s.Containers["c1"].Devices["gpu0"]
	if s.Driver != "550.10" || d.ID != "0" || d.MIGGI != "1" || d.UID != "1000" || d.Mode != "0660" {
		t.Errorf("driver %q, device %+v: want the letters as written", s.Driver, d)
	}
	if n := s.Changes[0].Nodes[0]; n.UID == nil || *n.UID != 0 || n.GID != nil || n.Mode != "0660" {
		t.Errorf("node change %+v: want uid 0, no gid, mode 0660", n)
	}
	e := s.Expect["c1"]
	if e.OnlyNodes == nil || len(e.OnlyNodes) != 0 || e.Env["A"] != "true" || e.Nodes["/dev/a"].Number != "195:0" {
		t.Errorf("expect %+v", e)
	}
}

func TestLoadReportsAllFilesAtOnce(t *testing.T) {
	fsys := fstest.MapFS{
		"dgpu/a.yaml": {Data: []byte(good + "expect: {c1: {running: true}}\n")},
		"dgpu/b.yaml": {Data: []byte(good + "expct: {}\n")},
		"mig/c.yaml":  {Data: []byte("# Host missing here.\ncontainers: {c1: {devices: {}}}\nexpect: {c1: {running: true}}\n")},
	}
	all, err := scenarios.LoadFS(fsys, words)
	if all != nil || err == nil {
		t.Fatalf("LoadFS = %v, %v; want only an error", all, err)
	}
	for _, want := range []string{`dgpu/b.yaml:5:1: unknown key "expct"`, "mig/c.yaml:1:1: no host"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("LoadFS: error lacks %q:\n%v", want, err)
		}
	}
	delete(fsys, "dgpu/b.yaml")
	delete(fsys, "mig/c.yaml")
	all, err = scenarios.LoadFS(fsys, words)
	if err != nil || len(all) != 1 || all[0].Name != "dgpu/a" {
		t.Fatalf("LoadFS = %+v, %v; want one scenario dgpu/a", all, err)
	}
}

// A mistake in one scenario is nothing to those that are not asked for.
func TestLoadFSReadsWhatIsNamedAlone(t *testing.T) {
	const ok = good + "expect: {c1: {running: true}}\n"
	fsys := fstest.MapFS{
		"dgpu/a.yaml": {Data: []byte(ok)}, "dgpu/b.yaml": {Data: []byte(ok)},
		"dgpu-two/a.yaml": {Data: []byte(ok)}, "mig/bad.yaml": {Data: []byte("host: [")},
	}
	for _, tc := range []struct {
		ask  []string
		want string // empty: an error
	}{
		{nil, ""},
		{[]string{"mig/bad"}, ""},
		{[]string{"dgpu/a", "mig"}, ""},
		{[]string{"dgpu/a"}, "dgpu/a"},
		{[]string{"dgpu/a.yaml"}, "dgpu/a"},
		{[]string{"dgpu"}, "dgpu/a dgpu/b"},
		{[]string{"dgpu/", "dgpu/b"}, "dgpu/a dgpu/b"},
		{[]string{"dgpu-two/a", "dgpu/b"}, "dgpu-two/a dgpu/b"},
	} {
		all, err := scenarios.LoadFS(fsys, words, tc.ask...)
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
		}
		if (err == nil) != (tc.want != "") || strings.Join(got, " ") != tc.want {
			t.Errorf("LoadFS(%q) = %q, %v; want %q", tc.ask, got, err, tc.want)
		}
	}
	for name, want := range map[string]bool{"dgpu": true, "dgpu/b": true, "mig/bad.yaml": true, "dg": false, "dgpu/c": false, "/dgpu": false, "": false} {
		if got := scenarios.Has(fsys, name); got != want {
			t.Errorf("Has(%q) = %v; want %v", name, got, want)
		}
	}
}

func TestLoadFromFolders(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "area", "one.yaml")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(good+"expect: {c1: {running: true}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := scenarios.Load(words, dir, at)
	if err != nil || len(all) != 1 || all[0].Name != "area/one" {
		t.Errorf("Load = %+v, %v; want area/one once", all, err)
	}
	for _, bad := range []string{filepath.Join(dir, "missing.yaml"), t.TempDir(), "/dev/null"} {
		if _, err := scenarios.Load(words, bad); err == nil || !strings.Contains(err.Error(), bad+": ") {
			t.Errorf("Load(%s) = %v; want an error that names it", bad, err)
		}
	}
}

func TestExpand(t *testing.T) {
	s, err := scenarios.Parse("mig/x", "f", []byte(`# The matrix is a product.
host: dgx-a100
matrix: {cgroup: [v2, v1], idmap: [none, default]}
containers: {c1: {devices: {}}, c2: {devices: {}, image: musl}}
expect: {c1: {running: true}}
`), words)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mig/x[cgroup=v2,idmap=none]", "mig/x[cgroup=v2,idmap=default]",
		"mig/x[cgroup=v1,idmap=none]", "mig/x[cgroup=v1,idmap=default]",
	}
	got := scenarios.Expand(s)
	if len(got) != len(want) {
		t.Fatalf("Expand made %d variants; want %d", len(got), len(want))
	}
	for i, v := range got {
		if v.ID() != want[i] {
			t.Errorf("variant %d is %s; want %s", i, v.ID(), want[i])
		}
		if c := v.Containers["c2"]; c.Cgroup != v.Map()["cgroup"] || c.IDMap != v.Map()["idmap"] || c.Image != "musl" {
			t.Errorf("%s: c2 is %+v", v.ID(), c)
		}
	}
	if s.Containers["c1"].Cgroup != "" {
		t.Error("Expand changed the scenario it was given")
	}
}

func TestLabels(t *testing.T) {
	s := scenarios.Scenario{Name: "mig/x", Labels: []string{"slow"}, Bug: "mig-uuid-format", Twin: "mig/y"}
	for expr, want := range map[string]bool{
		"": true, "mig && !slow": false, "mig": true, "bug": true, "mig-uuid-format": true, "tegra || twin": true, "tegra": false,
	} {
		match, err := scenarios.ParseLabels(expr)
		if err != nil || match(s.AllLabels()) != want {
			t.Errorf("label %q on %v: want %v (%v)", expr, s.AllLabels(), want, err)
		}
	}
	if _, err := scenarios.ParseLabels("mig && ("); err == nil || !strings.Contains(err.Error(), `"mig && ("`) {
		t.Errorf("ParseLabels = %v; want an error that quotes the expression", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	bad, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, b := range bad {
		if data, err := os.ReadFile(b); err == nil {
			f.Add(data)
		}
	}
	for _, s := range []string{"", "#", "---", "a: &a [*a]", "? [a]: b", "!!binary x", "{<<: {a: b}}", "- - -\n", "\"", "a: |\n  b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenarios.Parse("a/b", "f", data, words)
		if err == nil {
			if n := len(scenarios.Expand(s)); n == 0 || n > scenarios.MaxVariants {
				t.Fatalf("%d variants", n)
			}
			return
		}
		if ps, ok := errors.AsType[strictdoc.Problems](err); !ok || len(ps) == 0 || strings.Contains(ps[0].Error(), "\n") {
			t.Fatalf("Parse = %T %v; want Problems of one line each", err, err)
		}
		if s.Host != "" || s.Containers != nil {
			t.Fatalf("a scenario along with an error: %+v", s)
		}
	})
}
