package cdi

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/refuse"
	"gpurig/core/strictdoc"
	"gpurig/core/suggest"
)

// A decoder turns a tree into a Spec and collects what is wrong, all at once.
//
// A text field takes the text of any single value but null, so that
// "name: 0" is the device "0", in YAML as in JSON, and "no" is "no". A number
// field takes decimal digits without quotes. See mode for file modes.
type decoder struct{ found findings }

// findings are the first problems of a Spec and the number of the others.
type findings struct {
	problems []fieldProblem
	more     int
}

func (f *findings) add(p fieldProblem, msg string, args ...any) {
	if len(f.problems) == maxProblems {
		f.more++
		return
	}
	p.msg = fmt.Sprintf(msg, args...)
	f.problems = append(f.problems, p)
}

// A fieldProblem is a problem of one field; at is zero where only the field is
// known.
type fieldProblem struct {
	field  string // "devices[1].containerEdits.deviceNodes[0].major"; empty: the whole Spec
	at     strictdoc.Place
	reason refuse.Reason
	msg    string
	hint   string
}

// A field of an object: its name, whether CDI requires it, and its reader.
type field struct {
	name     string
	required bool
	read     func(n *strictdoc.Node, path string)
}

func (d *decoder) problem(r refuse.Reason, n *strictdoc.Node, path, hint, format string, args ...any) {
	d.found.add(fieldProblem{field: path, at: n.At, reason: r, hint: hint}, format, args...)
}

// want reports whether n is of the kind k.
func (d *decoder) want(n *strictdoc.Node, path string, k strictdoc.Kind) bool {
	switch {
	case n.Kind == k:
		return true
	case n.Kind == strictdoc.Null:
		d.problem(ReasonSpecNull, n, path, "Leave the field out, or give it a value.", "is null")
	default:
		d.problem(ReasonSpecType, n, path, "", "is %s, want %s", describe(n), article(k))
	}
	return false
}

func describe(n *strictdoc.Node) string {
	if n.Kind == strictdoc.Text || n.Kind == strictdoc.Plain {
		return quote(n.Text)
	}
	return article(n.Kind)
}

func article(k strictdoc.Kind) string {
	if k == strictdoc.Object {
		return "an object"
	}
	return "a " + string(k)
}

// object reads the members of n that fields name and refuses all others.
func (d *decoder) object(n *strictdoc.Node, path string, fields ...field) {
	if !d.want(n, path, strictdoc.Object) {
		return
	}
	d.duplicates(n, path)
	for _, m := range n.Members {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.Key })
		if i < 0 {
			at := strictdoc.Node{At: m.At}
			d.problem(ReasonSpecUnknownField, &at, join(path, m.Key), nearField(m.Key, fields), "CDI has no field %s here", quote(m.Key))
			continue
		}
		fields[i].read(m.Value, join(path, m.Key))
	}
	for _, f := range fields {
		if f.required && !slices.ContainsFunc(n.Members, func(m strictdoc.Member) bool { return m.Key == f.name }) {
			d.problem(ReasonSpecMissingField, n, join(path, f.name), "", "is missing")
		}
	}
}

func (d *decoder) duplicates(n *strictdoc.Node, path string) {
	first := map[string]strictdoc.Member{}
	for _, m := range n.Members {
		folded := strings.ToLower(m.Key)
		before, twice := first[folded]
		if !twice {
			first[folded] = m
			continue
		}
		at := strictdoc.Node{At: m.At}
		d.problem(ReasonSpecDuplicateKey, &at, join(path, m.Key), "Keep one of the two.",
			"is written twice, first as %s on line %d", quote(before.Key), before.At.Line)
	}
}

func nearField(key string, fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if near := suggest.Nearest(key, names, 1); len(near) > 0 {
		return "Write " + near[0] + "."
	}
	return "The fields are " + strings.Join(names, ", ") + "."
}

// join appends a field's name to a path.
func join(path, name string) string {
	if len(name) > 80 || strings.ContainsAny(name, ". \"'[]") {
		name = quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// text reads a text field.
func (d *decoder) text(to *string) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if n.Kind != strictdoc.Plain && !d.want(n, path, strictdoc.Text) {
			return
		}
		if why := strictdoc.Hidden(n.Text); why != "" {
			d.problem(ReasonSpecEncoding, n, path, "", "has %s", why)
			return
		}
		*to = n.Text
	}
}

// list reads each item of a list.
func (d *decoder) list(read func(n *strictdoc.Node, path string)) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if !d.want(n, path, strictdoc.List) {
			return
		}
		for i, item := range n.Items {
			read(item, at(path, i))
		}
	}
}

func (d *decoder) texts(to *[]string) func(*strictdoc.Node, string) {
	return d.list(func(n *strictdoc.Node, path string) {
		var s string
		d.text(&s)(n, path)
		*to = append(*to, s)
	})
}

// annotations reads an object of texts, which may have line breaks and tabs.
func (d *decoder) annotations(to *map[string]string) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if !d.want(n, path, strictdoc.Object) {
			return
		}
		d.duplicates(n, path)
		*to = make(map[string]string, len(n.Members))
		for _, m := range n.Members {
			where := join(path, m.Key)
			if m.Value.Kind != strictdoc.Plain && !d.want(m.Value, where, strictdoc.Text) {
				continue
			}
			if why := strictdoc.Hidden(strings.NewReplacer("\n", "", "\t", "").Replace(m.Value.Text)); why != "" {
				d.problem(ReasonSpecEncoding, m.Value, where, "", "has %s", why)
			}
			(*to)[m.Key] = m.Value.Text
		}
	}
}

// number reads a decimal number. A number that no int64 holds is a problem of
// range, as is one outside least and most.
func (d *decoder) number(n *strictdoc.Node, path string, least, most int64) (int64, bool) {
	if n.Kind == strictdoc.Text || !d.single(n, path, "a number") {
		if n.Kind == strictdoc.Text {
			d.problem(ReasonSpecType, n, path, "Write the number without quotes.", "is the text %s, want a number", quote(n.Text))
		}
		return 0, false
	}
	if !isDecimal(n.Text) {
		d.problem(ReasonSpecType, n, path, "Write decimal digits.", "is %s, want a decimal number", quote(n.Text))
		return 0, false
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || v < least || v > most {
		d.problem(ReasonSpecNumber, n, path, "", "is %s, want %d to %d", quote(n.Text), least, most)
		return 0, false
	}
	return v, true
}

// single reports whether n is one value and not null.
func (d *decoder) single(n *strictdoc.Node, path, what string) bool {
	switch n.Kind {
	case strictdoc.Plain, strictdoc.Text:
		return true
	case strictdoc.Null:
		return d.want(n, path, strictdoc.Plain)
	}
	d.problem(ReasonSpecType, n, path, "", "is %s, want %s", describe(n), what)
	return false
}

// isDecimal reports whether s is a whole number that YAML 1.1, YAML 1.2 and
// JSON read alike: no leading zero, which means octal to some.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || len(s) > 1 && s[0] == '0' {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

const maxUint32 = 1<<32 - 1

func (d *decoder) int64(to *int64, most int64) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) { *to, _ = d.number(n, path, 0, most) }
}

func (d *decoder) uint32(to **uint32) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if v, ok := d.number(n, path, 0, maxUint32); ok {
			u := uint32(v)
			*to = &u
		}
	}
}

// mode reads a file mode. Three spellings mean the same: 438, as JSON and
// NVIDIA's toolkit write it; 0666, octal in YAML 1.1; 0o666, octal in YAML 1.2.
// A plain 666 is decimal, as everywhere else, and so above 0777 and refused.
func (d *decoder) mode(to **fs.FileMode) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if n.Kind == strictdoc.Plain {
			if v, ok := octal(n.Text); ok {
				d.setMode(to, n, path, v)
				return
			}
		}
		if v, ok := d.number(n, path, 0, 1<<32-1); ok {
			d.setMode(to, n, path, uint64(v))
		}
	}
}

func (d *decoder) setMode(to **fs.FileMode, n *strictdoc.Node, path string, v uint64) {
	if v > 0o777 {
		d.problem(ReasonSpecMode, n, path, modeHint(n.Text), "is %s, mode %#o: above 0777", quote(n.Text), v)
		return
	}
	m := fs.FileMode(v)
	*to = &m
}

// modeHint says how a mode is written whose octal digits stand there as if they
// were decimal.
func modeHint(text string) string {
	if v, err := strconv.ParseUint(text, 8, 32); err == nil && v <= 0o777 && isDecimal(text) {
		return fmt.Sprintf("Without a leading zero the number is decimal: write %d, or in YAML 0%s.", v, text)
	}
	return "Set-id and sticky bits have no meaning for a device node."
}

func octal(s string) (uint64, bool) {
	digits, ok := strings.CutPrefix(s, "0o")
	if !ok {
		digits, ok = strings.CutPrefix(s, "0")
	}
	if !ok || digits == "" || strings.Trim(digits, "01234567") != "" {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 8, 32)
	return v, err == nil
}

func (d *decoder) boolean(to *bool) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		if n.Kind == strictdoc.Plain && (n.Text == "true" || n.Text == "false") {
			*to = n.Text == "true"
			return
		}
		if n.Kind == strictdoc.Null {
			d.want(n, path, strictdoc.Plain)
			return
		}
		d.problem(ReasonSpecType, n, path, "", "is %s, want true or false", describe(n))
	}
}

// gids reads a list of group ids.
func (d *decoder) gids(to *[]uint32) func(*strictdoc.Node, string) {
	return d.list(func(n *strictdoc.Node, path string) {
		v, _ := d.number(n, path, 0, maxUint32)
		*to = append(*to, uint32(v))
	})
}

// pointers reads a list of objects that the Spec holds by pointer.
func pointers[T any](d *decoder, to *[]*T, read func(d *decoder, v *T, n *strictdoc.Node, path string)) func(*strictdoc.Node, string) {
	return d.list(func(n *strictdoc.Node, path string) {
		v := new(T)
		read(d, v, n, path)
		*to = append(*to, v)
	})
}
