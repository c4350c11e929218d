//go:build !naive

package lxc

import (
	"errors"
	"fmt"
	"strings"

	"gpurig/core/place"
)

// What keeps a plan's text from meaning something else to liblxc. The tests'
// negative control, naive.go, stands in for it.

// check reads an entry's line by liblxc's rules, and says what is not read as it is
// meant.
func check(e Entry) error {
	text, value := e.String(), e.Value.String()
	if why := textProblem(text); why != "" {
		return errors.New(why)
	}
	if len(text) > maxLine {
		return errLong
	}
	if k, v, ok := readLine(text); !ok || k != e.Key || v != value {
		return fmt.Errorf("liblxc would read key %q, value %+.256q", k, v)
	}
	m, ok := e.Value.(Mount)
	if !ok {
		return nil
	}
	fields, err := readEntry(value)
	if err == nil && (fields != m.fields() || fields[1] == "" || fields[1][0] == '/') {
		err = fmt.Errorf("liblxc would read %+.256q", fields)
	}
	return err
}

// escape writes a path for a field of fstab(5).
func escape(s string) string { return escaper.Replace(s) }

// madeByLXC reports whether liblxc may make the mount point: it follows links of
// the image, and /dev is the only place that has none (A13).
func madeByLXC(at string) bool { return strings.HasPrefix(at, "/dev/") }

// allowed reports whether a mount option may be written (A25).
func allowed(m place.Mount, option string) bool { return m.Option(option) }

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
