package live

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
)

// text is what a store function sees of data: a C string.
func text(data []byte) string {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		data = data[:i]
	}
	return string(data)
}

// sameName is sysfs_streq: equal, but for one newline at the end.
func sameName(s, name string) bool { return strings.TrimSuffix(s, "\n") == name }

var errRange = errors.New("numerical result out of range")

// kstrtoul reads a number as the kernel's kstrtoul does with base 0: decimal,
// "0x…" or "0…", one "+" before and one newline behind it. The error is errRange
// for a number that is more than limit, and another one for what is no number.
func kstrtoul(s string, limit uint64) (uint64, error) {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "+"), "\n")
	base := 10
	switch {
	case len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") && isHex(s[2]):
		base, s = 16, s[2:]
	case len(s) > 0 && s[0] == '0':
		base = 8
	}
	// ParseUint takes neither signs nor underscores with a base.
	n, err := strconv.ParseUint(s, base, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > limit {
		return 0, errRange
	}
	return n, err
}

// kstrtoint is the same for numbers with a sign, base 10.
func kstrtoint(s string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "\n"), 0, 32)
	if strings.Contains(s, "_") || n < math.MinInt32 {
		return 0, strconv.ErrSyntax
	}
	return int(n), err
}

// kstrtobool reads the first letters of a yes or a no; ok says whether it is one.
func kstrtobool(s string) (value, ok bool) {
	if s == "" {
		return false, false
	}
	switch s[0] {
	case 'y', 'Y', 't', 'T', '1':
		return true, true
	case 'n', 'N', 'f', 'F', '0':
		return false, true
	case 'o', 'O':
		if len(s) > 1 {
			switch s[1] {
			case 'n', 'N':
				return true, true
			case 'f', 'F':
				return false, true
			}
		}
	}
	return false, false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// scanHex is sscanf(s, "%x %x …") for up to limit numbers: space before each is
// skipped, "0x" may precede one, and it ends at the first that is none.
func scanHex(s string, limit int) []uint64 {
	var out []uint64
	for len(out) < limit {
		s = strings.TrimLeft(s, " \t\n\v\f\r\xa0")
		if s == "" || !isHex(s[0]) {
			break
		}
		if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && isHex(s[2]) {
			s = s[2:]
		}
		var n uint64
		for s != "" && isHex(s[0]) {
			d, err := strconv.ParseUint(s[:1], 16, 8)
			if err != nil {
				break
			}
			n, s = n<<4|d, s[1:]
		}
		out = append(out, n)
	}
	return out
}

// isUUID reports whether s is one, of 36 characters (uuid_is_valid).
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen != (s[i] == '-') || !hyphen && !isHex(s[i]) {
			return false
		}
	}
	return true
}
