package driverctl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Reply answers one request.
type Reply struct {
	Code   nvml.Return // SUCCESS, or what the NVML call returns
	Values []int       // on success: as package comment has them
	Text   string      // on failure: why, for whoever reads logs
}

// OK makes a reply of success.
func OK(values ...int) Reply { return Reply{Values: values} }

// Refuse makes a reply of failure.
func Refuse(code nvml.Return, format string, args ...any) Reply {
	return Reply{Code: code, Text: fmt.Sprintf(format, args...)}
}

// String is the reply's line, without its newline and never longer than MaxLine
// allows.
func (r Reply) String() string {
	if r.Code == nvml.SUCCESS {
		var s strings.Builder
		s.WriteString("ok")
		for _, v := range r.Values {
			fmt.Fprintf(&s, " %d", v)
		}
		return s.String()
	}
	line := fmt.Sprintf("error %d %s", int(r.Code), strings.Map(printable, r.Text))
	if len(line) >= MaxLine {
		line = strings.ToValidUTF8(line[:MaxLine-1], "")
	}
	return strings.TrimSpace(line)
}

// printable keeps a text on one line.
func printable(c rune) rune {
	if c < ' ' || c == 0x7f {
		return ' '
	}
	return c
}

// ParseReply reads a reply's line. The error is a *SyntaxError.
func ParseReply(line string) (Reply, error) {
	bad := func(why string) (Reply, error) {
		return Reply{}, &SyntaxError{Line: line[:min(len(line), MaxLine)], Why: why}
	}
	if len(line) >= MaxLine {
		return bad("too long")
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "ok":
		var r Reply
		if rest == "" {
			return r, nil
		}
		for part := range strings.SplitSeq(rest, " ") {
			n, ok := decimal(part)
			if !ok {
				return bad(fmt.Sprintf("%q is not a number from 0 to %d", part, maxNumber))
			}
			r.Values = append(r.Values, n)
		}
		return r, nil
	case "error":
		number, text, _ := strings.Cut(rest, " ")
		code, err := strconv.ParseInt(number, 10, 32)
		if err != nil || code <= 0 {
			return bad(fmt.Sprintf("%q is no code of NVML", number))
		}
		return Reply{Code: nvml.Return(code), Text: text}, nil
	}
	return bad("neither ok nor error")
}
