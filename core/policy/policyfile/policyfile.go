// Package policyfile reads the file with which an administrator widens the
// policy of a host: YAML, one list of names for each key of policy.Policy.
//
//	drivers: [vfio]             # more names of /proc/devices
//	sources: [/srv/vendor]      # more host paths that may be mounted
//	environment: [VENDOR_MODE]  # more variables
//
// It is read strictly: what is not understood as it is written is refused, with
// its place, and then nothing of the file counts.
package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"gpurig/core/host"
	"gpurig/core/policy"
	"gpurig/core/refuse"
)

// maxSize and maxEntries bound a file; brackets bounds what the parser may nest.
const (
	maxSize    = 64 << 10
	maxEntries = 1000
	brackets   = 16
)

// Why a file is not used.
const (
	ReasonPolicy    refuse.Reason = "bad-policy"
	ReasonUntrusted refuse.Reason = "policy-untrusted"
)

// Reasons lists them.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonPolicy, Meaning: "The policy file cannot be read as it is written, or allows what nothing can."},
		{Reason: ReasonUntrusted, Meaning: "Others than root can write the policy of the host."},
	}
}

// System reads the policy of a host, policy.File. A host without one has the
// defaults. It is refused if anybody but root can write the file, a directory
// above it, or a link on the way (A32).
func System(root host.Root) (policy.Policy, error) {
	real, err := host.Resolve(root, policy.File)
	if errors.Is(err, fs.ErrNotExist) {
		return policy.Policy{}, nil
	}
	if err != nil {
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "cannot be read").WithErr(err)
	}
	if why := host.Untrusted(root, policy.File); why != "" {
		return policy.Policy{}, refuse.New(ReasonUntrusted, policy.File, "%s", why).WithHint("Make it root's, and writable for root alone.")
	}
	info, err := root.Lstat(real)
	switch {
	case err != nil:
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "cannot be read").WithErr(err)
	case !info.Mode.IsRegular():
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "is not a regular file")
	case info.Size > maxSize:
		return policy.Policy{}, tooLarge(policy.File)
	}
	data, err := root.ReadFile(real)
	if err != nil {
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "cannot be read").WithErr(err)
	}
	return Parse(data, policy.File)
}

func tooLarge(name string) error {
	return refuse.New(ReasonPolicy, name, "is larger than %d bytes", maxSize)
}

// Parse reads a policy. name is the file's, for messages. The error joins one
// *refuse.Error for each problem, at "file:line:column: key"; with an error
// there is no policy. A file without any key is one that widens nothing.
func Parse(data []byte, name string) (p policy.Policy, err error) {
	if len(data) > maxSize {
		return policy.Policy{}, tooLarge(name)
	}
	r := &reader{name: name, places: map[string]*yaml.Node{}}
	// The parser reads what a person wrote; a panic in it is no permission.
	defer func() {
		if x := recover(); x != nil {
			p, err = policy.Policy{}, refuse.New(ReasonPolicy, name, "the reader failed: %v", x)
		}
	}()
	if !r.clean(data) {
		return policy.Policy{}, r.err()
	}
	doc := r.document(data)
	if doc != nil {
		r.keys(doc, &p)
	}
	if len(r.problems) == 0 {
		r.check(p)
	}
	if err := r.err(); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

type reader struct {
	name     string
	places   map[string]*yaml.Node // of entries, by field: "sources[1]"
	problems []*refuse.Error
}

func (r *reader) err() error { return refuse.Join(r.problems...) }

func (r *reader) problem(line, col int, field, hint, format string, args ...any) {
	where := r.name
	if line > 0 {
		where += fmt.Sprintf(":%d", line)
	}
	if col > 0 {
		where += fmt.Sprintf(":%d", col)
	}
	if field != "" {
		where += ": " + field
	}
	r.problems = append(r.problems, refuse.New(ReasonPolicy, where, format, args...).WithHint("%s", hint))
}

func (r *reader) at(n *yaml.Node, field, hint, format string, args ...any) {
	r.problem(n.Line, n.Column, field, hint, format, args...)
}

// clean refuses bytes that a person reviewing the file would not see, and
// nesting that costs the parser seconds.
func (r *reader) clean(data []byte) bool {
	if !utf8.Valid(data) {
		r.problem(0, 0, "", "", "is not UTF-8")
		return false
	}
	line, depth := 1, 0
	for _, c := range string(data) {
		switch {
		case c == '\n':
			line++
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '\t' || c == '\r':
		case c < ' ' || c > '~' && !printable(c):
			r.problem(line, 0, "", "", "has the character %U, which cannot be seen", c)
			return false
		}
		if depth > brackets {
			r.problem(line, 0, "", "", "has more than %d open brackets", brackets)
			return false
		}
	}
	return true
}

// printable leaves letters and signs in comments, and refuses all that hides.
func printable(c rune) bool {
	return c >= 0xa0 && c != 0xad && c != 0x61c && c != 0xfeff && (c < 0x200b || c > 0x200f) && (c < 0x2028 || c > 0x202e) && (c < 0x2060 || c > 0x206f)
}

// document returns the one mapping of the file; nil: there is none.
func (r *reader) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = dec.Decode(&more); err == nil {
			r.at(&more, "", "Write one.", "a second document begins here")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
		if m := syntaxLine.FindStringSubmatch(msg); m != nil {
			line, _ = strconv.Atoi(m[1]) // digits only: see the expression
			msg = msg[len(m[0]):]
		}
		r.problem(line, 0, "", "", "not YAML: %s", msg)
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	return doc.Content[0]
}

var syntaxLine = regexp.MustCompile(`^line (\d{1,6}): `)

// keys reads the mapping.
func (r *reader) keys(n *yaml.Node, p *policy.Policy) {
	lists := map[string]*[]string{
		"drivers": &p.Drivers, "block-drivers": &p.BlockDrivers, "sources": &p.Sources, "writable": &p.Writable,
		"tmpfs": &p.Tmpfs, "environment": &p.Environment, "leave-out": &p.LeaveOut,
	}
	known := []string{"drivers", "block-drivers", "sources", "writable", "tmpfs", "environment", "leave-out"}
	if !r.plain(n, "") || n.Kind != yaml.MappingNode {
		r.at(n, "", "Write keys with lists: drivers: [vfio].", "is no set of keys")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case !r.plain(k, ""):
		case k.Kind != yaml.ScalarNode || !slices.Contains(known, k.Value):
			r.at(k, "", "The keys are "+strings.Join(known, ", ")+".", "unknown key %+q", k.Value)
		case seen[k.Value] > 0:
			r.at(k, "", "Make it one list.", "key %q stands twice, first in line %d", k.Value, seen[k.Value])
		default:
			seen[k.Value] = k.Line
			*lists[k.Value] = r.list(v, k.Value)
		}
	}
}

func (r *reader) list(n *yaml.Node, key string) []string {
	if !r.plain(n, key) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.at(n, key, fmt.Sprintf("Write a list: %s: [NAME].", key), "is no list")
		return nil
	}
	if len(n.Content) > maxEntries {
		r.at(n, key, "", "has %d entries, at most %d are read", len(n.Content), maxEntries)
		return nil
	}
	var out []string
	for i, c := range n.Content {
		field := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case !r.plain(c, field):
		case c.Kind != yaml.ScalarNode || c.Tag == "!!null":
			r.at(c, field, "", "is no name")
		case slices.Contains(out, c.Value):
			r.at(c, field, "Keep one of the two.", "%+q stands twice", c.Value)
		default:
			r.places[field] = c
			out = append(out, c.Value)
		}
	}
	return out
}

// plain refuses what makes a file mean something else than it shows.
func (r *reader) plain(n *yaml.Node, field string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.at(n, field, "Write the value out.", "anchors and aliases are not read here")
	case n.Style&yaml.TaggedStyle != 0:
		r.at(n, field, "", "tags are not read here")
	case n.Tag == "!!merge":
		r.at(n, field, "Write the keys out.", "merge keys are not read here")
	default:
		return true
	}
	return false
}

// check places what the policy itself finds wrong.
func (r *reader) check(p policy.Policy) {
	err := p.Validate()
	if err == nil {
		return
	}
	for _, e := range joined(err) {
		field, ok := errors.AsType[*policy.FieldError](e)
		if !ok {
			r.problem(0, 0, "", "", "%v", e)
			continue
		}
		n := r.places[field.Field]
		if n == nil {
			n = &yaml.Node{}
		}
		r.at(n, field.Field, "", "%s", field.Why)
	}
}

func joined(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}
