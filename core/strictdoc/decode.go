package strictdoc

import (
	"encoding"
	"fmt"
	"gpurig/core/suggest"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
			panic("strictdoc: keys of " + t.String())
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
					panic("strictdoc: range of " + t.String() + "." + sf.Name)
				}
			}
			if m := sf.Tag.Get("max"); m != "" {
				if _, err := fmt.Sscan(m, &f.max); err != nil {
					panic("strictdoc: max of " + t.String() + "." + sf.Name)
				}
			}
			f.words = strings.Fields(sf.Tag.Get("words"))
			fields = append(fields, f)
			collect(sf.Type, all)
		}
		all[t] = fields
	case reflect.String, reflect.Bool, reflect.Int, reflect.Uint32:
	default:
		panic("strictdoc: " + t.String() + " cannot be read")
	}
}

// value decodes n into v. f is the field that v belongs to; nil: none.
func (d *Doc) value(n *Node, v reflect.Value, w Path, f *Field) {
	if n.Kind == Null {
		d.fail(n.At, w, "Leave the key out, or give it a value.", "%s has no value", w)
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
		if n.Kind == Plain && (n.Text == "true" || n.Text == "false") {
			v.SetBool(n.Text == "true")
			return
		}
		d.fail(n.At, w, "", "%s is %s; want true or false", w, kindOf(n))
	default:
		d.number(n, v, w, f)
	}
}

// members returns the keys of an object, each once. Anything else is reported.
func (d *Doc) members(n *Node, w Path) []Member {
	if n.Kind != Object {
		d.fail(n.At, w, "", "%s is %s; want keys with values", w, kindOf(n))
		return nil
	}
	out := make([]Member, 0, len(n.Members))
	seen := make(map[string]int, len(n.Members))
	for _, m := range n.Members {
		if first, twice := seen[m.Key]; twice {
			d.report(m.At, "Keep one of the two.", "key %s occurs twice; first in line %d", quote(m.Key), first)
			continue
		}
		seen[m.Key] = m.At.Line
		out = append(out, m)
	}
	return out
}

func (d *Doc) structure(n *Node, v reflect.Value, w Path) {
	fields := d.fields[v.Type()]
	for _, p := range d.members(n, w) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == p.Key })
		if i < 0 {
			d.unknown(p, fields, w)
			continue
		}
		sub := w.Key(p.Key)
		d.spots[sub] = spot{p.At, p.Value.At}
		d.value(p.Value, fields[i].Of(v), sub, &fields[i])
	}
}

func (d *Doc) unknown(p Member, fields []Field, w Path) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	d.report(p.At, "Known here: "+strings.Join(keys, ", ")+".", "unknown key %s%s", quote(p.Key), Meant(p.Key, keys))
	if likely := suggest.Nearest(p.Key, keys, 1); len(likely) > 0 {
		d.forget(w.Key(likely[0])) // it is not missing, only misspelt
	}
	if w != "" {
		d.forget(w) // what it lacks may be what was meant
	}
}

// tooMany reports a list or a set of keys that is too long to be meant.
func (d *Doc) tooMany(n *Node, have int, w Path, f *Field) bool {
	most := d.opts.Entries
	if f != nil && f.max > 0 {
		most = f.max
	}
	if most == 0 || have <= most {
		return false
	}
	d.fail(n.At, w, "", "%s has %d entries; at most %d", w, have, most)
	return true
}

func (d *Doc) mapping(n *Node, v reflect.Value, w Path, f *Field) {
	t := v.Type()
	members := d.members(n, w)
	if d.tooMany(n, len(members), w, f) {
		return
	}
	m := reflect.MakeMapWithSize(t, len(members))
	for _, p := range members {
		key := reflect.New(t.Key()).Elem()
		if t.Key().Kind() == reflect.Int {
			k, err := strconv.ParseInt(p.Key, 10, 32)
			if err != nil {
				d.report(p.At, "", "key %s is not a whole number", quote(p.Key))
				continue
			}
			key.SetInt(k)
		} else {
			key.SetString(p.Key)
		}
		sub := w.Key(p.Key)
		d.spots[sub] = spot{p.At, p.Value.At}
		val := reflect.New(t.Elem()).Elem()
		d.value(p.Value, val, sub, f)
		m.SetMapIndex(key, val)
	}
	v.Set(m)
}

func (d *Doc) list(n *Node, v reflect.Value, w Path, f *Field) {
	if n.Kind != List && f != nil && f.single {
		out := reflect.MakeSlice(v.Type(), 1, 1)
		d.value(n, out.Index(0), w, f)
		v.Set(out)
		return
	}
	if n.Kind != List {
		hint := ""
		if n.Kind == Text || n.Kind == Plain {
			hint = "Write it as a list: [" + quote(n.Text) + "]."
		}
		d.fail(n.At, w, hint, "%s is %s; want a list", w, kindOf(n))
		return
	}
	if d.tooMany(n, len(n.Items), w, f) {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		sub := w.Item(i)
		d.spots[sub] = spot{item.At, item.At}
		d.value(item, out.Index(i), sub, f)
	}
	v.Set(out)
}

func (d *Doc) unmarshal(n *Node, v encoding.TextUnmarshaler, w Path, f *Field) {
	s := d.text(n, w, f)
	if d.failed[w] {
		return
	}
	if err := v.UnmarshalText([]byte(s)); err != nil {
		d.fail(n.At, w, "", "%s: %w", w, err)
	}
}

// text returns a text, or "" after a report. Where Words are texts, 550, 0660 and
// 550.10 are the letters that stand there.
func (d *Doc) text(n *Node, w Path, f *Field) string {
	s, why := n.Text, Hidden(n.Text)
	switch {
	case n.Kind != Text && n.Kind != Plain:
		d.fail(n.At, w, "", "%s is %s; want one value", w, kindOf(n))
	case d.opts.Text > 0 && len(s) > d.opts.Text:
		d.fail(n.At, w, "", "%s has %d bytes; at most %d", w, len(s), d.opts.Text)
	case !d.opts.Words && !isText(n):
		d.fail(n.At, w, "Put it in quotes: "+quote(s)+".", "%s is %s; want a text", w, kindOf(n))
	case !d.opts.Lines && why != "":
		d.fail(n.At, w, "", "%s is %s, with %s", w, quote(s), why)
	case f != nil && len(f.words) > 0 && !slices.Contains(f.words, s):
		d.fail(n.At, w, "", "%s is %s; want one of %s%s", w, kindOf(n), strings.Join(f.words, ", "), Meant(s, f.words))
	default:
		return s
	}
	return ""
}

// number reads a whole number in the one form that means the same everywhere: 010
// is eight to some.
func (d *Doc) number(n *Node, v reflect.Value, w Path, f *Field) {
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
	i, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || i < low || i > high || strconv.FormatInt(i, 10) != n.Text || !d.opts.Words && isText(n) {
		d.fail(n.At, w, "", "%s is %s; want %s", w, kindOf(n), want)
		return
	}
	if v.Kind() == reflect.Uint32 {
		v.SetUint(uint64(i))
		return
	}
	v.SetInt(i)
}

// isText reports whether a value is a text to other readers too.
func isText(n *Node) bool { return n.Kind == Text || n.Word }

// kindOf says what stands there.
func kindOf(n *Node) string {
	switch n.Kind {
	case Object:
		return "a set of keys"
	case List:
		return "a list"
	case Null:
		return "empty"
	}
	if isText(n) {
		return quote(n.Text)
	}
	return short(n.Text)
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
