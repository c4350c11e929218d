package target

import "fmt"

// An EndedError says that a daemon that containers need has ended by itself. It is no
// answer of the product's: the verdict is broken.
type EndedError struct {
	Program string   // "lxd"
	How     string   // "exit status 2", "signal: killed"
	Words   string   // what it said of it, else the last that it said; empty: nothing
	Log     []string // its last lines, or, where it panicked, the first of that
}

func (e *EndedError) Error() string {
	if e.Words == "" {
		return fmt.Sprintf("%s ended: %s, without a word", e.Program, e.How)
	}
	return fmt.Sprintf("%s ended: %s; its last words: %s", e.Program, e.How, e.Words)
}

// Unwrap is part of the interface of package errors.
func (e *EndedError) Unwrap() error { return ErrBroken }
