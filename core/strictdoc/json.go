package strictdoc

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
func jsonTree(data []byte) (*Node, *Fault) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	r := &jsonReader{data: data, at: Place{1, 1}, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	n, e := r.value(0)
	if e != nil {
		return nil, e
	}
	at := r.place()
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, secondDocument(at)
	}
	return n, nil
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	seen int   // bytes of data that at stands after
	at   Place // advances with the tokens
}

// place returns the place of the next token: white space and separators after
// the last one are skipped.
func (r *jsonReader) place() Place {
	end := int(r.dec.InputOffset())
	for end < len(r.data) && bytes.IndexByte([]byte(" \t\n,:"), r.data[end]) >= 0 {
		end++
	}
	for ; r.seen < end; r.seen++ {
		switch c := r.data[r.seen]; {
		case c == '\n':
			r.at = Place{r.at.Line + 1, 1}
		case utf8.RuneStart(c):
			r.at.Column++
		}
	}
	return r.at
}

func (r *jsonReader) token() (json.Token, Place, *Fault) {
	at := r.place()
	t, err := r.dec.Token()
	if err == nil {
		return t, at, nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, at, faultf(Syntax, r.atOffset(int(syntax.Offset)), "", "not JSON: %v", syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, at, faultf(Syntax, r.atOffset(len(r.data)), "", "the file ends in the middle of the JSON text")
	}
	return nil, at, faultf(Syntax, at, "", "not JSON: %v", err)
}

// atOffset returns the place of the byte before off.
func (r *jsonReader) atOffset(off int) Place {
	at := Place{1, 1}
	for i := 0; i < min(off-1, len(r.data)); i++ {
		switch c := r.data[i]; {
		case c == '\n':
			at = Place{at.Line + 1, 1}
		case utf8.RuneStart(c):
			at.Column++
		}
	}
	return at
}

func (r *jsonReader) value(depth int) (*Node, *Fault) {
	t, at, e := r.token()
	if e != nil {
		return nil, e
	}
	if depth > maxNesting {
		return nil, tooDeep(at)
	}
	switch v := t.(type) {
	case nil:
		return &Node{Kind: Null, At: at}, nil
	case bool:
		return &Node{Kind: Plain, Text: fmt.Sprint(v), At: at}, nil
	case json.Number:
		return &Node{Kind: Plain, Text: v.String(), At: at}, nil
	case string:
		return &Node{Kind: Text, Text: v, At: at}, nil
	case json.Delim:
		if v == '[' {
			return r.list(at, depth)
		}
		return r.object(at, depth)
	}
	return nil, faultf(Syntax, at, "", "not JSON: unexpected %v", t)
}

func (r *jsonReader) list(at Place, depth int) (*Node, *Fault) {
	n := &Node{Kind: List, At: at}
	for r.dec.More() {
		item, e := r.value(depth + 1)
		if e != nil {
			return nil, e
		}
		n.Items = append(n.Items, item)
	}
	_, _, e := r.token() // the closing bracket, or why it is missing
	return n, e
}

func (r *jsonReader) object(at Place, depth int) (*Node, *Fault) {
	n := &Node{Kind: Object, At: at}
	for r.dec.More() {
		key, at, e := r.token()
		if e != nil {
			return nil, e
		}
		text, ok := key.(string)
		if !ok {
			return nil, faultf(Syntax, at, "", "not JSON: a key has to be text")
		}
		value, e := r.value(depth + 1)
		if e != nil {
			return nil, e
		}
		n.Members = append(n.Members, Member{Key: text, At: at, Value: value})
	}
	_, _, e := r.token()
	return n, e
}
