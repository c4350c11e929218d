package liblxc

import (
	"errors"
	"slices"
	"strings"
)

// An Entry is one lxc.mount.entry, unescaped.
type Entry struct {
	Source  string
	Target  string // as written: relative to the root, or absolute
	Type    string
	Options []string
}

// ParseEntry reads a line as getmntent(3) does: fields between spaces and tabs,
// with space, tab, newline and backslash as octal escapes. Missing last fields
// are empty.
func ParseEntry(s string) (Entry, error) {
	var e Entry
	f := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(f) < 2 {
		return e, errors.New("want a source and a target")
	}
	for i, to := range []*string{&e.Source, &e.Target, &e.Type} {
		if i < len(f) {
			*to = decodeMnt(f[i])
		}
	}
	if len(f) > 3 {
		e.Options = strings.Split(decodeMnt(f[3]), ",")
	}
	return e, nil
}

// decodeMnt undoes the four escapes that getmntent knows; any other backslash
// stays (glibc misc/mntent_r.c, decode_name).
func decodeMnt(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\\`, `\`).Replace(s)
}

// Has reports whether an option is there.
func (e Entry) Has(option string) bool { return slices.Contains(e.Options, option) }

// Optional reports whether a failure of this entry is passed over.
func (e Entry) Optional() bool { return e.Has("optional") }

// Create returns "file", "dir", or "" for an entry whose mount point must be there.
func (e Entry) Create() string {
	switch {
	case e.Has("create=dir"):
		return "dir"
	case e.Has("create=file"):
		return "file"
	}
	return ""
}

// Flags returns the mount flags that the finished mount has, of ro, nosuid,
// nodev and noexec, given those of the file system that the source lies on.
//
// liblxc binds first, and a bind takes no flags but its source's. It mounts
// again with the flags of the entry only if the entry says "ro", or if the
// source has flags that the entry does not name (conf.c, mount_entry). So
// "bind,nosuid,nodev" on an ordinary source comes out without either. Its
// "remount" does nothing: parse_vfs_attr ignores it.
func (e Entry) Flags(source []string) []string {
	var asked []string
	for _, o := range e.Options {
		switch o {
		case "ro", "nosuid", "nodev", "noexec":
			asked = append(asked, o)
		case "rw", "suid", "dev", "exec":
			asked = slices.DeleteFunc(asked, func(a string) bool { return a == opposite[o] })
		}
	}
	extra := slices.ContainsFunc(source, func(s string) bool {
		// A source's nodev does not count for an entry that says "dev".
		return !slices.Contains(asked, s) && !(s == "nodev" && e.Has("dev"))
	})
	if !extra && !slices.Contains(asked, "ro") {
		return sorted(source)
	}
	for _, s := range source {
		if s != "nodev" || !e.Has("dev") {
			asked = append(asked, s)
		}
	}
	return sorted(asked)
}

var opposite = map[string]string{"rw": "ro", "suid": "nosuid", "dev": "nodev", "exec": "noexec"}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
