package cudalib

import "context"

// BuildChecked is Build with more compiler flags, as a library of its own.
func BuildChecked(ctx context.Context, flags ...string) (string, error) {
	l := library()
	l.Flags = append(l.Flags, flags...)
	return l.Build(ctx, "")
}
