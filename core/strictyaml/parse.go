package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNesting is far more than any file means. The YAML parser takes memory that
// grows with the square of the nesting (B11).
const maxNesting = 100

// parse returns the one document of the file, or nil: after a report, or where an
// empty file is one.
func (d *Doc) parse() (body ast.Node) {
	if !d.clean() {
		return nil
	}
	defer func() {
		if p := recover(); p != nil { // goccy/go-yaml panics on some malformed input
			d.report(place{1, 1}, "", "not YAML: the parser gave up: %v", p)
			body = nil
		}
	}()
	// A line break of two characters is one, also inside of quotes, where the parser
	// would count two lines.
	file, err := parser.ParseBytes(bytes.ReplaceAll(d.data, []byte("\r\n"), []byte("\n")), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, msg := place{1, 1}, err.Error()
		if e, ok := errors.AsType[yaml.Error](err); ok {
			at, msg = placeOfToken(e.GetToken()), e.GetMessage()
		}
		d.report(at, remedy(msg), "not YAML: %s", msg)
		return nil
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool {
		return doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType
	})
	switch {
	case len(docs) == 1:
		return docs[0].Body
	case len(docs) > 1:
		at := placeOf(docs[1].Body)
		if docs[1].Start != nil {
			at = placeOfToken(docs[1].Start)
		}
		d.report(at, "Put each "+d.opts.What+" into a file of its own.", "a second document begins here; a file holds one %s", d.opts.What)
	case !d.opts.Empty:
		d.report(place{1, 1}, "", "holds no %s", d.opts.What)
	}
	return nil
}

// clean reports what must not reach the parser: too much, what a person who looks
// at the file would not see, and nesting that costs seconds.
func (d *Doc) clean() bool {
	if n := len(d.data); d.opts.Bytes > 0 && n > d.opts.Bytes {
		d.report(place{}, "", "%d bytes; a %s has at most %d", n, d.opts.What, d.opts.Bytes)
		return false
	}
	if at, why := unseen(d.data); why != "" {
		hint := ""
		switch {
		case why == notUTF8:
			hint = "Save the file as UTF-8."
		case at == place{1, 1} && bytes.HasPrefix(d.data, []byte("\ufeff")):
			hint = "Save the file without a byte order mark."
		}
		d.report(at, hint, "%s", why)
		return false
	}
	if line := tooDeep(d.data); line > 0 {
		d.report(place{line, 1}, "", "nested deeper than %d levels", maxNesting)
		return false
	}
	return true
}

const notUTF8 = "not UTF-8 text"

// remedy is what most often makes the parser say msg.
func remedy(msg string) string {
	switch {
	case strings.Contains(msg, "character '\t'"):
		return "Indent with spaces."
	case strings.Contains(msg, "value is not allowed in this context"), strings.Contains(msg, "non-map value is specified"):
		return "Begin the keys of one level in one column."
	case strings.Contains(msg, "end token"), strings.Contains(msg, "must be specified"):
		return "Close each bracket and each quote that is open, and put a key with a colon in quotes."
	}
	return ""
}

// unseen finds the first character that shows nothing, or something else than it
// is.
func unseen(data []byte) (at place, why string) {
	at = place{1, 1}
	for i := 0; i < len(data); at.column++ {
		c, n := rune(data[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRune(data[i:])
		}
		switch i += n; {
		case c == '\n':
			at = place{at.line + 1, 0}
		case c == utf8.RuneError && n == 1:
			return at, notUTF8
		case c == '\r' && i < len(data) && data[i] == '\n':
		case c != '\t' && !seen(c):
			return at, fmt.Sprintf("has the character %U, which cannot be seen", c)
		}
	}
	return at, ""
}

// seen leaves letters and signs, and nothing that hides or turns text around.
func seen(c rune) bool {
	if c <= '~' {
		return c >= ' '
	}
	return c >= 0xa0 && c != 0xad && c != 0x61c && c != 0xfeff && (c < 0x200b || c > 0x200f) && (c < 0x2028 || c > 0x202e) && (c < 0x2060 || c > 0x206f)
}

// tooDeep returns the line, from 1, at which data nests deeper than maxNesting;
// 0: nowhere. It counts brackets, list marks and steps of indentation without
// reading the text, so that nothing is parsed before it is known to be harmless.
func tooDeep(data []byte) int {
	open, line := 0, 0
	var indents []int // each deeper than the one before
	for text := range bytes.Lines(data) {
		line++
		rest := bytes.TrimLeft(text, " ")
		if len(bytes.TrimSpace(rest)) == 0 {
			continue
		}
		indent := len(text) - len(rest)
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			indents = indents[:len(indents)-1]
		}
		indents = append(indents, indent)
		marks := 0
		for {
			after, ok := bytes.CutPrefix(rest, []byte("- "))
			if after2, key := bytes.CutPrefix(rest, []byte("? ")); key {
				after, ok = after2, true
			}
			if !ok {
				break
			}
			marks++
			rest = bytes.TrimLeft(after, " ")
		}
		for _, c := range text {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(open-1, 0)
			}
			if open+marks+len(indents) > maxNesting {
				return line
			}
		}
	}
	return 0
}

// placeOf returns where a node begins. A block mapping begins at its first key;
// its own token is the colon.
func placeOf(n ast.Node) place {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return placeOf(m.Values[0])
		}
	case *ast.MappingValueNode:
		return placeOf(m.Key)
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}
