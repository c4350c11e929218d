package translate

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// quote quotes input and keeps it short: an attacker chooses its length.
func quote(s string) string {
	if len(s) > 256 {
		s = s[:253] + "..."
	}
	return strconv.QuoteToASCII(s)
}

func sortedKeys[K ~string | ~uint32, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// pathProblem says what is wrong with an absolute path; empty: nothing. It is
// clean, not "/", within the kernel's lengths, and not deeper than any real one.
func pathProblem(p string) string {
	switch {
	case p == "":
		return "is empty"
	case p[0] != '/':
		return "is not absolute"
	case p == "/":
		return "is the root directory"
	case len(p) > maxPath:
		return fmt.Sprintf("is longer than %d bytes", maxPath)
	case path.Clean(p) != p:
		return fmt.Sprintf("is not clean: write %s", quote(path.Clean(p)))
	}
	if strings.Count(p, "/") > maxDepth {
		return fmt.Sprintf("is more than %d names deep", maxDepth)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return fmt.Sprintf("has a name longer than %d bytes", maxName)
		}
	}
	return ""
}

// text checks that s can stand in a configuration; it refuses and returns false
// when not. A path check is of no use before.
func (p *part) text(edit, field, s string) bool {
	why := textProblem(s)
	if why != "" {
		p.refuse(edit, ReasonText, "", "%s: %s %s", field, quote(s), why)
	}
	return why == ""
}

// textProblem says what in s would end or rewrite a line of a configuration, or
// deceive who reads it; empty: nothing.
func textProblem(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			return fmt.Sprintf("has the control character %U", r)
		}
		if r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\ufeff' {
			return fmt.Sprintf("has %U, which hides or turns text", r)
		}
	}
	return ""
}
