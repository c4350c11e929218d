package observe

import (
	"fmt"
	"strings"
)

// ParseMountinfo reads /proc/PID/mountinfo (proc_pid_mountinfo(5)). A line that
// it cannot read is an error that quotes it; there is no partial answer.
func ParseMountinfo(text string) ([]MountLine, error) {
	var out []MountLine
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		m, err := parseMountLine(line)
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d, %q: %w", i+1, line, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// parseMountLine reads
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// where any number of tags, each with a letter, may stand before the dash.
func parseMountLine(line string) (MountLine, error) {
	f := strings.Split(line, " ")
	if len(f) < 10 {
		return MountLine{}, fmt.Errorf("%d fields, want 10 or more", len(f))
	}
	dash := 6
	for dash < len(f) && f[dash] != "-" {
		dash++
	}
	if dash+3 >= len(f) {
		return MountLine{}, fmt.Errorf(`no file system type after "-"`)
	}
	target, err := unescapeOctal(f[4])
	if err != nil {
		return MountLine{}, err
	}
	if !strings.HasPrefix(target, "/") {
		return MountLine{}, fmt.Errorf("mount point %q is not absolute", target)
	}
	root, err := unescapeOctal(f[3])
	if err != nil {
		return MountLine{}, err
	}
	return MountLine{Root: root, Target: target, Type: f[dash+1], Options: strings.Split(f[5], ",")}, nil
}

// unescapeOctal undoes the kernel's mangle_path: space, tab, newline and
// backslash are written as a backslash and three octal digits.
func unescapeOctal(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 >= len(s) {
			return "", fmt.Errorf("%q ends inside an escape", s)
		}
		n := 0
		for _, c := range s[i+1 : i+4] {
			if c < '0' || c > '7' {
				return "", fmt.Errorf("%q has an escape that is not three octal digits", s)
			}
			n = n*8 + int(c-'0')
		}
		if n > 255 {
			return "", fmt.Errorf("%q has an escape above 255", s)
		}
		b.WriteByte(byte(n))
		i += 3
	}
	return b.String(), nil
}
