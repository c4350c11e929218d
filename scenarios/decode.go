package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A place is a line and a column of a file, both from 1.
type place struct{ line, column int }

// A spot is where a key and its value stand.
type spot struct{ key, value place }

// A where is a path into a document: field names, map keys, list positions.
type where []string

func (w where) at(step string) where { return append(slices.Clip(w), step) }
func (w where) item(i int) where     { return w.at(strconv.Itoa(i)) }
func (w where) id() string           { return strings.Join(w, "\x00") }

// A decoder fills a value from a YAML tree and collects every problem, with its
// place, instead of stopping at the first as decoders do. It remembers where
// each value stands, so that later checks can say so too.
type decoder struct {
	file     string
	lines    []string
	spots    map[string]spot
	failed   map[string]bool // what could not be decoded: nothing more is said of it
	problems Problems
}

func newDecoder(file string, data []byte) *decoder {
	return &decoder{file: file, lines: strings.Split(string(data), "\n"), spots: map[string]spot{}, failed: map[string]bool{}}
}

func (d *decoder) report(p place, hint, format string, args ...any) {
	problem := &Problem{File: d.file, Line: p.line, Column: p.column, Hint: hint,
		Msg: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")}
	if p.line > 0 && p.line <= len(d.lines) {
		problem.Excerpt = strings.TrimRight(d.lines[p.line-1], "\r")
	}
	d.problems = append(d.problems, problem)
}

// at reports a problem with the value at w, or with the closest thing above it
// that stands in the file.
func (d *decoder) at(w where, hint, format string, args ...any) {
	if d.failed[w.id()] {
		return
	}
	d.report(d.find(w).value, hint, format, args...)
}

// atKey reports a problem with the key at w.
func (d *decoder) atKey(w where, hint, format string, args ...any) {
	d.report(d.find(w).key, hint, format, args...)
}

func (d *decoder) find(w where) spot {
	for ; len(w) > 0; w = w[:len(w)-1] {
		if s, ok := d.spots[w.id()]; ok {
			return s
		}
	}
	return spot{place{1, 1}, place{1, 1}}
}

// fail reports a value that could not be decoded.
func (d *decoder) fail(n ast.Node, w where, hint, format string, args ...any) {
	d.report(placeOf(n), hint, format, args...)
	d.failed[w.id()] = true
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
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}

// value decodes n into v.
func (d *decoder) value(n ast.Node, v reflect.Value, w where) {
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(n, w, "Write the value out in each place.", "anchors and aliases are not used in scenarios")
		return
	case *ast.TagNode:
		d.fail(n, w, "", "tags (%s) are not used in scenarios", n.GetToken().Value)
		return
	case *ast.NullNode:
		d.fail(n, w, "Leave the key out, or give it a value.", "%s has no value", w.name())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), w)
		v.Set(p)
	case reflect.Struct:
		d.structure(n, v, w)
	case reflect.Map:
		d.mapping(n, v, w)
	case reflect.Slice:
		d.list(n, v, w)
	default:
		d.scalar(n, v, w)
	}
}

// name returns the last step for messages: `"host"`, `entry 2 of "labels"`.
func (w where) name() string {
	if len(w) == 0 {
		return "the file"
	}
	last := w[len(w)-1]
	if i, err := strconv.Atoi(last); err == nil && len(w) > 1 {
		return fmt.Sprintf("entry %d of %s", i+1, w[:len(w)-1].name())
	}
	return strconv.Quote(last)
}

// pair is one key of a mapping.
type pair struct {
	key   string
	place place
	value ast.Node
}

// pairs returns the keys of a mapping, each once. Anything else than a mapping
// is reported.
func (d *decoder) pairs(n ast.Node, w where) []pair {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.fail(n, w, "", "%s is %s; want keys with values", w.name(), kindOf(n))
		return nil
	}
	var out []pair
	seen := map[string]place{}
	for _, m := range values {
		if _, merge := m.Key.(*ast.MergeKeyNode); merge {
			d.report(placeOf(m.Key), "Write the keys out in each place.", "merge keys are not used in scenarios")
			continue
		}
		key, ok := text(m.Key)
		if !ok {
			d.report(placeOf(m.Key), "", "this key is %s; want a word", kindOf(m.Key))
			continue
		}
		at := placeOf(m.Key)
		if first, twice := seen[key]; twice {
			d.report(at, "", "key %q stands twice; first in line %d", key, first.line)
			continue
		}
		seen[key] = at
		out = append(out, pair{key, at, m.Value})
	}
	return out
}

func (d *decoder) structure(n ast.Node, v reflect.Value, w where) {
	fields := fieldsOf(v.Type())
	for _, p := range d.pairs(n, w) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == p.key })
		if i < 0 {
			hint := "Known here: " + strings.Join(keysOf(fields), ", ") + "."
			d.report(p.place, hint, "unknown key %q%s", p.key, meant(p.key, keysOf(fields)))
			if likely := nearest(p.key, keysOf(fields)); likely != "" {
				d.failed[w.at(likely).id()] = true // it is not missing, only misspelt
			}
			continue
		}
		sub := w.at(p.key)
		d.spots[sub.id()] = spot{p.place, placeOf(p.value)}
		d.value(p.value, v.Field(fields[i].index), sub)
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, w where) {
	t := v.Type()
	m := reflect.MakeMap(t)
	for _, p := range d.pairs(n, w) {
		key := reflect.New(t.Key()).Elem()
		if t.Key().Kind() == reflect.Int {
			k, err := strconv.Atoi(p.key)
			if err != nil {
				d.report(p.place, "", "key %q is not a whole number", p.key)
				continue
			}
			key.SetInt(int64(k))
		} else {
			key.SetString(p.key)
		}
		sub := w.at(p.key)
		d.spots[sub.id()] = spot{p.place, placeOf(p.value)}
		val := reflect.New(t.Elem()).Elem()
		d.value(p.value, val, sub)
		m.SetMapIndex(key, val)
	}
	v.Set(m)
}

func (d *decoder) list(n ast.Node, v reflect.Value, w where) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, w, "", "%s is %s; want a list", w.name(), kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, item := range s.Values {
		sub := w.item(i)
		d.spots[sub.id()] = spot{placeOf(item), placeOf(item)}
		d.value(item, out.Index(i), sub)
	}
	v.Set(out)
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, w where) {
	s, ok := text(n)
	if !ok {
		d.fail(n, w, "", "%s is %s; want one value", w.name(), kindOf(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
		d.fail(n, w, "", "%s is %q; want true or false", w.name(), s)
	case reflect.Int:
		i, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			d.fail(n, w, "", "%s is %q; want a whole number", w.name(), s)
			return
		}
		v.SetInt(i)
	case reflect.Uint32:
		u, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			d.fail(n, w, "", "%s is %q; want a whole number from 0 to 4294967295", w.name(), s)
			return
		}
		v.SetUint(u)
	default:
		d.fail(n, w, "", "%s cannot be read into %s", w.name(), v.Type())
	}
}

// text returns a scalar as it was written: a text field takes 550, 0660 and
// 550.10 as the letters that stand there.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(n.GetToken().Value), true
	}
	return "", false
}

func kindOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a set of keys"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an anchor or alias"
	default:
		if s, ok := text(n); ok {
			return strconv.Quote(s)
		}
		return "something else"
	}
}

// A field is a struct field that a key can set.
type field struct {
	key   string
	index int
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		if key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); key != "" && key != "-" {
			out = append(out, field{key, i})
		}
	}
	return out
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}
