package show

import "strings"

// Command returns a command line that a POSIX shell takes apart into words again.
//
// Reference: POSIX.1-2017, XCU 2.2 "Quoting"
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if plain := func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
		}; w == "" || strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}
