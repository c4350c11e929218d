package strictdoc_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurig/core/device"
	"gpurig/core/strictdoc"
)

type leaf struct {
	Name   string     `yaml:"name"`
	Number device.Num `yaml:"number"`
}

type shape struct {
	Host   string            `yaml:"host"`
	On     *bool             `yaml:"on"`
	Count  int               `yaml:"count" range:"-1..63"`
	Many   []int             `yaml:"many,single" range:"0..9" max:"3"`
	Texts  []string          `yaml:"texts"`
	Majors map[string]uint32 `yaml:"majors" range:"1..511"`
	Minors map[int]int       `yaml:"minors"`
	Leaves []leaf            `yaml:"leaves"`
	leaf
	Word   string `yaml:"word" words:"red green"`
	Hidden string `yaml:"-"`
}

var (
	strict = strictdoc.New[shape](strictdoc.Options{What: "shape", Bytes: 4096, Entries: 8, Text: 16})
	loose  = strictdoc.New[shape](strictdoc.Options{What: "shape", Words: true, Lines: true, Empty: true})
)

func read(r *strictdoc.Reader[shape], text string) (shape, error) {
	var s shape
	d, _ := r.Read("f", []byte(text), &s)
	return s, d.Err()
}

func TestRead(t *testing.T) {
	got, err := read(strict, "host: \"0660\"\non: false\ncount: -1\nmany: 7\r\ntexts: [a, 'b c']\nmajors: {nvidia-uvm: 511}\nminors: {0: 3}\nleaves:\n- number: \"195:0\"\n- {name: x}\nname: embedded\n")
	off := false
	want := shape{Host: "0660", On: &off, Count: -1, Many: []int{7}, Texts: []string{"a", "b c"}, Majors: map[string]uint32{"nvidia-uvm": 511},
		Minors: map[int]int{0: 3}, Leaves: []leaf{{Number: device.Num{Major: 195}}, {Name: "x"}}, leaf: leaf{Name: "embedded"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %+v, %v\nwant %+v", got, err, want)
	}
	got, err = read(loose, "host: 0660\ntexts: [550.10, true, 0x1f, 1e3, .inf, 2024-01-01, no]\nname: |\n  two\n  lines\n")
	want = shape{Host: "0660", Texts: []string{"550.10", "true", "0x1f", "1e3", ".inf", "2024-01-01", "no"}, leaf: leaf{Name: "two\nlines\n"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %+v, %v\nwant %+v", got, err, want)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "~\n", "{}\n"} {
		if got, err := read(loose, empty); err != nil || !reflect.DeepEqual(got, shape{}) {
			t.Errorf("Read(%q) = %+v, %v; want nothing", empty, got, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "# only a comment\n", "f:1:1: holds no shape"},
		{"an unknown key", "host: x\nhots: y\n", `f:2:1: unknown key "hots"; did you mean "host"?`},
		{"a key twice", "host: x\nhost: y\n", `f:2:1: key "host" occurs twice; first in line 1`},
		{"a key twice in a map", "majors: {a: 1, a: 2}", `f:1:16: key "a" occurs twice; first in line 1`},
		{"B12 an anchor", "texts: &a [x]\n", `f:1:8: "anchor &a" is not allowed: a document is plain data`},
		{"B12 an alias", "name: x\nhost: *a\n", `f:2:7: "alias *a" is not allowed`},
		{"B12 a tag", "host: !!str x\n", `f:1:7: "tag !!str" is not allowed`},
		{"B12 a tag around it all", "!!map\nhost: x\n", `f:1:1: "tag !!map" is not allowed`},
		{"B12 a merge key", "<<: {host: x}\n", "f:1:1: the merge key << is not allowed"},
		{"B14 a second document", "host: x\n---\nhost: y\n", "f:2:1: a second document begins here; other readers ignore it"},
		{"B12 cut", "host: x\nmany: [1,\n  2]\ntexts: [x\nname: y\n", "f:4:1: not YAML: "},
		{"a key in another column", "leaves:\n- name: [a,\n   b]\n   number: x\ncount: 1\n", "f:4:4: not YAML: did not find expected key"},
		{"a value under a value", "host: x\nleaves:\n- name: y\n number: z\n", "f:4:2: not YAML: "},
		{"a tab", "leaves:\n\t- name: x\n", "f:2:1: not YAML: found character that cannot start any token"},
		{"not a mapping", "- x\n", "f:1:1: the file is a list; want keys with values"},
		{"no value", "host:\nname: x\n", "f:1:6: host has no value"},
		{"an odd key", "[a]: x\n", "f:1:"},
		{"a list for a text", "host: [x]\n", "f:1:7: host is a list; want one value"},
		{"a text for a list", "texts: x\n", `f:1:8: texts is "x"; want a list`},
		{"a number for a text", "host: 550.10\n", "f:1:7: host is 550.10; want a text"},
		{"a text for a number", "count: '3'\n", `f:1:8: count is "3"; want a whole number from -1 to 63`},
		{"a fraction", "count: 1.5\n", "f:1:8: count is 1.5; want a whole number from -1 to 63"},
		{"a base", "count: 0x10\n", "f:1:8: count is 0x10; want"},
		{"eight or ten", "count: 010\n", "f:1:8: count is 010; want"},
		{"too high", "many: [1, 10]\n", "f:1:11: many[1] is 10; want a whole number from 0 to 9"},
		{"too high, alone", "many: 10\n", "f:1:7: many is 10; want a whole number from 0 to 9"},
		{"B47 too high for any number", "majors: {a: 100000000000000000000}\n", `f:1:13: majors.a is 100000000000000000000; want a whole number from 1 to 511`},
		{"a word for a truth", "on: yes\n", `f:1:5: on is "yes"; want true or false`},
		{"no number of a key", "minors: {a: 1}\n", `f:1:10: key "a" is not a whole number`},
		{"none of the words", "word: geren\n", `f:1:7: word is "geren"; want one of red, green; did you mean "green"?`},
		{"a place behind a text of two lines", "name: 'a\r\n b'\r\nhots: x\r\n", `f:3:1: unknown key "hots"; did you mean "host"?`},
		{"B47 too many, of a field", "many: [1, 2, 3, 4]\n", "f:1:7: many has 4 entries; at most 3"},
		{"B47 too many, of any", "texts: [a, b, c, d, e, f, g, h, i]\n", "f:1:8: texts has 9 entries; at most 8"},
		{"B47 too long", "host: aaaaaaaaaaaaaaaaa\n", "f:1:7: host has 17 bytes; at most 16"},
		{"B47 too large", strings.Repeat("#", 5000), "f: has 5000 bytes; a shape has at most 4096"},
		{"B18 hidden text", "host: x # \u202e\n", "f:1:11: character U+202E, which changes the direction of text"},
		{"B18 a null byte", "host: x\nname: \x00\n", "f:2:7: control character U+0000"},
		{"B18 what a terminal writes over", "host: x # \rhost: y\n", "f:1:11: control character U+000D"},
		{"B18 not UTF-8", "host: é\xff\n", "f:1:8: the byte 0xff is not UTF-8"},
		{"a key with a colon, of a text", "{host: x, name:y: z}", `f:1:11: unknown key "name:y"; did you mean "name"?`},
		{"control characters in quotes", `host: "a\nb"`, `f:1:7: host is "a\nb", with control character U+000A`},
		{"what a type refuses", "number: '195'\n", `f:1:9: number: device number "195": want major:minor`},
		{"deep in a list", "leaves: [{}, {number: x}]\n", `f:1:23: leaves[1].number: device number "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := read(strict, tc.text)
			if ps, ok := errors.AsType[strictdoc.Problems](err); !ok || len(ps) != 1 || !strings.HasPrefix(err.Error(), tc.want) && !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Read = %v; want %s", err, tc.want)
			}
		})
	}
}

func TestAllProblemsComeInOrderWithPlacesForMore(t *testing.T) {
	var s shape
	d, ok := strict.Read("f", []byte("leaves:\n  - {name: [x]}\n  - {name: y, zzzz: z}\ncount: 99\nmajors: {17000000.ga10b: 1}\n"), &s)
	if !ok || !d.Has("leaves[1].name") || d.Has("leaves[2]") || !d.Failed("leaves[0].name") {
		t.Errorf("Read = %v", d.Err())
	}
	cause := errors.New("a cause")
	d.At("leaves[0].name", "", "is not said: it could not be read")
	d.At(strictdoc.Path("leaves").Item(1).Key("name"), "Do it.", "no %s: %w", "y", cause)
	d.At("majors.17000000.ga10b.x", "", "the nearest above\x1b[0m")
	d.AtKey("count", "", "the key")
	d.At("none", "", "the file")
	want := `f:1:1: the file
f:2:12: leaves[0].name is a list; want one value
f:3:12: no y: a cause
f:3:15: unknown key "zzzz"
f:4:1: the key
f:4:8: count is 99; want a whole number from -1 to 63
f:5:26: the nearest above\x1b[0m`
	err := d.Err()
	if err == nil || err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("Err =\n%v\nwant\n%s", err, want)
	}
	if got := err.(strictdoc.Problems)[2]; got.Excerpt() != "     3 |   - {name: y, zzzz: z}\n       |            ^\n" || got.Hint != "Do it." {
		t.Errorf("the excerpt is\n%s%s", got.Excerpt(), got.Hint)
	}
}

// B47: a file can have more mistakes than anybody reads.
func TestManyProblemsAreCounted(t *testing.T) {
	_, err := read(loose, "many: 1\n"+strings.Repeat("hots: x\n", 5000))
	if ps, _ := errors.AsType[strictdoc.Problems](err); len(ps) != 201 || ps[200].Error() != "f: 4800 more problems" {
		t.Errorf("%d problems, the last %v", len(ps), ps[len(ps)-1])
	}
}

// A line of any length is shown around the column.
func TestExcerptOfALongLine(t *testing.T) {
	for _, before := range []int{0, 10, 3000} {
		_, err := read(loose, strings.Repeat(" ", 2)+"texts: ["+strings.Repeat("é, ", before)+"[xyz]"+strings.Repeat(", b", 2000)+"]\n")
		ps, _ := errors.AsType[strictdoc.Problems](err)
		if len(ps) != 1 {
			t.Fatalf("Read = %v; want one problem", err)
		}
		lines := strings.Split(ps[0].Excerpt(), "\n")
		mark := strings.Index(lines[1], "^")
		if text := []rune(lines[0]); len(text) > 200 || mark < 0 || string(text[mark:mark+5]) != "[xyz]" {
			t.Errorf("%d before:\n%s", before, ps[0].Excerpt())
		}
	}
}

func TestB11DeepNestingIsRefusedBeforeItIsParsed(t *testing.T) {
	var steps strings.Builder
	for i := range 1200 {
		steps.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, text := range map[string]string{
		"brackets":    strings.Repeat("[", 200_000),
		"braces":      "a: " + strings.Repeat("{a: ", 50_000),
		"marks":       strings.Repeat("- ", 100_000),
		"keys":        strings.Repeat("? ", 100_000),
		"indentation": steps.String(),
	} {
		start := time.Now()
		if _, err := read(loose, "# X.\n"+text); err == nil || !strings.Contains(err.Error(), "nested deeper than 32 levels") && !strings.Contains(err.Error(), "more than 2048 brackets are open") {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(name, time.Since(start))
	}
	if _, err := read(loose, "texts:\n"+strings.Repeat("  - a\n", 5000)); err != nil {
		t.Errorf("a long list: %v", err)
	}
}

// A type that cannot be read is a mistake of the program.
func TestATypeThatCannotBeReadPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Fields of a float")
		}
	}()
	type bad struct {
		X float64 `yaml:"x"`
	}
	strictdoc.New[bad](strictdoc.Options{}).Fields(reflect.TypeFor[bad]())
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"host: x\non: true\ncount: 1\nmany: [1, 2]\n", "leaves:\n- number: \"195:0\"\n- {name: x}\n", "majors: {a: 1}\nminors: {0: 1}\n",
		"host: &a b\nname: *a\n", "<<: {a: b}", "---\n---\n", "host: |\n x\n", "? [a]\n: b", "host: \"\\x00\"", "[{", "a: b: c", "%YAML 1.2\n---\nhost: a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []*strictdoc.Reader[shape]{strict, loose} {
			var s shape
			d, ok := r.Read("f", []byte(text), &s)
			err := d.Err()
			if !ok && err == nil {
				t.Fatal("neither a document nor a problem")
			}
			for _, p := range problems(err) {
				if strings.ContainsAny(p.Error(), "\n\x1b") || p.Msg == "" || p.Line < 0 || p.Line > 1+strings.Count(text, "\n") {
					t.Fatalf("problem %q at line %d", p.Error(), p.Line)
				}
				_ = p.Excerpt()
			}
			if err == nil && (s.Count < -1 || s.Count > 63 || len(s.Many) > 3 || s.Word != "" && s.Word != "red" && s.Word != "green" || s.Hidden != "") {
				t.Fatalf("%+v was read without a problem", s)
			}
		}
	})
}

func problems(err error) strictdoc.Problems {
	ps, _ := errors.AsType[strictdoc.Problems](err)
	return ps
}
