package strictdoc

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlTree reads one YAML document. The parser is the one that the CDI library
// uses, so that a Spec means to us what it means to container engines; what YAML
// can do beyond plain data is refused.
func yamlTree(data []byte) (*Node, *Fault) {
	if f := yamlNesting(data); f != nil {
		return nil, f
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlFault(data, err)
	}
	switch err := dec.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlFault(data, err)
	default:
		return nil, secondDocument(Place{more.Line, more.Column})
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return yamlNode(doc.Content[0], 0)
}

// yamlNesting refuses deep flow collections before the parser sees them. Its
// own limit is 10,000, which costs seconds.
func yamlNesting(data []byte) *Fault {
	depth, at := 0, Place{1, 1}
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			at = Place{at.Line + 1, 0}
		}
		// Brackets inside text count as well, so this limit is far from the real one.
		if depth > 64*maxNesting {
			return faultf(Nesting, at, "", "more than %d brackets are open", 64*maxNesting)
		}
		at.Column++
	}
	return nil
}

var (
	yamlLine  = regexp.MustCompile(`^line \d+: `)
	yamlAlias = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// yamlFault makes the parser's error one with a place.
func yamlFault(data []byte, err error) *Fault {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlAlias.FindStringSubmatch(msg); m != nil {
		before := data[:max(bytes.Index(data, []byte("*"+m[1])), 0)]
		line := bytes.Count(before, []byte("\n"))
		return notPlain(Place{line + 1, len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1}, "alias *"+m[1])
	}
	at, line := yamlPlace(data, err)
	msg = strings.ReplaceAll(yamlLine.ReplaceAllString(msg, ""), "\n", "; ")
	if strings.Contains(msg, "exceeded max depth") {
		return tooDeep(at)
	}
	return faultf(Syntax, at, remedy(msg, line), "not YAML: %s", msg)
}

// yamlPlace returns the line that makes the parser say err, and its text. The
// parser itself gives the line where the list or object begins, if any: here lines
// are cut off the end, as many as can be without another error.
func yamlPlace(data []byte, err error) (Place, string) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(data) > 64<<10 { // each try costs as much as the file
		at := Place{Column: 1}
		if m := regexp.MustCompile(`line (\d+): `).FindStringSubmatch(err.Error()); m != nil {
			at.Line, _ = strconv.Atoi(m[1]) // digits only; line 0 is not known
		}
		return at, ""
	}
	low, high := 1, len(lines) // the first high lines give err
	for low < high {
		mid := (low + high) / 2
		var n yaml.Node
		if e := yaml.Unmarshal(bytes.Join(lines[:mid], nil), &n); e != nil && e.Error() == err.Error() {
			high = mid
		} else {
			low = mid + 1
		}
	}
	line := strings.TrimRight(string(lines[high-1]), "\n")
	return Place{high, 1 + len(line) - len(strings.TrimLeft(line, " "))}, line
}

// remedy is what most often makes the parser say msg of a line.
func remedy(msg, line string) string {
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "Indent with spaces."
	case strings.Contains(msg, "mapping values are not allowed"), strings.Contains(msg, "did not find expected key"), strings.Contains(msg, "'-' indicator"):
		return "Begin the keys of one level in one column."
	case strings.Contains(msg, "did not find expected"), strings.Contains(msg, "could not find expected ':'"), strings.Contains(msg, "unexpected end"):
		return "Close each bracket and each quote that is open, and put a key with a colon in quotes."
	}
	return ""
}

func yamlNode(y *yaml.Node, depth int) (*Node, *Fault) {
	at := Place{y.Line, y.Column}
	if depth > maxNesting {
		return nil, tooDeep(at)
	}
	if f := yamlPlain(y, at); f != nil {
		return nil, f
	}
	n := &Node{At: at}
	switch y.Kind {
	case yaml.ScalarNode:
		yamlScalar(y, n)
	case yaml.SequenceNode:
		n.Kind = List
		for _, c := range y.Content {
			item, f := yamlNode(c, depth+1)
			if f != nil {
				return nil, f
			}
			n.Items = append(n.Items, item)
		}
	case yaml.MappingNode:
		n.Kind = Object
		for i := 0; i+1 < len(y.Content); i += 2 {
			m, f := yamlMember(y.Content[i], y.Content[i+1], depth+1)
			if f != nil {
				return nil, f
			}
			n.Members = append(n.Members, m)
		}
	default:
		return nil, faultf(Syntax, at, "", "not YAML that a file can hold")
	}
	return n, nil
}

// yamlPlain refuses what makes a file mean something else than it shows.
func yamlPlain(y *yaml.Node, at Place) *Fault {
	switch {
	case y.Kind == yaml.AliasNode:
		return notPlain(at, "alias *"+y.Value)
	case y.Anchor != "":
		return notPlain(at, "anchor &"+y.Anchor)
	case y.Style&yaml.TaggedStyle != 0:
		return notPlain(at, "tag "+y.Tag)
	}
	return nil
}

func notPlain(at Place, what string) *Fault {
	return faultf(Feature, at, "Write the value out.", "%s is not allowed: a document is plain data", quote(what))
}

func yamlMember(k, v *yaml.Node, depth int) (Member, *Fault) {
	at := Place{k.Line, k.Column}
	if f := yamlPlain(k, at); f != nil {
		return Member{}, f
	}
	if k.Kind != yaml.ScalarNode {
		return Member{}, faultf(Feature, at, "Write a word before the colon.", "this key is not text")
	}
	if k.Tag == "!!merge" {
		return Member{}, faultf(Feature, at, "Write the members out.", "the merge key << is not allowed: a document is plain data")
	}
	value, f := yamlNode(v, depth)
	return Member{Key: k.Value, At: at, Value: value}, f
}

func yamlScalar(y *yaml.Node, n *Node) {
	n.Text, n.Kind = y.Value, Text
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return
	}
	n.Kind, n.Word = Plain, y.Tag == "!!str" || y.Tag == "!!timestamp"
	if y.Tag == "!!null" {
		n.Kind, n.Text = Null, ""
	}
}
