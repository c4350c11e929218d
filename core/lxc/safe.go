//go:build !naive

package lxc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What keeps a plan's text from meaning something else to liblxc. The tests'
// negative control, naive.go, stands in for it.

// mount adds one mount entry. source and target are absolute; the target is
// written relative to the root, as liblxc ignores an absolute one. fstype is
// "none" for a bind mount.
func (e *emitter) mount(source, target, fstype string, options []string) {
	rel := strings.TrimPrefix(target, "/")
	opts := strings.Join(options, ",")
	value := strings.Join([]string{escape(source), escape(rel), fstype, opts, "0", "0"}, " ")
	fields, err := readEntry(value)
	want := [6]string{source, rel, fstype, opts, "0", "0"}
	switch {
	case err != nil:
		e.Refuse(ReasonLine, target, "%v", err)
	case fields != want:
		e.Refuse(ReasonLine, target, "mount entry %s would be read as %q", cut(value), fields)
	case rel == "" || rel[0] == '/':
		e.Refuse(ReasonLine, target, "is not an absolute path with one slash at its start")
	default:
		e.line("lxc.mount.entry", value)
	}
}

// writeLine returns "key = value", or why liblxc would read something else.
func writeLine(key, value string) (string, error) {
	if why := textProblem(key + value); why != "" {
		return "", errors.New(why)
	}
	text := key + " = " + value
	if len(text) > maxLine {
		return "", errLong
	}
	k, v, ok := readLine(text)
	if !ok || k != key || v != value {
		return "", fmt.Errorf("liblxc would read key %q, value %s", k, cut(v))
	}
	return text, nil
}

// madeByLXC reports whether liblxc may make the mount point: it follows links of
// the image, and /dev is the only place that has none (A13).
func madeByLXC(at string) bool { return strings.HasPrefix(at, "/dev/") }

// known reports whether a mount option may be written. liblxc finds words of its
// own inside other words, so nothing else leaves here (A25).
func known(option string) bool { return slices.Contains(options, option) }

// knownTmpfs is known for what a tmpfs alone can have.
func knownTmpfs(option string) bool {
	return slices.Contains([]string{"strictatime", "relatime", "noatime"}, option) ||
		strings.HasPrefix(option, "mode=") && plain(option[5:]) || strings.HasPrefix(option, "size=") && plain(option[5:])
}

var options = []string{"ro", "rw", "nosuid", "nodev", "noexec", "bind", "private", "rprivate", "slave", "rslave"}

// plain reports whether s can stand on a line that a shell reads (A24).
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-", rune(c)) {
			return false
		}
	}
	return s != ""
}
