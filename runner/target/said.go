package target

import "strings"

// HookSaid returns what cdi-hook says went wrong, of all that a manager or runtime wrote: its
// last line that is no note, else the last. Lines of it may be in a line of somebody else's,
// their ends written as "\n". Empty: it said nothing.
func HookSaid(text string) string {
	const hook, note = "cdi-hook: ", "cdi-hook: note: "
	words := ""
	for line := range strings.Lines(strings.ReplaceAll(text, `\n`, "\n")) {
		_, said, ok := strings.Cut(line, hook)
		said = hook + strings.Trim(said, "\"\n ")
		if ok && (!strings.HasPrefix(said, note) || words == "" || strings.HasPrefix(words, note)) {
			words = said
		}
	}
	return words
}
