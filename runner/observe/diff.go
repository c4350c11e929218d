package observe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Difference is one entry that two observations disagree on. A and B are the
// entry in each, as one line; empty: it is not there.
type Difference struct {
	Part string `json:"part"` // "nodes", "mounts", "links", "files", "contents", "found", "libraries", "env", "groups", "smoke", "functions", "problems"
	What string `json:"what"` // the path or name
	A    string `json:"a,omitempty"`
	B    string `json:"b,omitempty"`
}

func (d Difference) String() string {
	side := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	return fmt.Sprintf("%s: %s: %s | %s", d.Part, d.What, side(d.A), side(d.B))
}

// Diff compares two observations entry by entry, in the order of Observation's
// parts and, within a part, of a's entries and then those of b alone. Equal
// observations have no differences.
func Diff(a, b Observation) []Difference {
	diffs, _ := Compare(a, b)
	return diffs
}

// Compare is Diff, and says how many entries were compared: those of a, and those that
// b has beside.
func Compare(a, b Observation) (diffs []Difference, entered int) {
	add := adder(&diffs, &entered)
	add("nodes", entries(a.Nodes, Node.entry), entries(b.Nodes, Node.entry))
	add("mounts", entries(a.Mounts, Mount.entry), entries(b.Mounts, Mount.entry))
	add("links", entries(a.Links, Link.entry), entries(b.Links, Link.entry))
	add("files", entries(a.Files, File.entry), entries(b.Files, File.entry))
	add("contents", entries(a.Contents, Content.entry), entries(b.Contents, Content.entry))
	add("found", entries(a.Found, Found.entry), entries(b.Found, Found.entry))
	la, lb := told(a.Libraries, b.Libraries)
	add("libraries", entries(la, Library.entry), entries(lb, Library.entry))
	add("env", entries(a.Env, envEntry), entries(b.Env, envEntry))
	add("groups", entries(a.Groups, groupEntry), entries(b.Groups, groupEntry))
	add("smoke", smokeEntries(a.Smoke), smokeEntries(b.Smoke))
	add("functions", entries(a.Functions, GuestFunction.entry), entries(b.Functions, GuestFunction.entry))
	add("problems", entries(a.Problems, problemEntry), entries(b.Problems, problemEntry))
	return diffs, entered
}

// adder returns what compares one part, and adds what it finds.
func adder(diffs *[]Difference, entered *int) func(part string, a, b []entry) {
	return func(part string, a, b []entry) {
		found := diffPart(part, a, b)
		*diffs, *entered = append(*diffs, found...), *entered+len(a)
		for _, d := range found {
			if d.A == "" {
				*entered++
			}
		}
	}
}

// An entry is one thing of an observation as key and text.
type entry struct{ key, text string }

func entries[T any](list []T, f func(T) entry) []entry {
	out := make([]entry, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

func (n Node) entry() entry {
	return entry{n.Path, fmt.Sprintf("%s %s %04o %d:%d %s", n.Type, n.Num, uint32(n.Mode.Perm()), n.UID, n.GID, n.Open)}
}

func (m Mount) entry() entry {
	return entry{m.Target, strings.TrimSpace(m.Type + " " + strings.Join(m.Options, ","))}
}

func (l Link) entry() entry {
	if l.Final == "" {
		return entry{l.Path, "-> " + l.Target + " (dangling)"}
	}
	return entry{l.Path, "-> " + l.Target + " (" + l.Final + ")"}
}

func (f File) entry() entry {
	if f.Type == "absent" {
		return entry{f.Path, "absent"}
	}
	return entry{f.Path, fmt.Sprintf("%s %d bytes %04o %d:%d", f.Type, f.Size, uint32(f.Mode.Perm()), f.UID, f.GID)}
}

func (c Content) entry() entry {
	if c.Problem != "" {
		return entry{c.Path, c.Problem}
	}
	return entry{c.Path, strconv.Quote(c.Text)}
}

func (f Found) entry() entry { return entry{f.Path, "has " + strconv.Quote(f.Text)} }

func (l Library) entry() entry {
	text := "not found"
	if l.Path != "" {
		text = l.Path + " -> " + l.Final + " by " + l.Via
	}
	if l.Origin != "" {
		text += ", from " + l.Origin
	}
	if l.Problem != "" {
		text += ": " + l.Problem
	}
	return entry{l.SONAME, text}
}

// told returns the libraries of two observations with what both can tell of them:
// where one cannot say whose file a library is, the other's word is left out.
func told(a, b []Library) (la, lb []Library) {
	silent := func(l Library) bool { return l.Path != "" && l.Origin == "" }
	if slices.ContainsFunc(a, silent) == slices.ContainsFunc(b, silent) {
		return a, b
	}
	la, lb = slices.Clone(a), slices.Clone(b)
	for _, list := range [][]Library{la, lb} {
		for i := range list {
			list[i].Origin = ""
		}
	}
	return la, lb
}

func envEntry(v string) entry {
	name, value, _ := strings.Cut(v, "=")
	return entry{name, "=" + value}
}

func groupEntry(g uint32) entry { return entry{fmt.Sprint(g), "member"} }

func problemEntry(p string) entry { return entry{p, "seen"} }

// diffPart pairs entries of equal key in order, so that two mounts on one
// target compare with two.
func diffPart(part string, a, b []entry) []Difference {
	rest := make(map[string][]string, len(b))
	for _, e := range b {
		rest[e.key] = append(rest[e.key], e.text)
	}
	var out []Difference
	for _, e := range a {
		d := Difference{Part: part, What: e.key, A: e.text}
		if left := rest[e.key]; len(left) > 0 {
			d.B, rest[e.key] = left[0], left[1:]
		}
		if d.A != d.B {
			out = append(out, d)
		}
	}
	for _, e := range b {
		if left := rest[e.key]; len(left) > 0 {
			out = append(out, Difference{Part: part, What: e.key, B: left[0]})
			rest[e.key] = left[1:]
		}
	}
	return out
}
