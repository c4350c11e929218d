package target

import "fmt"

// Errors of calls that do not fit a container's state: the caller's mistake.
var (
	ErrRunning    = fmt.Errorf("the container is running: %w", ErrBroken)
	ErrNotRunning = fmt.Errorf("the container is not running: %w", ErrBroken)
	ErrRemoved    = fmt.Errorf("the container was removed: %w", ErrBroken)
)

// Startable says why a container in that state cannot be started, if it cannot.
func Startable(running, removed bool) error {
	switch {
	case removed:
		return ErrRemoved
	case running:
		return ErrRunning
	}
	return nil
}
