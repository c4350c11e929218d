package target

import "fmt"

// Errors of calls that do not fit the state of a container, or of a virtual machine:
// the caller's mistake.
var (
	ErrRunning    = fmt.Errorf("it runs already: %w", ErrBroken)
	ErrNotRunning = fmt.Errorf("it does not run: %w", ErrBroken)
	ErrRemoved    = fmt.Errorf("it was removed: %w", ErrBroken)
)

// Startable says why what is in that state cannot be started, if it cannot.
func Startable(running, removed bool) error {
	switch {
	case removed:
		return ErrRemoved
	case running:
		return ErrRunning
	}
	return nil
}
