package lxc

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxLine is how long a line may be: liblxc reads a mount entry into a buffer of
// 4096 bytes and drops the rest without a word.
const maxLine = 4000

// line adds one line. Every line leaves through here: what could end a line or
// be read otherwise is refused, and the text is read back by liblxc's rules and
// compared with what was meant.
func (e *emitter) line(key, value string) {
	text, err := writeLine(key, value)
	switch {
	case errors.Is(err, errLong):
		e.Refuse(ReasonLong, key, "%s: %v", cut(value), err)
	case err != nil:
		e.Refuse(ReasonLine, key, "%s: %v", cut(value), err)
	default:
		e.config.Lines = append(e.config.Lines, text)
	}
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

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

// escape writes a path for a field of fstab(5).
func escape(s string) string { return escaper.Replace(s) }

var escaper = strings.NewReplacer(`\`, `\134`, " ", `\040`)

// readEntry reads the six fields of a mount entry as getmntent(3) of glibc does:
// leading blanks go, "#" starts a comment, fields are parted by blanks, and
// \040, \011, \012, \134 and a doubled backslash are decoded in each.
func readEntry(s string) ([6]string, error) {
	var out [6]string
	s = strings.TrimLeft(s, " \t")
	if s == "" || s[0] == '#' {
		return out, errors.New("a mount entry that is a comment")
	}
	fields := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) != len(out) {
		return out, fmt.Errorf("a mount entry with %d fields", len(fields))
	}
	for i, f := range fields {
		out[i] = decode(f)
	}
	return out, nil
}

// decode undoes what getmntent undoes, from left to right.
func decode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		rest := s[i:]
		n, c := 1, s[i]
		switch {
		case strings.HasPrefix(rest, `\040`):
			n, c = 4, ' '
		case strings.HasPrefix(rest, `\011`):
			n, c = 4, '\t'
		case strings.HasPrefix(rest, `\012`):
			n, c = 4, '\n'
		case strings.HasPrefix(rest, `\134`):
			n, c = 4, '\\'
		case strings.HasPrefix(rest, `\\`):
			n, c = 2, '\\'
		}
		b.WriteByte(c)
		i += n
	}
	return b.String()
}

// textProblem says what in s could end a line or be read otherwise (R8).
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

// cut quotes input and keeps it short.
func cut(s string) string {
	if len(s) > 256 {
		s = s[:253] + "..."
	}
	return fmt.Sprintf("%+q", s)
}
