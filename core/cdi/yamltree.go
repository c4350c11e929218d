package cdi

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
// uses, so that a file means to us what it means to container engines; what YAML
// can do beyond plain data is refused.
func yamlTree(data []byte) (*node, *treeError) {
	if e := yamlNesting(data); e != nil {
		return nil, e
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlSyntax(err)
	}
	switch err := dec.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlSyntax(err)
	default:
		e := treeErrorf(SpecDocuments, mark{more.Line, more.Column}, "a second document begins here; other readers ignore it")
		e.hint = "Write one Spec per file."
		return nil, e
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return yamlNode(doc.Content[0], 0)
}

// yamlNesting refuses deep flow collections before the parser sees them. Its
// own limit is 10,000, which costs seconds.
func yamlNesting(data []byte) *treeError {
	depth, at := 0, mark{1, 1}
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			at = mark{at.line + 1, 0}
		}
		// Brackets inside text count as well, so this limit is far from the real one.
		if depth > 64*maxNesting {
			return treeErrorf(SpecNesting, at, "more than %d brackets are open", 64*maxNesting)
		}
		at.col++
	}
	return nil
}

// yamlSyntax takes the line out of the parser's message.
func yamlSyntax(err error) *treeError {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	at := mark{}
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		at.line, _ = strconv.Atoi(m[1]) // digits only; a number too large stays line 0, "not known"
		msg = msg[len(m[0]):]
	}
	return treeErrorf(SpecSyntax, at, "not YAML: %s", strings.ReplaceAll(msg, "\n", "; "))
}

func yamlNode(y *yaml.Node, depth int) (*node, *treeError) {
	at := mark{y.Line, y.Column}
	if depth > maxNesting {
		return nil, treeErrorf(SpecNesting, at, "nested deeper than %d levels", maxNesting)
	}
	if e := yamlPlain(y, at); e != nil {
		return nil, e
	}
	n := &node{at: at}
	switch y.Kind {
	case yaml.ScalarNode:
		yamlScalar(y, n)
	case yaml.SequenceNode:
		n.kind = listNode
		for _, c := range y.Content {
			item, e := yamlNode(c, depth+1)
			if e != nil {
				return nil, e
			}
			n.items = append(n.items, item)
		}
	case yaml.MappingNode:
		n.kind = objectNode
		for i := 0; i+1 < len(y.Content); i += 2 {
			m, e := yamlMember(y.Content[i], y.Content[i+1], depth+1)
			if e != nil {
				return nil, e
			}
			n.members = append(n.members, m)
		}
	default:
		return nil, treeErrorf(SpecSyntax, at, "not YAML that a Spec can hold")
	}
	return n, nil
}

// yamlPlain refuses what makes a file mean something else than it shows.
func yamlPlain(y *yaml.Node, at mark) *treeError {
	var what string
	switch {
	case y.Kind == yaml.AliasNode:
		what = "the alias *" + y.Value
	case y.Anchor != "":
		what = "the anchor &" + y.Anchor
	case y.Style&yaml.TaggedStyle != 0:
		what = "the tag " + y.Tag
	default:
		return nil
	}
	e := treeErrorf(SpecYAMLFeature, at, "%s: Specs are plain data", quote(what))
	e.hint = "Write the value out."
	return e
}

func yamlMember(k, v *yaml.Node, depth int) (member, *treeError) {
	at := mark{k.Line, k.Column}
	if e := yamlPlain(k, at); e != nil {
		return member{}, e
	}
	if k.Kind != yaml.ScalarNode {
		return member{}, treeErrorf(SpecYAMLFeature, at, "a key that is no text")
	}
	if k.Tag == "!!merge" {
		e := treeErrorf(SpecYAMLFeature, at, "the merge key <<: Specs are plain data")
		e.hint = "Write the members out."
		return member{}, e
	}
	value, e := yamlNode(v, depth)
	return member{key: k.Value, at: at, value: value}, e
}

func yamlScalar(y *yaml.Node, n *node) {
	n.text, n.kind = y.Value, textNode
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return
	}
	n.kind = plainNode
	if y.Tag == "!!null" {
		n.kind = nullNode
	}
}
