package ldcache

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ConfFile is where ldconfig reads its folders from.
const ConfFile = "/etc/ld.so.conf"

// Limits of one Conf.
const (
	MaxConfDepth   = 8   // of includes
	MaxConfFiles   = 256 // that are read
	MaxFolders     = 256
	maxConfSize    = 1 << 20
	maxConfLine    = maxPath + 256
	maxGlobEntries = 4096 // names that the globs of one Conf may look at
)

// Conf returns the folders to scan, in order and each once: those of
// /etc/ld.so.conf and of the files that it includes, then the default ones. A
// root without that file has the default ones only.
//
// Skipped says what was left out and why. Only regular files are read, an
// include of itself ends there.
func Conf(v View) (folders []string, skipped []Skip) {
	c := conf{View: v, open: map[string]bool{}}
	c.file(ConfFile, 0)
	for _, dir := range defaultFolders(v) {
		c.add(ConfFile, dir)
	}
	return c.folders, c.skipped
}

// defaultFolders are those built into ldconfig. That of a multiarch distribution has
// the folders of its own architecture first, and leaves lib64 to the loader alone
// (seen with Debian's of glibc 2.36). Its C library tells: the folders themselves may
// be there for the driver alone.
func defaultFolders(v View) []string {
	for _, tuple := range []string{"x86_64-linux-gnu", "aarch64-linux-gnu", "i386-linux-gnu"} {
		if _, _, err := resolve(v, "/lib/"+tuple+"/libc.so.6"); err == nil {
			return []string{"/lib/" + tuple, "/usr/lib/" + tuple, "/lib", "/usr/lib"}
		}
	}
	out := []string{"/lib", "/usr/lib"}
	for i, dir := range []string{"/lib64", "/usr/lib64"} {
		if _, _, err := resolve(v, dir); err == nil {
			out = slices.Insert(out, 2*i+1, dir)
		}
	}
	return out
}

type conf struct {
	View
	open    map[string]bool // files being read, resolved
	files   int
	globbed int
	folders []string
	skipped []Skip
}

func (c *conf) skip(p string, err error) {
	if len(c.skipped) < MaxSkips {
		c.skipped = append(c.skipped, Skip{Path: p, Err: err})
	}
}

func (c *conf) add(from, dir string) {
	switch {
	case !ValidPath(dir):
		c.skip(from, fmt.Errorf("folder %q is not an absolute, printable path", dir))
	case slices.Contains(c.folders, dir):
	case len(c.folders) >= MaxFolders:
		c.skip(from, fmt.Errorf("folder %s: %w of %d folders", dir, ErrLimit, MaxFolders))
	default:
		c.folders = append(c.folders, dir)
	}
}

// file reads one file.
func (c *conf) file(name string, depth int) {
	real, info, err := resolve(c, name)
	switch {
	case err != nil:
		if depth > 0 || !missing(err) { // there need be no ld.so.conf
			c.skip(name, err)
		}
		return
	case !info.Mode.IsRegular():
		c.skip(name, fmt.Errorf("not a regular file: %s", info.Mode.Type()))
		return
	case info.Size > maxConfSize:
		c.skip(name, fmt.Errorf("%d bytes: %w of %d", info.Size, ErrLimit, maxConfSize))
		return
	case c.open[real]:
		c.skip(name, fmt.Errorf("%s includes itself", real))
		return
	case depth > MaxConfDepth:
		c.skip(name, fmt.Errorf("%w of %d nested includes", ErrLimit, MaxConfDepth))
		return
	case c.files >= MaxConfFiles:
		c.skip(name, fmt.Errorf("%w of %d files", ErrLimit, MaxConfFiles))
		return
	}
	c.files++
	data, err := c.ReadFile(real)
	if err != nil {
		c.skip(name, err)
		return
	}
	c.open[real] = true
	c.text(name, string(data), depth)
	delete(c.open, real)
}

// text reads the lines of one file. Only "include" is a word; "hwcap" lines and
// "=libc5" at the end of a folder are history.
func (c *conf) text(name, data string, depth int) {
	for n, line := range strings.Split(data, "\n") {
		line, _, _ = strings.Cut(line, "\x00") // a line is a C string to ldconfig
		line, _, _ = strings.Cut(line, "#")
		line = strings.Trim(line, " \t\r\v\f")
		where := fmt.Sprintf("%s:%d", name, n+1)
		word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		switch {
		case line == "":
		case len(line) > maxConfLine:
			c.skip(where, fmt.Errorf("line of %d bytes: %w of %d", len(line), ErrLimit, maxConfLine))
		case word == "include":
			for _, pattern := range strings.Fields(rest) {
				c.include(where, path.Dir(name), pattern, depth)
			}
		case strings.EqualFold(word, "hwcap"):
			c.skip(where, fmt.Errorf("hwcap lines have had no effect since glibc 2.37"))
		default:
			dir, _, _ := strings.Cut(line, "=")
			dir = strings.TrimRight(strings.TrimRight(dir, " \t"), "/")
			if strings.Contains(dir+"/", "/../") && path.IsAbs(dir) { // where that leads, the links before it decide
				if real, _, err := resolve(c, dir); err == nil {
					dir = real
				}
			}
			c.add(where, dir)
		}
	}
}

// include reads the files that a pattern matches, by name.
func (c *conf) include(where, dir, pattern string, depth int) {
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	if !ValidPath(pattern) {
		c.skip(where, fmt.Errorf("include %q: not a printable path", pattern))
		return
	}
	names, err := c.glob(path.Clean(pattern))
	if err != nil {
		c.skip(where, fmt.Errorf("include %s: %w", pattern, err))
	}
	for _, name := range names {
		c.file(name, depth+1)
	}
}

// glob expands a pattern, one path component after the other. As in a shell, a
// leading dot is matched by a dot only.
func (c *conf) glob(pattern string) ([]string, error) {
	at := []string{"/"}
	for _, part := range strings.Split(strings.Trim(pattern, "/"), "/") {
		var next []string
		for _, dir := range at {
			names, err := c.matches(dir, part)
			next = append(next, names...)
			if err != nil {
				return next, err
			}
		}
		at = next
	}
	return at, nil
}

// matches returns what part stands for in the folder dir. A pattern that
// matches nothing is no error, as in ldconfig.
func (c *conf) matches(dir, part string) ([]string, error) {
	real, info, err := resolve(c, dir)
	if missing(err) || err == nil && info.Mode&fs.ModeDir == 0 {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(part, `*?[\`) {
		_, err := c.Lstat(path.Join(real, part))
		if missing(err) {
			return nil, nil
		}
		return []string{path.Join(dir, part)}, err
	}
	names, err := c.ReadDir(real)
	if err != nil {
		return nil, err
	}
	if c.globbed += len(names); c.globbed > maxGlobEntries {
		return nil, fmt.Errorf("%w of %d names to compare", ErrLimit, maxGlobEntries)
	}
	pattern := shellClasses(part)
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasPrefix(name, ".") != strings.HasPrefix(part, ".") {
			continue
		}
		ok, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, path.Join(dir, name))
		}
	}
	return out, nil
}

// classes are those of the C locale that a name in brackets stands for.
var classes = strings.NewReplacer("[:alnum:]", "0-9A-Za-z", "[:alpha:]", "A-Za-z", "[:digit:]", "0-9", "[:lower:]", "a-z",
	"[:upper:]", "A-Z", "[:xdigit:]", "0-9A-Fa-f", "[:punct:]", `!-/:-@\[-`+"`"+`{-~`, "[:graph:]", "!-~", "[:print:]", " -~")

// shellClasses writes the brackets of a shell's pattern as package path has them:
// negated by a caret, with ranges for classes, a "]" that comes first by itself and
// one that nothing closes as a letter.
func shellClasses(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			b.WriteString(pattern[i:min(i+2, len(pattern))])
			i++
			continue
		case '[':
		default:
			b.WriteByte(pattern[i])
			continue
		}
		from, not := i+1, ""
		if from < len(pattern) && (pattern[from] == '!' || pattern[from] == '^') {
			from, not = from+1, "^"
		}
		to := from
		for to < len(pattern) && (pattern[to] != ']' || to == from) {
			end := -1
			if strings.HasPrefix(pattern[to:], "[:") {
				end = strings.Index(pattern[to:], ":]")
			}
			switch {
			case end > 0:
				to += end + 2
			case pattern[to] == '\\':
				to += 2
			default:
				to++
			}
		}
		if to >= len(pattern) {
			b.WriteString(`\[`)
			continue
		}
		set := classes.Replace(pattern[from:to])
		if strings.HasPrefix(set, "]") || strings.HasPrefix(set, "-") {
			set = `\` + set
		}
		if n := len(set); n > 1 && set[n-1] == '-' && set[n-2] != '\\' {
			set = set[:n-1] + `\-`
		}
		b.WriteString("[" + not + set + "]")
		i = to
	}
	return b.String()
}
