// Package show prints untrusted text for people: control characters that would
// affect a terminal or a log are escaped.
//
// Names come from machines, recordings, images, Specs and reports. An escape
// sequence in a name could recolour, overwrite or answer a terminal; a line break
// could forge a line of ours. There are two layers. Fprintf and the like are fmt's,
// but print each argument as one line of printable characters: only the
// format, which is ours, breaks lines and makes columns. Below them, a Writer lets no
// control character through, whoever wrote it. Escapes are Go's:
// \x1b, \n, \u202e. Nothing is unescaped, so this is for people; programs read JSON.
package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line of printable characters.
func Line(s string) string { return escape(s, strconv.IsPrint) }

// Text is Line for a text of several lines, whose breaks and tabs stay.
func Text(s string) string {
	return escape(s, func(r rune) bool { return r == '\n' || r == '\t' || strconv.IsPrint(r) })
}

// escape writes the runes that may not stay, and bytes that are no UTF-8, as escapes.
func escape(s string, stays func(rune) bool) string {
	var b strings.Builder
	for from := 0; from < len(s); {
		r, n := utf8.DecodeRuneInString(s[from:])
		switch part := s[from : from+n]; {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[from])
		case stays(r):
			b.WriteString(part)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		from += n
	}
	return b.String()
}

// Fprintf is fmt.Fprintf with values that are shown.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return io.WriteString(w, Sprintf(format, args...))
}

// Sprintf is fmt.Sprintf with values that are shown.
func Sprintf(format string, args ...any) string {
	if false {
		return fmt.Sprintf(format, args...) // tells go vet which arguments the format takes
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = value{a}
		if _, number := a.(int); number {
			values[i] = a // which can also be the width of what follows
		}
	}
	return fmt.Sprintf(format, values...)
}

// Fprintln writes values, with a space between them, as one line.
func Fprintln(w io.Writer, args ...any) (int, error) {
	return io.WriteString(w, Line(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))+"\n")
}

// WriteText writes a text of several lines, see Text.
func WriteText(w io.Writer, s string) error {
	_, err := io.WriteString(w, Text(s))
	return err
}

// A value is an argument that is formatted as ever, and then shown.
type value struct{ of any }

// Format is part of fmt.Formatter.
func (v value) Format(f fmt.State, verb rune) {
	io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), v.of))) // a State takes all there is
}

// A Writer passes on what is written to it without control characters: all but line
// breaks and tabs are escaped, and so are bytes that are no UTF-8, which older terminals
// take for such characters. A character that is cut between two writes counts as bytes.
type Writer struct{ to io.Writer }

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write is part of io.Writer. It counts what it was given, not what that became.
func (w *Writer) Write(p []byte) (int, error) {
	s := escape(string(p), func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) })
	if _, err := io.WriteString(w.to, s); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Control writes what w's terminal is to obey. It must be a constant of the program's.
func Control(w io.Writer, sequence string) {
	if shown, ok := w.(*Writer); ok {
		w = shown.to
	}
	io.WriteString(w, sequence) // as with any decoration, nobody needs to hear that it failed
}

// JSON returns a JSON text with all that is not printable escaped: the same values, in
// a text that is safe to look at.
func JSON(data []byte) []byte {
	var out []byte
	done := 0
	for at := 0; at < len(data); {
		r, n := utf8.DecodeRune(data[at:])
		if r != '\n' && !strconv.IsPrint(r) && r != utf8.RuneError { // can only be within a string
			out = append(out, data[done:at]...)
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
			done = at + n
		}
		at += n
	}
	if done == 0 {
		return data
	}
	return append(out, data[done:]...)
}
