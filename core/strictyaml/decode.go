package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A Field is a struct field that a key sets.
type Field struct {
	Key       string
	index     []int
	single    bool // one value stands for a list of one
	bounded   bool // by low and high
	low, high int64
	max       int      // entries; 0: as the options say
	words     []string // a text is one of them; none: any
}

// Of returns the field of a struct.
func (f Field) Of(v reflect.Value) reflect.Value { return v.FieldByIndex(f.index) }

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// collect notes the fields of every struct that t is made of. Tags that cannot be
// read, and types, are mistakes of the program.
func collect(t reflect.Type, all map[reflect.Type][]Field) {
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		collect(t.Elem(), all)
	case reflect.Map:
		if k := t.Key().Kind(); k != reflect.String && k != reflect.Int {
			panic("strictyaml: keys of " + t.String())
		}
		collect(t.Elem(), all)
	case reflect.Struct:
		if _, done := all[t]; done {
			return
		}
		all[t] = nil
		var fields []Field
		for _, sf := range reflect.VisibleFields(t) {
			key, rest, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
			if key == "" || key == "-" {
				continue
			}
			f := Field{Key: key, index: sf.Index, single: slices.Contains(strings.Split(rest, ","), "single")}
			if r := sf.Tag.Get("range"); r != "" {
				f.bounded = true
				if _, err := fmt.Sscanf(r, "%d..%d", &f.low, &f.high); err != nil {
					panic("strictyaml: range of " + t.String() + "." + sf.Name)
				}
			}
			if m := sf.Tag.Get("max"); m != "" {
				if _, err := fmt.Sscan(m, &f.max); err != nil {
					panic("strictyaml: max of " + t.String() + "." + sf.Name)
				}
			}
			f.words = strings.Fields(sf.Tag.Get("words"))
			fields = append(fields, f)
			collect(sf.Type, all)
		}
		all[t] = fields
	case reflect.String, reflect.Bool, reflect.Int, reflect.Uint32:
	default:
		panic("strictyaml: " + t.String() + " cannot be read")
	}
}

// value decodes n into v. f is the field that v belongs to; nil: none.
func (d *Doc) value(n ast.Node, v reflect.Value, w Path, f *Field) {
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(placeOf(n), w, "Write the value out in each place.", "anchors and aliases are not read here")
		return
	case *ast.TagNode:
		d.fail(placeOf(n), w, "Leave it out.", "the tag %s: tags are not read here", n.GetToken().Value)
		return
	case *ast.NullNode:
		d.fail(placeOf(n), w, "Leave the key out, or give it a value.", "%s has no value", w)
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(textUnmarshaler) {
		d.unmarshal(n, v.Addr().Interface().(encoding.TextUnmarshaler), w, f)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), w, f)
		v.Set(p)
	case reflect.Struct:
		d.structure(n, v, w)
	case reflect.Map:
		d.mapping(n, v, w, f)
	case reflect.Slice:
		d.list(n, v, w, f)
	case reflect.String:
		v.SetString(d.text(n, w, f))
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
		d.fail(placeOf(n), w, "", "%s is %s; want true or false", w, kindOf(n))
	default:
		d.number(n, v, w, f)
	}
}

// pair is one key of a mapping.
type pair struct {
	key   string
	place place
	value ast.Node
}

// pairs returns the keys of a mapping, each once. Anything else than a mapping
// is reported.
func (d *Doc) pairs(n ast.Node, w Path) []pair {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.fail(placeOf(n), w, "", "%s is %s; want keys with values", w, kindOf(n))
		return nil
	}
	out := make([]pair, 0, len(values))
	seen := make(map[string]int, len(values))
	for _, m := range values {
		at := placeOf(m.Key)
		key, ok := scalar(m.Key)
		if _, merge := m.Key.(*ast.MergeKeyNode); merge {
			d.report(at, "Write the keys out in each place.", "merge keys are not read here")
			continue
		}
		if !ok {
			d.report(at, "", "this key is %s; want a word", kindOf(m.Key))
			continue
		}
		if first, twice := seen[key]; twice {
			d.report(at, "Keep one of the two.", "key %s stands twice; first in line %d", quote(key), first)
			continue
		}
		seen[key] = at.line
		out = append(out, pair{key, at, m.Value})
	}
	return out
}

func (d *Doc) structure(n ast.Node, v reflect.Value, w Path) {
	fields := d.fields[v.Type()]
	for _, p := range d.pairs(n, w) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == p.key })
		if i < 0 {
			d.unknown(p, fields, w)
			continue
		}
		sub := w.Key(p.key)
		d.spots[sub] = spot{p.place, placeOf(p.value)}
		d.value(p.value, fields[i].Of(v), sub, &fields[i])
	}
}

func (d *Doc) unknown(p pair, fields []Field, w Path) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	d.report(p.place, "Known here: "+strings.Join(keys, ", ")+".", "unknown key %s%s", quote(p.key), Meant(p.key, keys))
	if likely := nearest(p.key, keys); likely != "" {
		d.forget(w.Key(likely)) // it is not missing, only misspelt
	}
	if w != "" {
		d.forget(w) // what it lacks may be what was meant
	}
}

// tooMany reports a list or a set of keys that is too long to be meant.
func (d *Doc) tooMany(n ast.Node, have int, w Path, f *Field) bool {
	most := d.opts.Entries
	if f != nil && f.max > 0 {
		most = f.max
	}
	if most == 0 || have <= most {
		return false
	}
	d.fail(placeOf(n), w, "", "%s has %d entries; at most %d", w, have, most)
	return true
}

func (d *Doc) mapping(n ast.Node, v reflect.Value, w Path, f *Field) {
	t := v.Type()
	pairs := d.pairs(n, w)
	if d.tooMany(n, len(pairs), w, f) {
		return
	}
	m := reflect.MakeMapWithSize(t, len(pairs))
	for _, p := range pairs {
		key := reflect.New(t.Key()).Elem()
		if t.Key().Kind() == reflect.Int {
			k, err := strconv.ParseInt(p.key, 10, 32)
			if err != nil {
				d.report(p.place, "", "key %s is not a whole number", quote(p.key))
				continue
			}
			key.SetInt(k)
		} else {
			key.SetString(p.key)
		}
		sub := w.Key(p.key)
		d.spots[sub] = spot{p.place, placeOf(p.value)}
		val := reflect.New(t.Elem()).Elem()
		d.value(p.value, val, sub, f)
		m.SetMapIndex(key, val)
	}
	v.Set(m)
}

func (d *Doc) list(n ast.Node, v reflect.Value, w Path, f *Field) {
	s, ok := n.(*ast.SequenceNode)
	if !ok && f != nil && f.single {
		out := reflect.MakeSlice(v.Type(), 1, 1)
		d.value(n, out.Index(0), w, f)
		v.Set(out)
		return
	}
	if !ok {
		hint := ""
		if text, ok := scalar(n); ok {
			hint = "Write it as a list: [" + quote(text) + "]."
		}
		d.fail(placeOf(n), w, hint, "%s is %s; want a list", w, kindOf(n))
		return
	}
	if d.tooMany(n, len(s.Values), w, f) {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, item := range s.Values {
		sub := w.Item(i)
		at := placeOf(item)
		d.spots[sub] = spot{at, at}
		d.value(item, out.Index(i), sub, f)
	}
	v.Set(out)
}

func (d *Doc) unmarshal(n ast.Node, v encoding.TextUnmarshaler, w Path, f *Field) {
	s := d.text(n, w, f)
	if d.failed[w] {
		return
	}
	if err := v.UnmarshalText([]byte(s)); err != nil {
		d.fail(placeOf(n), w, "", "%s: %w", w, err)
	}
}

// text returns a text, or "" after a report.
func (d *Doc) text(n ast.Node, w Path, f *Field) string {
	s, ok := scalar(n)
	at := placeOf(n)
	switch {
	case !ok:
		d.fail(at, w, "", "%s is %s; want one value", w, kindOf(n))
	case d.opts.Text > 0 && len(s) > d.opts.Text:
		d.fail(at, w, "", "%s has %d bytes; at most %d", w, len(s), d.opts.Text)
	case plain(n) && strings.Contains(s, ": "):
		// No plain text has that: the reader took a colon in the key for its end.
		d.fail(at, w, "Put the key in quotes, all of it.", "the key before %s was cut at its first colon", quote(s))
	case !d.opts.Words && !isText(n):
		d.fail(at, w, "Put it in quotes: "+quote(s)+".", "%s is %s; want a text", w, kindOf(n))
	case !d.opts.Lines && strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }):
		d.fail(at, w, "", "%s has control characters: %s", w, quote(s))
	case f != nil && len(f.words) > 0 && !slices.Contains(f.words, s):
		d.fail(at, w, "", "%s is %s; want one of %s%s", w, kindOf(n), strings.Join(f.words, ", "), Meant(s, f.words))
	default:
		return s
	}
	return ""
}

// number reads a whole number in the one form that means the same everywhere: 010
// is eight to some.
func (d *Doc) number(n ast.Node, v reflect.Value, w Path, f *Field) {
	low, high := int64(math.MinInt32), int64(math.MaxInt32)
	want := "a whole number"
	if v.Kind() == reflect.Uint32 {
		low, high = 0, math.MaxUint32
	}
	if f != nil && f.bounded {
		low, high = f.low, f.high
	}
	if low != math.MinInt32 {
		want = fmt.Sprintf("a whole number from %d to %d", low, high)
	}
	s, ok := scalar(n)
	i, err := strconv.ParseInt(s, 10, 64)
	if !ok || err != nil || i < low || i > high || strconv.FormatInt(i, 10) != s || !d.opts.Words && isText(n) {
		d.fail(placeOf(n), w, "", "%s is %s; want %s", w, kindOf(n), want)
		return
	}
	if v.Kind() == reflect.Uint32 {
		v.SetUint(uint64(i))
		return
	}
	v.SetInt(i)
}

// scalar returns a single value as it was written: a text field takes 550, 0660
// and 550.10 as the letters that stand there.
func scalar(n ast.Node) (string, bool) {
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

// plain reports whether a text stands there without quotes.
func plain(n ast.Node) bool {
	s, ok := n.(*ast.StringNode)
	return ok && s.Token.Type == token.StringType
}

// isText reports whether a value is a text to other readers of YAML too.
func isText(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return true
	}
	return false
}

// kindOf says what stands there.
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
	case *ast.TagNode:
		return "a tag"
	default:
		s, ok := scalar(n)
		switch {
		case !ok:
			return "something else"
		case isText(n):
			return quote(s)
		}
		return short(s)
	}
}

// quote returns a text in quotes for a message, short where it is long.
func quote(s string) string { return strconv.Quote(short(s)) }

func short(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
