package cdi

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
	"gpurig/core/strictdoc"
)

// MaxSpec is the size of the largest Spec that is read, in bytes.
const MaxSpec = strictdoc.MaxBytes

// maxProblems bounds what one file can say.
const maxProblems = 100

// Parse reads one Spec, YAML or JSON. The name is the file's, for messages; with
// the ending .json the text has to be JSON, with another ending it is JSON if it
// begins with a brace and is YAML otherwise.
//
// It is strict. Refused are: more than 1 MiB, bytes that are no UTF-8 or that
// hide what is written (a byte order strictdoc.Place and CRLF are fine), a second
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
	problem := func(r refuse.Reason, at strictdoc.Place, field, hint, msg string) Problem {
		return Problem{Path: name, Where: where(at, field), Reason: r, Msg: msg, Hint: hint}
	}
	tree, fault := strictdoc.Parse(data, isJSON(data, name))
	if fault != nil {
		return nil, []Problem{problem(faultReasons[fault.Kind], fault.At, "", fault.Hint, fault.Msg)}
	}
	if tree.Empty() {
		return nil, []Problem{problem(ReasonSpecEmpty, strictdoc.Place{}, "", "", "no Spec data")}
	}
	d := &decoder{}
	spec = d.spec(tree)
	found := d.found
	if len(found.problems) == 0 { // else the rest would complain about fields that could not be read
		found = validate(spec)
	}
	for _, p := range found.problems {
		if p.at == (strictdoc.Place{}) {
			p.at = find(tree, p.field)
		}
		problems = append(problems, problem(p.reason, p.at, p.field, p.hint, p.msg))
	}
	if found.more > 0 {
		last := problems[len(problems)-1]
		problems = append(problems, problem(last.Reason, strictdoc.Place{}, "", "", fmt.Sprintf("and %d more problems", found.more)))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return spec, nil
}

// faultReasons are the reasons why a file is not a document.
var faultReasons = map[strictdoc.FaultKind]refuse.Reason{
	strictdoc.TooLarge: ReasonSpecTooLarge, strictdoc.Encoding: ReasonSpecEncoding, strictdoc.Syntax: ReasonSpecSyntax, strictdoc.Feature: ReasonSpecYAMLFeature,
	strictdoc.Documents: ReasonSpecDocuments, strictdoc.Nesting: ReasonSpecNesting, strictdoc.ReaderBug: ReasonSpecReaderBug,
}

func isJSON(data []byte, name string) bool {
	ext := path.Ext(name)
	return ext == ".json" || ext != ".yaml" && bytes.HasPrefix(bytes.TrimLeft(data, "\ufeff \t\r\n"), []byte("{"))
}

// where prints "12:7: devices[1].name"; what is not known is left out.
func where(at strictdoc.Place, field string) string {
	var parts []string
	if at.Line > 0 {
		parts = append(parts, strconv.Itoa(at.Line))
		if at.Column > 0 {
			parts[0] += ":" + strconv.Itoa(at.Column)
		}
	}
	if field != "" {
		parts = append(parts, field)
	}
	return strings.Join(parts, ": ")
}

// find returns the place of a field in the tree, or of the nearest one above it.
func find(n *strictdoc.Node, field string) strictdoc.Place {
	at := n.At
	for field != "" {
		var next *strictdoc.Node
		if strings.HasPrefix(field, "[") {
			num, rest, _ := strings.Cut(field[1:], "]")
			if i, err := strconv.Atoi(num); err == nil && i < len(n.Items) {
				next = n.Items[i]
			}
			field = strings.TrimPrefix(rest, ".")
		} else {
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			for _, m := range n.Members {
				if m.Key == field[:end] {
					next = m.Value
				}
			}
			field = strings.TrimPrefix(field[end:], ".")
		}
		if next == nil {
			return at
		}
		n, at = next, next.At
	}
	return at
}
