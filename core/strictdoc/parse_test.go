package strictdoc_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gpurig/core/strictdoc"
)

// What YAML and JSON have in common is the same document, places apart.
func TestParseReadsYAMLAndJSONAlike(t *testing.T) {
	const text = `{"a": [1, true, null, "x y"], "b": {"c": "é"}}`
	y, f1 := strictdoc.Parse([]byte("\ufeff"+text+"\r\n"), false)
	j, f2 := strictdoc.Parse([]byte(text), true)
	if f1 != nil || f2 != nil || !reflect.DeepEqual(y, j) {
		t.Errorf("YAML is read as %+v, %v; JSON as %+v, %v", y, f1, j, f2)
	}
	if at := j.Members[1].Value.Members[0].Value.At; at != (strictdoc.Place{Line: 1, Column: 42}) {
		t.Errorf("the last text is at %v", at)
	}
}

// What another reader would take for something else, or for more, is refused in
// both forms.
func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		json       bool
		kind       strictdoc.FaultKind
		at         strictdoc.Place
	}{
		{"an alias that is not there", "a: x\nb: *c\n", false, strictdoc.Feature, strictdoc.Place{Line: 2, Column: 4}},
		{"a key that is a list", "[a]: x\n", false, strictdoc.Feature, strictdoc.Place{Line: 1, Column: 1}},
		{"two documents", "a: x\n---\n", false, strictdoc.Documents, strictdoc.Place{Line: 2, Column: 1}},
		{"two documents of JSON", "{} {}", true, strictdoc.Documents, strictdoc.Place{Line: 1, Column: 4}},
		{"a bracket that stays open, behind lists of two lines", "a: [1,\n  2]\nb: {c: d,\n  e: f}\ng: [h\ni: j\n", false, strictdoc.Syntax, strictdoc.Place{Line: 5, Column: 1}},
		{"a comma too many", "{\"a\": 1,}", true, strictdoc.Syntax, strictdoc.Place{Line: 1, Column: 8}},
		{"B11 deep", strings.Repeat("- ", 40) + "a", false, strictdoc.Nesting, strictdoc.Place{Line: 1, Column: 67}},
		{"B11 deep JSON", strings.Repeat("[", 40), true, strictdoc.Nesting, strictdoc.Place{Line: 1, Column: 34}},
		{"B9 large", strings.Repeat("#", strictdoc.MaxBytes+1), false, strictdoc.TooLarge, strictdoc.Place{}},
		{"B9 many values", "[" + strings.Repeat("1,", 150_001), true, strictdoc.TooLarge, strictdoc.Place{}},
		{"B18 UTF-16", "\xfe\xff\x00a", false, strictdoc.Encoding, strictdoc.Place{Line: 1, Column: 1}},
	} {
		n, f := strictdoc.Parse([]byte(tc.text), tc.json)
		if n != nil || f == nil || f.Kind != tc.kind || f.At != tc.at {
			t.Errorf("%s: %+v, %v; want %s at %v", tc.name, n, f, tc.kind, tc.at)
		}
	}
}

// FuzzParse: a document or a fault with a place in the text, never both; what is
// read as JSON is JSON, and is the same document as YAML where it is that.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0: [:!00 \xef", " \ufeff\n", "? ? \"\n\" 0", "a: &a [*a]", "a: *b", "[]", "{\"a\":1,}", "{,}", "[1 2]", "{<<: {}}", "%YAML 1.1\n---\n{}", "a:\n\t- b",
		"a: [\nb", "{\"a\": [1, true, null, \"x\"]}", "a: |\n x\n", "- - - a", "'a"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		n, fault := strictdoc.Parse([]byte(text), asJSON)
		if fault != nil {
			if n != nil || fault.Kind == strictdoc.ReaderBug || fault.Msg == "" || strings.Contains(fault.Msg, "\n") || fault.At.Line < 0 || fault.At.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("%v, %+v", n, fault)
			}
			return
		}
		if asJSON && n != nil && !json.Valid([]byte(strings.TrimPrefix(text, "\ufeff"))) {
			t.Fatal("accepted what is not JSON")
		}
	})
}
