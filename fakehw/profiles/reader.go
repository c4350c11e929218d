package profiles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A place is where a value stands in a file.
type place struct{ line, column int }

// A reader takes values out of a YAML document and notes every mistake instead
// of stopping at the first. Paths are "gpus[0].product".
type reader struct {
	file     string
	places   map[string]place
	problems []*Problem
}

// document parses data, which must be one document without anchors.
func (r *reader) document(data []byte) ast.Node {
	if line := tooDeep(data); line > 0 {
		r.problems = append(r.problems, &Problem{File: r.file, Line: line, Column: 1, Why: fmt.Sprintf("nested deeper than %d levels", maxNesting)})
		return nil
	}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, why := place{1, 1}, err.Error()
		if e := yaml.Error(nil); errors.As(err, &e) {
			why = e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				at = place{t.Position.Line, t.Position.Column}
			}
		}
		why, _, _ = strings.Cut(why, "\n")
		r.problems = append(r.problems, &Problem{File: r.file, Line: at.line, Column: at.column, Why: why, Err: err})
		return nil
	}
	var body ast.Node
	for _, d := range f.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			r.fail(d.Body, "", "a second document; a profile is one")
			return nil
		}
		body = d.Body
	}
	if body == nil {
		r.problems = append(r.problems, &Problem{File: r.file, Why: "the file says nothing"})
	}
	return body
}

func where(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return where(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{}
}

func (r *reader) fail(n ast.Node, path, format string, args ...any) {
	at := where(n)
	r.problems = append(r.problems, &Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Why: fmt.Sprintf(format, args...)})
}

// failAt notes a mistake at a path that was read before.
func (r *reader) failAt(path string, err error) {
	at := r.places[path]
	r.problems = append(r.problems, &Problem{File: r.file, Line: at.line, Column: at.column, Path: path, Why: err.Error(), Err: err})
}

// A fields maps the keys of a mapping to what reads their values.
type fields map[string]func(path string, n ast.Node)

// mapping reads a mapping and refuses keys that are not in known, or twice.
func (r *reader) mapping(path string, n ast.Node, known fields) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(n, path, "want a mapping, not %s", kind(n))
		return
	}
	r.places[path] = where(n)
	seen := map[string]bool{}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			r.fail(v.Key, path, "a key must be a plain word, not %s", kind(v.Key))
			continue
		}
		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}
		read := known[key.Value]
		if read == nil {
			read = known["*"]
		}
		switch {
		case read == nil:
			r.fail(v.Key, at, "unknown key; known: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			r.fail(v.Key, at, "the key stands here twice")
		default:
			r.places[at] = where(v.Value)
			read(at, v.Value)
		}
		seen[key.Value] = true
	}
}

// list reads a sequence of at most limit entries.
func (r *reader) list(path string, n ast.Node, limit int, read func(path string, n ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, path, "want a list, not %s", kind(n))
		return
	}
	if len(s.Values) > limit {
		r.fail(n, path, "%d entries; at most %d are allowed", len(s.Values), limit)
		return
	}
	for i, v := range s.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.places[at] = where(v)
		read(at, v)
	}
}

func (r *reader) text(path string, n ast.Node) string {
	s, ok := n.(*ast.StringNode)
	if !ok {
		hint := ""
		if _, number := n.(ast.ScalarNode); number {
			hint = "; put it in quotes"
		}
		r.fail(n, path, "want a text, not %s%s", kind(n), hint)
		return ""
	}
	if len(s.Value) > maxText {
		r.fail(n, path, "%d bytes; at most %d are allowed", len(s.Value), maxText)
		return ""
	}
	if strings.ContainsFunc(s.Value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.fail(n, path, "control characters in %q", s.Value)
		return ""
	}
	return s.Value
}

// oneOf reads a text that must be in a closed list.
func (r *reader) oneOf(path string, n ast.Node, allowed ...string) string {
	s := r.text(path, n)
	if s != "" && !slices.Contains(allowed, s) {
		r.fail(n, path, "%q; want one of %s", s, strings.Join(allowed, ", "))
		return ""
	}
	return s
}

func (r *reader) flag(path string, n ast.Node) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.fail(n, path, "want true or false, not %s", kind(n))
		return false
	}
	return b.Value
}

// number reads an integer between low and high.
func (r *reader) number(path string, n ast.Node, low, high int) int {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		r.fail(n, path, "want a whole number, not %s", kind(n))
		return low
	}
	v := int64(-1 << 62)
	switch x := i.Value.(type) {
	case int64:
		v = x
	case uint64:
		v = int64(min(x, 1<<62))
	}
	if v < int64(low) || v > int64(high) {
		r.fail(n, path, "%s; want %d to %d", i.String(), low, high)
		return low
	}
	return int(v)
}

// numbers reads one number or a list of them.
func (r *reader) numbers(path string, n ast.Node, low, high int) []int {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return []int{r.number(path, n, low, high)}
	}
	var out []int
	r.list(path, n, maxGPUs, func(at string, v ast.Node) { out = append(out, r.number(at, v, low, high)) })
	return out
}

// texts reads one text or a list of them.
func (r *reader) texts(path string, n ast.Node, limit int) []string {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return []string{r.text(path, n)}
	}
	out := []string{}
	r.list(path, n, limit, func(at string, v ast.Node) { out = append(out, r.text(at, v)) })
	return out
}

// kind names what a value is, in a reader's words.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return "a text"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.IntegerNode:
		return "a number"
	case *ast.FloatNode:
		return "a number with a fraction"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an anchor or alias, which profiles do not have"
	case *ast.TagNode:
		return "a tag, which profiles do not have"
	}
	return "a " + strings.ToLower(n.Type().String())
}
