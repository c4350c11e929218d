package cdi

import (
	"fmt"

	"gpurig/core/refuse"
)

// A mark is a place in a file, line and column from 1.
type mark struct{ line, col int }

// kind is what a node of a document is.
type kind string

const (
	nullNode   kind = "null"
	textNode   kind = "text"   // quoted, or a block scalar
	plainNode  kind = "plain"  // a number, true, false, or unquoted YAML text
	listNode   kind = "list"   //
	objectNode kind = "object" //
)

// A node is one value of a document, whether it was YAML or JSON.
type node struct {
	kind    kind
	text    string // of textNode and plainNode, as written
	at      mark
	items   []*node
	members []member
}

type member struct {
	key   string
	at    mark // of the key
	value *node
}

// maxNesting is deeper than a Spec can be: the object, devices, one device, its
// edits, a list, a node, a list, a text.
const maxNesting = 32

// A treeError is the first thing that keeps a document from becoming a tree.
type treeError struct {
	reason refuse.Reason
	at     mark
	msg    string
	hint   string
}

func (e *treeError) Error() string { return fmt.Sprintf("%d:%d: %s", e.at.line, e.at.col, e.msg) }

func treeErrorf(r refuse.Reason, at mark, format string, args ...any) *treeError {
	return &treeError{reason: r, at: at, msg: fmt.Sprintf(format, args...)}
}
