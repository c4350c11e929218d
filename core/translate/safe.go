//go:build !naive

package translate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

// What a Spec's text and the host's mounts are held against. The tests' negative
// control, naive.go, stands in for it.

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

// submount returns a mount point below the directory p; empty: none. A host
// whose mounts cannot be read (a tree that is not the running machine's) has
// none.
func (l *look) submount(p string) (string, error) {
	if !l.asked {
		l.asked = true
		data, err := l.root.ReadFile("/proc/self/mountinfo")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read /proc/self/mountinfo: %w", err)
		}
		l.mounts = mountPoints(string(data))
	}
	below := strings.TrimSuffix(p, "/") + "/"
	if i, _ := slices.BinarySearch(l.mounts, below); i < len(l.mounts) && l.mounts[i] != p && strings.HasPrefix(l.mounts[i], below) {
		return l.mounts[i], nil
	}
	return "", nil
}

// known reports whether a mount option is one of the policy's.
func (p *part) known(option string) bool { return p.opts.Policy.Option(option) }
