package driverfs

import (
	_ "embed"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed tegra.list
var tegraList string

// A row is one line of a CSV file of Jetson Linux.
type row struct {
	kind string // "dev", "dir", "lib", "sym"
	path string // as written; may start with two slashes, may be a pattern
}

// A rowGroup is one paragraph of tegra.list.
type rowGroup struct {
	kind, dir string
	releases  []string // empty: all
	names     []string
}

// rowGroups reads tegra.list, once: it is part of the program.
var rowGroups = sync.OnceValue(func() []rowGroup {
	var out []rowGroup
	for line := range strings.Lines(tegraList) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '\t':
			last := &out[len(out)-1]
			last.names = append(last.names, strings.Fields(line)...)
		default:
			f := strings.Fields(strings.TrimSuffix(line, ":"))
			g := rowGroup{kind: f[0], dir: f[1]}
			if len(f) > 2 {
				g.releases = strings.Split(f[2], "+")
			}
			out = append(out, g)
		}
	}
	return out
})

// A jetson says which rows a machine has.
type jetson struct {
	release int    // 36 of "R36"
	folder  string // of its libraries
	version string // of the user-space driver
}

func (j jetson) has(g rowGroup) bool {
	if len(g.releases) == 0 {
		return true
	}
	key := "36"
	switch {
	case j.release <= 35:
		key = "35"
	case j.release >= 38:
		key = "38"
	}
	return slices.Contains(g.releases, key) || j.release >= 39 && slices.Contains(g.releases, "39")
}

// rows returns the rows of every file together, nodes first.
func (j jetson) rows() []row {
	subst := strings.NewReplacer("{N}", j.folder, "{M}", multiarch, "{V}", j.version)
	var out []row
	for _, g := range rowGroups() {
		if !j.has(g) {
			continue
		}
		for _, name := range g.names {
			out = append(out, row{kind: g.kind, path: subst.Replace(g.dir + "/" + name)})
		}
	}
	return out
}

// csv returns the content of one file: devices.csv has what is below /dev,
// drivers.csv the rest, l4t.csv both.
func csv(name string, rows []row) (string, bool) {
	var b strings.Builder
	for _, r := range rows {
		device := strings.HasPrefix(r.path, "/dev/")
		if name == "l4t.csv" || device == (name == "devices.csv") {
			b.WriteString(r.kind + ", " + r.path + "\n")
		}
	}
	return b.String(), slices.Contains([]string{"devices.csv", "drivers.csv", "l4t.csv"}, name)
}

// stem returns the name of a library up to ".so", false if it is none.
func stem(p string) (string, bool) {
	base := path.Base(p)
	i := strings.Index(base, ".so")
	if i < 0 || i+3 < len(base) && base[i+3] != '.' || strings.HasSuffix(base, ".conf") {
		return "", false
	}
	return base[:i], true
}

// releaseNumber reads "R36" or "36".
func releaseNumber(s string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "R"))
	if err != nil {
		return 0
	}
	return n
}
