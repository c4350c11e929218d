package strictdoc

// A Place is a line and a column of a file, both from 1; zero: not known.
type Place struct{ Line, Column int }

// A Kind is what a node of a document is.
type Kind string

// The kinds of nodes.
const (
	Null   Kind = "null"
	Text   Kind = "text"  // in quotes, or a block of YAML
	Plain  Kind = "plain" // a number, true, false, or text of YAML without quotes
	List   Kind = "list"
	Object Kind = "object"
)

// A Node is one value of a document, whether it was YAML or JSON.
type Node struct {
	Kind    Kind
	Text    string // of Text, and of Plain as it is written
	Word    bool   // Plain that is text to every reader of YAML: not a number, nor true or false
	At      Place
	Items   []*Node
	Members []Member
}

// A Member is one key of an object. A key can be there twice.
type Member struct {
	Key   string
	At    Place // of the key
	Value *Node
}

// Empty reports whether a document holds nothing: no value, null, or nothing in a
// list or object.
func (n *Node) Empty() bool {
	return n == nil || n.Kind == Null || (n.Kind == List || n.Kind == Object) && len(n.Items)+len(n.Members) == 0
}
