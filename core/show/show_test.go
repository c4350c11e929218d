package show_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"gpurig/core/show"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain, with é and 漢": "plain, with é and 漢",
		"\x1b[2J":             `\x1b[2J`,
		"a\rb\nc\td":          `a\rb\nc\td`,
		"\x00\x7f":            `\x00\x7f`,
		"\u009b31m":           `\u009b31m`,
		"\u202eevil":          `\u202eevil`,
		"\u2028":              `\u2028`,
		"\U000e0041":          `\U000e0041`,
		"\xff\x9b":            `\xff\x9b`,
		"\ufffd":              "\ufffd",
		`already \x1b`:        `already \x1b`,
	} {
		if got := show.Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
	if got := show.Text("a\n\tb\r\x1b"); got != "a\n\tb\\r\\x1b" {
		t.Errorf("Text() = %q", got)
	}
}

// A42: the format is ours and stays; values are shown, whatever carries them.
func TestSprintf(t *testing.T) {
	bad := "x\n\x1b"
	for _, tc := range []struct{ got, want string }{
		{show.Sprintf("a\t%s\n", bad), "a\tx\\n\\x1b\n"},
		{show.Sprintf("%v", errors.New(bad)), `x\n\x1b`},
		{show.Sprintf("%v", []string{bad, "b"}), `[x\n\x1b b]`},
		{show.Sprintf("%s", []byte(bad)), `x\n\x1b`},
		{show.Sprintf("%q", bad), `"x\n\x1b"`},
		{show.Sprintf("%v", map[string]string{bad: bad}), `map[x\n\x1b:x\n\x1b]`},
		{show.Sprintf("%c%x", '\x1b', "\x1b"), `\x1b1b`},
		{show.Sprintf("%-*s|%04o|%6.2f|%v", 4, "a", 0o755, 1.5, time.Second), "a   |0755|  1.50|1s"},
		{show.Sprintf("%5s|%-5s|%v", "é", "b", nil), "    é|b    |<nil>"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	var b bytes.Buffer
	show.Fprintln(&b, "a", bad, 3)
	if b.String() != "a x\\n\\x1b 3\n" {
		t.Errorf("Fprintln() wrote %q", b.String())
	}
}

func TestWriterLetsNoControlThrough(t *testing.T) {
	var b bytes.Buffer
	w := show.NewWriter(&b)
	all := "a\tb\n"
	for r := range rune(0x100) {
		all += string(r)
	}
	all += "\xff\u202e"
	if n, err := fmt.Fprint(w, all); n != len(all) || err != nil {
		t.Errorf("Write() = %d, %v; want %d", n, err, len(all))
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && r != '\t' && (unicode.IsControl(r) || r == utf8.RuneError) }); i >= 0 {
		t.Errorf("a control character came through: %q", b.String()[i:])
	}
	if !strings.Contains(b.String(), "\u202e") {
		t.Error("what is no control character must stay as it is: a document may have it")
	}
	b.Reset()
	show.Control(w, "\r\x1b[K")
	if b.String() != "\r\x1b[K" {
		t.Errorf("Control() wrote %q", b.String())
	}
}

func FuzzShow(f *testing.F) {
	for _, seed := range []string{"", "\x1b[2J", "a\u009b\r\n", "\xff\xfe", "\U000e0041\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := show.Line(s); strings.ContainsFunc(got, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) || show.Line(got) != got {
			t.Errorf("Line(%q) = %q", s, got)
		}
		data, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var was, is map[string]string
		safe := show.JSON(data)
		if err := errors.Join(json.Unmarshal(data, &was), json.Unmarshal(safe, &is)); err != nil {
			t.Fatalf("JSON(%q) = %q: %v", data, safe, err)
		}
		if got := string(safe); show.Line(got) != got || fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("JSON(%q) = %q", data, safe)
		}
	})
}
