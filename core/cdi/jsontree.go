package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonTree reads one JSON document by its tokens: decoding into a struct would
// keep the last of two equal keys and ignore the case of both.
func jsonTree(data []byte) (*node, *treeError) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	r := &jsonReader{data: data, at: mark{1, 1}, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	n, e := r.value(0)
	if e != nil {
		return nil, e
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		e := treeErrorf(SpecDocuments, r.mark(), "something follows the end of the Spec")
		e.hint = "Write one Spec per file."
		return nil, e
	}
	return n, nil
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	seen int  // bytes of data that at stands after
	at   mark // advances with the tokens
}

// mark returns the place of the next token: white space and separators after
// the last one are skipped.
func (r *jsonReader) mark() mark {
	end := int(r.dec.InputOffset())
	for end < len(r.data) && bytes.IndexByte([]byte(" \t\n,:"), r.data[end]) >= 0 {
		end++
	}
	for ; r.seen < end; r.seen++ {
		switch c := r.data[r.seen]; {
		case c == '\n':
			r.at = mark{r.at.line + 1, 1}
		case utf8.RuneStart(c):
			r.at.col++
		}
	}
	return r.at
}

func (r *jsonReader) token() (json.Token, mark, *treeError) {
	at := r.mark()
	t, err := r.dec.Token()
	if err == nil {
		return t, at, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, at, treeErrorf(SpecSyntax, r.atOffset(int(syntax.Offset)), "not JSON: %v", syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, at, treeErrorf(SpecSyntax, r.atOffset(len(r.data)), "the file ends in the middle of the JSON text")
	}
	return nil, at, treeErrorf(SpecSyntax, at, "not JSON: %v", err)
}

// atOffset returns the place of the byte before off.
func (r *jsonReader) atOffset(off int) mark {
	at := mark{1, 1}
	for i := 0; i < min(off-1, len(r.data)); i++ {
		switch c := r.data[i]; {
		case c == '\n':
			at = mark{at.line + 1, 1}
		case utf8.RuneStart(c):
			at.col++
		}
	}
	return at
}

func (r *jsonReader) value(depth int) (*node, *treeError) {
	t, at, e := r.token()
	if e != nil {
		return nil, e
	}
	if depth > maxNesting {
		return nil, treeErrorf(SpecNesting, at, "nested deeper than %d levels", maxNesting)
	}
	switch v := t.(type) {
	case nil:
		return &node{kind: nullNode, at: at}, nil
	case bool:
		return &node{kind: plainNode, text: fmt.Sprint(v), at: at}, nil
	case json.Number:
		return &node{kind: plainNode, text: v.String(), at: at}, nil
	case string:
		return &node{kind: textNode, text: v, at: at}, nil
	case json.Delim:
		if v == '[' {
			return r.list(at, depth)
		}
		return r.object(at, depth)
	}
	return nil, treeErrorf(SpecSyntax, at, "not JSON: unexpected %v", t)
}

func (r *jsonReader) list(at mark, depth int) (*node, *treeError) {
	n := &node{kind: listNode, at: at}
	for r.dec.More() {
		item, e := r.value(depth + 1)
		if e != nil {
			return nil, e
		}
		n.items = append(n.items, item)
	}
	_, _, e := r.token() // the closing bracket, or why it is missing
	return n, e
}

func (r *jsonReader) object(at mark, depth int) (*node, *treeError) {
	n := &node{kind: objectNode, at: at}
	for r.dec.More() {
		key, at, e := r.token()
		if e != nil {
			return nil, e
		}
		text, ok := key.(string)
		if !ok {
			return nil, treeErrorf(SpecSyntax, at, "not JSON: a key has to be text")
		}
		value, e := r.value(depth + 1)
		if e != nil {
			return nil, e
		}
		n.members = append(n.members, member{key: text, at: at, value: value})
	}
	_, _, e := r.token()
	return n, e
}
