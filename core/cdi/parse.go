package cdi

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
)

// MaxSpec is the size of the largest Spec that is read, in bytes: reading costs
// many times the size in memory.
const MaxSpec = 1 << 20

// maxItems bounds the commas, colons and lines of a Spec, and so its values: one
// costs up to 500 bytes of memory, whatever its size in the file. A Spec of
// 1 MiB that names real devices has a third of it.
const maxItems = 150_000

// maxProblems bounds what one file can say.
const maxProblems = 100

// Parse reads one Spec, YAML or JSON. The name is the file's, for messages; with
// the ending .json the text has to be JSON, with another ending it is JSON if it
// begins with a brace and is YAML otherwise.
//
// It is strict. Refused are: more than 1 MiB, bytes that are no UTF-8 or that
// hide what is written (a byte order mark and CRLF are fine), a second
// document, anchors, aliases, merge keys, tags, keys written twice (also in
// different case), unknown fields, nulls, and everything that Validate refuses.
//
// The error joins one *refuse.Error for each problem, whose Where is
// "file:line:column: field". Where there is an error there is no Spec.
func Parse(data []byte, name string) (*specs.Spec, error) {
	spec, problems := parse(data, name)
	if len(problems) == 0 {
		return spec, nil
	}
	return nil, joinProblems(problems)
}

func joinProblems(problems []Problem) error {
	var es []*refuse.Error
	for _, p := range problems {
		es = append(es, p.Refusal())
	}
	return refuse.Join(es...)
}

func parse(data []byte, name string) (spec *specs.Spec, problems []Problem) {
	problem := func(r refuse.Reason, at mark, field, hint, msg string) Problem {
		return Problem{Path: name, Where: where(at, field), Reason: r, Msg: msg, Hint: hint}
	}
	// The parsers read a stranger's text. A panic in one of them must not take
	// the program along, and must not pass for a mistake of the file either.
	defer func() {
		if r := recover(); r != nil {
			spec = nil
			problems = []Problem{problem(SpecReaderBug, mark{}, "", "Please report this with the file.", fmt.Sprintf("the reader failed: %v", r))}
		}
	}()
	if len(data) > MaxSpec {
		return nil, []Problem{problem(SpecTooLarge, mark{}, "", "", fmt.Sprintf("has %d bytes, at most %d are read", len(data), MaxSpec))}
	}
	if n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte(":")) + bytes.Count(data, []byte("\n")); n > maxItems {
		return nil, []Problem{problem(SpecTooLarge, mark{}, "", "", fmt.Sprintf("has %d commas, colons and lines, at most %d are read", n, maxItems))}
	}
	text, at, why := cleanText(data)
	if why != "" {
		return nil, []Problem{problem(SpecEncoding, at, "", "Save the file as plain UTF-8.", why)}
	}
	tree, terr := readTree(text, name)
	if terr != nil {
		return nil, []Problem{problem(terr.reason, terr.at, "", terr.hint, terr.msg)}
	}
	if noData(tree) {
		return nil, []Problem{problem(SpecEmpty, mark{}, "", "", "no Spec data")}
	}
	d := &decoder{}
	spec = d.spec(tree)
	found := d.found
	if len(found.problems) == 0 { // else the rest would complain about fields that could not be read
		found = validate(spec)
	}
	for _, p := range found.problems {
		if p.at == (mark{}) {
			p.at = find(tree, p.field)
		}
		problems = append(problems, problem(p.reason, p.at, p.field, p.hint, p.msg))
	}
	if found.more > 0 {
		last := problems[len(problems)-1]
		problems = append(problems, problem(last.Reason, mark{}, "", "", fmt.Sprintf("and %d more problems", found.more)))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return spec, nil
}

func readTree(text []byte, name string) (*node, *treeError) {
	isJSON := path.Ext(name) == ".json"
	if !isJSON && path.Ext(name) != ".yaml" {
		isJSON = bytes.HasPrefix(bytes.TrimLeft(text, " \t\n"), []byte("{"))
	}
	if isJSON {
		return jsonTree(text)
	}
	return yamlTree(text)
}

func noData(n *node) bool {
	if n == nil || n.kind == nullNode {
		return true
	}
	return (n.kind == listNode || n.kind == objectNode) && len(n.items)+len(n.members) == 0
}

// where prints "12:7: devices[1].name"; what is not known is left out.
func where(at mark, field string) string {
	var parts []string
	if at.line > 0 {
		parts = append(parts, strconv.Itoa(at.line))
		if at.col > 0 {
			parts[0] += ":" + strconv.Itoa(at.col)
		}
	}
	if field != "" {
		parts = append(parts, field)
	}
	return strings.Join(parts, ": ")
}

// find returns the place of a field in the tree, or of the nearest one above it.
func find(n *node, field string) mark {
	at := n.at
	for field != "" {
		var next *node
		if strings.HasPrefix(field, "[") {
			num, rest, _ := strings.Cut(field[1:], "]")
			if i, err := strconv.Atoi(num); err == nil && i < len(n.items) {
				next = n.items[i]
			}
			field = strings.TrimPrefix(rest, ".")
		} else {
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			for _, m := range n.members {
				if m.key == field[:end] {
					next = m.value
				}
			}
			field = strings.TrimPrefix(field[end:], ".")
		}
		if next == nil {
			return at
		}
		n, at = next, next.at
	}
	return at
}
