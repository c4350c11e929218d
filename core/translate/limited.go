package translate

import (
	"errors"

	"gpurig/core/host"
)

// errSpent is all that a limited root says in the end. Nobody reads it: Edits
// refuses the whole.
var errSpent = errors.New("asked too often")

// A limited root answers maxLooks questions (P5). A name in a directory counts
// as one: it is read, and held against others.
type limited struct {
	host.Root
	asked int
}

func (m *limited) spent() bool { return m.asked > maxLooks }

func (m *limited) ask() error {
	if m.asked++; m.spent() {
		return errSpent
	}
	return nil
}

func (m *limited) Lstat(p string) (host.Info, error) {
	if err := m.ask(); err != nil {
		return host.Info{}, err
	}
	return m.Root.Lstat(p)
}

func (m *limited) Readlink(p string) (string, error) {
	if err := m.ask(); err != nil {
		return "", err
	}
	return m.Root.Readlink(p)
}

func (m *limited) ReadFile(p string) ([]byte, error) {
	if err := m.ask(); err != nil {
		return nil, err
	}
	return m.Root.ReadFile(p)
}

func (m *limited) ReadDir(p string) ([]string, error) {
	if err := m.ask(); err != nil {
		return nil, err
	}
	names, err := m.Root.ReadDir(p)
	m.asked += len(names)
	return names, err
}
