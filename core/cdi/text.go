package cdi

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// cleanText returns data as UTF-8 without byte order mark and with plain line
// feeds, or says where it has what a person reviewing the file would not see.
func cleanText(data []byte) ([]byte, mark, string) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return nil, mark{1, 1}, "the file is UTF-16, a Spec is UTF-8"
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	at := mark{1, 1}
	for i := 0; i < len(data); {
		if c := data[i]; c >= ' ' && c < 0x7f {
			i, at.col = i+1, at.col+1
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, at, fmt.Sprintf("the byte 0x%02x is not UTF-8", data[i])
		}
		if why := hidden(r); why != "" && r != '\n' && r != '\t' {
			return nil, at, why
		}
		i, at.col = i+n, at.col+1
		if r == '\n' {
			at = mark{at.line + 1, 1}
		}
	}
	return data, mark{}, ""
}

// hidden returns why a character must not be in a Spec, or "": control
// characters and those that change how the text around them is displayed.
func hidden(r rune) string {
	switch {
	case r < 0x20, 0x7f <= r && r <= 0x9f:
		return fmt.Sprintf("control character U+%04X", r)
	case r == 0x061c, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return fmt.Sprintf("character U+%04X, which changes the direction of text", r)
	case 0x200b <= r && r <= 0x200d, r == 0x2060, r == 0xfeff, r == 0x00ad:
		return fmt.Sprintf("invisible character U+%04X", r)
	case r == 0x2028, r == 0x2029:
		return fmt.Sprintf("line separator U+%04X", r)
	}
	return ""
}

// hiddenIn returns why a value must not be in a Spec: escapes can make what
// cleanText has refused in the file.
func hiddenIn(s string) string {
	for _, r := range s {
		if r >= ' ' && r < 0x7f {
			continue
		}
		if r == utf8.RuneError {
			return "an escape that is no character"
		}
		if why := hidden(r); why != "" {
			return why
		}
	}
	return ""
}
