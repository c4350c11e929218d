package hook

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// How much is said. LXC stops reading after a few blocks of output and then
// waits for an exit that cannot come, so all of it stays below 8 KiB, and notes
// leave room for the error that comes last.
const (
	maxOutput = 8 << 10
	maxNotes  = 16
	maxLine   = 256
)

// say prints the notes and the error of a run.
func say(w io.Writer, notes []string, err error) {
	for i, n := range notes {
		if i == maxNotes {
			fmt.Fprintf(w, "cdi-hook: note: and %d more\n", len(notes)-i)
			break
		}
		fmt.Fprintf(w, "cdi-hook: note: %s\n", printable(n))
	}
	if err == nil {
		return
	}
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", printable(hint))
	}
	fmt.Fprintf(w, "cdi-hook: %s\n", printable(err.Error()))
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*UsageError](err); ok {
		return e.Hint
	}
	if e, ok := errors.AsType[*HintError](err); ok {
		return e.Hint
	}
	return ""
}

// limited passes on so many bytes and drops the rest. It is safe for concurrent
// use: a worker that is left to itself may still talk.
type limited struct {
	w    io.Writer
	mu   sync.Mutex
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(p), l.left)
	l.left -= n
	if n > 0 {
		l.w.Write(p[:n]) // nobody to tell: this is where errors are told
	}
	return len(p), nil
}

// printable escapes what a terminal or a log would act on, and cuts in the
// middle: names come from the image, and the reason stands at the end.
func printable(s string) string {
	const room = 4 * maxLine
	if len(s) > room {
		s = s[:room/2] + " ... " + s[len(s)-room/2:]
	}
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
