package strictdoc

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// What is read of any file: reading costs many times the size in memory.
const (
	MaxBytes = 1 << 20

	// maxItems bounds the commas, colons and lines, and so the values: one costs up
	// to 500 bytes of memory, whatever its size in the file. A CDI Spec of 1 MiB that
	// names real devices has a third of it.
	maxItems = 150_000

	// maxNesting is deeper than any file of ours, or a CDI Spec, can be.
	maxNesting = 32
)

// A FaultKind says what keeps a text from being a document.
type FaultKind string

// The kinds of faults.
const (
	TooLarge  FaultKind = "too-large" // more than MaxBytes or maxItems
	Encoding  FaultKind = "encoding"  // bytes that are not text, or that hide what is written
	Syntax    FaultKind = "syntax"
	Feature   FaultKind = "yaml-feature" // an anchor, an alias, a merge key, a tag, or a key that is not text
	Documents FaultKind = "documents"    // more than one
	Nesting   FaultKind = "nesting"
	ReaderBug FaultKind = "reader-bug" // the parser failed
)

// A Fault is the first thing that keeps a text from being a document.
type Fault struct {
	Kind FaultKind
	At   Place // zero: the file as a whole
	Msg  string
	Hint string // may be empty
}

func (f *Fault) Error() string { return fmt.Sprintf("%d:%d: %s", f.At.Line, f.At.Column, f.Msg) }

func faultf(k FaultKind, at Place, hint, format string, args ...any) *Fault {
	return &Fault{Kind: k, At: at, Hint: hint, Msg: fmt.Sprintf(format, args...)}
}

// Parse reads one document, JSON or YAML. Both nil: the text is empty, or has
// comments only. A byte order mark and CRLF are accepted.
func Parse(data []byte, json bool) (n *Node, f *Fault) {
	// The parsers read a stranger's text. A panic in one of them must not end the
	// program, and must not pass for a mistake of the file either.
	defer func() {
		if r := recover(); r != nil {
			n, f = nil, faultf(ReaderBug, Place{}, "Please report this with the file.", "the reader failed: %v", r)
		}
	}()
	if len(data) > MaxBytes {
		return nil, faultf(TooLarge, Place{}, "", "has %d bytes, at most %d are read", len(data), MaxBytes)
	}
	if items := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte(":")) + bytes.Count(data, []byte("\n")); items > maxItems {
		return nil, faultf(TooLarge, Place{}, "", "has %d commas, colons and lines, at most %d are read", items, maxItems)
	}
	text, at, why := clean(data)
	if why != "" {
		return nil, faultf(Encoding, at, "Save the file as plain UTF-8.", "%s", why)
	}
	if json {
		return jsonTree(text)
	}
	return yamlTree(text)
}

func tooDeep(at Place) *Fault {
	return faultf(Nesting, at, "", "nested deeper than %d levels", maxNesting)
}

func secondDocument(at Place) *Fault {
	return faultf(Documents, at, "Write one document per file.", "a second document begins here; other readers ignore it")
}

// clean returns data as UTF-8 without byte order mark and with plain line feeds, or
// says where it has what a person who reviews the file would not see.
func clean(data []byte) ([]byte, Place, string) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return nil, Place{1, 1}, "the file is UTF-16, want UTF-8"
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	at := Place{1, 1}
	for i := 0; i < len(data); {
		if c := data[i]; c >= ' ' && c < 0x7f {
			i, at.Column = i+1, at.Column+1
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, at, fmt.Sprintf("the byte 0x%02x is not UTF-8", data[i])
		}
		if why := hidden(r); why != "" && r != '\n' && r != '\t' {
			return nil, at, why
		}
		i, at.Column = i+n, at.Column+1
		if r == '\n' {
			at = Place{at.Line + 1, 1}
		}
	}
	return data, Place{}, ""
}

// hidden returns why a character must not be in a file, or "": control characters
// and those that change how the text around them is displayed.
func hidden(r rune) string {
	switch {
	case r < 0x20, 0x7f <= r && r <= 0x9f:
		return fmt.Sprintf("control character U+%04X", r)
	case r == 0x061c, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return fmt.Sprintf("character U+%04X, which changes the direction of text", r)
	case 0x200b <= r && r <= 0x200d, 0x2060 <= r && r <= 0x206f, r == 0xfeff, r == 0x00ad:
		return fmt.Sprintf("invisible character U+%04X", r)
	case r == 0x2028, r == 0x2029:
		return fmt.Sprintf("line separator U+%04X", r)
	}
	return ""
}

// Hidden returns why a value must not be used, or "": escapes can make what Parse
// refuses in the file.
func Hidden(s string) string {
	for _, r := range s {
		if r >= ' ' && r < 0x7f {
			continue
		}
		if r == utf8.RuneError {
			return "an escape that is not a character"
		}
		if why := hidden(r); why != "" {
			return why
		}
	}
	return ""
}
