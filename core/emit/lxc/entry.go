package lxc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpurig/core/device"
	"gpurig/core/plan"
)

// An Entry is one key of configuration. Value is a Text, Mount, Rule, Var, Groups or
// Command.
type Entry struct {
	Key   string // "lxc.mount.entry"
	Value fmt.Stringer
}

// String returns the line, without its end.
func (e Entry) String() string { return e.Key + " = " + e.Value.String() }

// Entries are entries in the order in which liblxc reads them.
type Entries []Entry

// Lines returns "key = value" of each.
func (es Entries) Lines() []string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.String()
	}
	return lines
}

// A Text is a value that has no parts.
type Text string

func (t Text) String() string { return string(t) }

// A Mount is the value of lxc.mount.entry. A bind mount has the type "none".
type Mount struct {
	Node    *plan.Node // that is mounted; nil: a mount of the plan
	Source  string     // on the host, with Options.HostRoot; of a tmpfs "tmpfs"
	Target  string     // where it really is in the image
	Type    string
	Options []string
	Create  string // what liblxc makes at a missing target: "file", "dir" or, empty, nothing
}

// fields returns those of fstab(5). liblxc ignores an absolute target, so it is
// relative to the root.
func (m Mount) fields() [6]string {
	options := strings.Join(m.Options, ",")
	if m.Create != "" {
		options += ",create=" + m.Create
	}
	return [6]string{m.Source, strings.TrimPrefix(m.Target, "/"), m.Type, options, "0", "0"}
}

func (m Mount) String() string {
	f := m.fields()
	return strings.Join([]string{escaper.Replace(f[0]), escaper.Replace(f[1]), f[2], f[3], f[4], f[5]}, " ")
}

// A Rule is the value of a device cgroup's allow or deny. The zero Rule means all
// devices.
type Rule struct {
	Type   device.Type
	Num    device.Num
	Access string // of "rwm"
}

func (r Rule) String() string {
	if r == (Rule{}) {
		return "a"
	}
	return fmt.Sprintf("%s %s %s", r.Type, r.Num, r.Access)
}

// A Var is one variable of the container's environment.
type Var plan.Var

func (v Var) String() string { return v.Name + "=" + v.Value }

// Groups are the additional groups of the first process.
type Groups []uint32

func (g Groups) String() string {
	ids := make([]string, len(g))
	for i, id := range g {
		ids[i] = strconv.FormatUint(uint64(id), 10)
	}
	return strings.Join(ids, ",")
}

// A Command is what a hook of liblxc runs.
type Command struct{ Path, Arg string }

func (c Command) String() string { return c.Path + " " + c.Arg }

// maxLine is how long a line may be: liblxc reads a mount entry into a buffer of
// 4096 bytes and ignores the rest silently.
const maxLine = 4000

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// add adds one entry. Every entry is added here: what could end its line or be read
// as something else is refused.
func (e *emitter) add(key string, value fmt.Stringer) {
	entry := Entry{key, value}
	switch err := check(entry); {
	case errors.Is(err, errLong):
		e.Refuse(ReasonLong, key, "%+.256q: %v", value, err)
	case err != nil:
		e.Refuse(ReasonLine, key, "%+.256q: %v", value, err)
	default:
		e.config.Entries = append(e.config.Entries, entry)
	}
}

// check reads an entry's line by liblxc's rules, and says what is not read as it is
// meant.
func check(e Entry) error {
	text, value := e.String(), e.Value.String()
	if why := textProblem(text); why != "" {
		return errors.New(why)
	}
	if len(text) > maxLine {
		return errLong
	}
	if k, v, ok := readLine(text); !ok || k != e.Key || v != value {
		return fmt.Errorf("liblxc would read key %q, value %+.256q", k, v)
	}
	m, ok := e.Value.(Mount)
	if !ok {
		return nil
	}
	fields, err := readEntry(value)
	if err == nil && (fields != m.fields() || fields[1] == "" || fields[1][0] == '/') {
		err = fmt.Errorf("liblxc would read %+.256q", fields)
	}
	return err
}

// readLine reads a line of configuration as liblxc does (parse_line in its
// confile.c): blanks around the line, key and value go, a comment or a line
// that has no key of lxc is skipped, and one pair of quotes around a value goes.
func readLine(text string) (key, value string, ok bool) {
	const blank = " \t\n\v\f\r"
	text = strings.Trim(text, blank)
	if text == "" || text[0] == '#' || !strings.HasPrefix(text, "lxc.") {
		return "", "", false
	}
	key, value, ok = strings.Cut(text, "=")
	if !ok {
		return "", "", false
	}
	key, value = strings.Trim(key, blank), strings.Trim(value, blank)
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return key, value, true
}

// escaper writes a path for a field of fstab(5).
var escaper = strings.NewReplacer(`\`, `\134`, " ", `\040`)

// readEntry reads the six fields of a mount entry as getmntent(3) of glibc does:
// leading blanks go, "#" starts a comment, fields are separated by blanks, and
// \040, \011, \012, \134 and a doubled backslash are decoded in each.
func readEntry(s string) ([6]string, error) {
	var out [6]string
	s = strings.TrimLeft(s, " \t")
	if s == "" || s[0] == '#' {
		return out, errors.New("liblxc would read a comment")
	}
	fields := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) != len(out) {
		return out, fmt.Errorf("liblxc would read %d fields", len(fields))
	}
	for i, f := range fields {
		out[i] = decode(f)
	}
	return out, nil
}

// decode reverses what getmntent reverses, from left to right.
func decode(s string) string { return decoder.Replace(s) }

var decoder = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\\`, `\`)

// textProblem says what in s could end a line or be read as something else (R8).
func textProblem(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			return fmt.Sprintf("has the control character %U", r)
		}
	}
	return ""
}
