package fault

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Fault is one thing that is broken. Faults are equal when they mean the same.
//
// Its text is KIND or KIND:ARGUMENTS, as Kinds lists them; String writes one
// form of it that Parse reads again. GPUs are named as on the healthy host, by
// NVML index or PCI address.
type Fault struct {
	kind  string
	gpu   string // an NVML index, or a PCI address as sysfs writes it; empty: none is named
	name  string // a path, a pattern, a driver's name, a driver version, an NVML call
	major uint32
	node  change
	code  nvml.Return
}

// A change is what becomes of a node; has_ says what is given.
type change struct {
	mode, uid, gid          uint32
	hasMode, hasUID, hasGID bool
}

// Kind returns the word before the colon.
func (f Fault) Kind() string { return f.kind }

// String returns the text form; that of the zero Fault is empty.
func (f Fault) String() string {
	args := f.gpu
	switch f.kind {
	case "stale-major":
		args = fmt.Sprintf("%s=%d", f.name, f.major)
	case "node":
		args = f.name + f.node.String()
	case "xid":
		args += fmt.Sprintf("=%d", f.code)
	case "nvml":
		args = f.name
		if f.gpu != "" {
			args += ":" + f.gpu
		}
		args += "=" + codeName(f.code)
	default:
		args = cmp.Or(args, f.name)
	}
	if args == "" {
		return f.kind
	}
	return f.kind + ":" + args
}

func (c change) String() string {
	var b strings.Builder
	if c.hasMode {
		fmt.Fprintf(&b, ",mode=%04o", c.mode)
	}
	if c.hasUID {
		fmt.Fprintf(&b, ",uid=%d", c.uid)
	}
	if c.hasGID {
		fmt.Fprintf(&b, ",gid=%d", c.gid)
	}
	return b.String()
}

func (c change) perm() fs.FileMode { return fs.FileMode(c.mode) }

// MarshalText is String.
func (f Fault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is Parse.
func (f *Fault) UnmarshalText(text []byte) (err error) {
	*f, err = Parse(string(text))
	return err
}

// A List is faults that are there together, in the order in which they take
// effect: equal sets are equal lists. ParseList and With make one.
type List []Fault

// ErrConflict marks faults that cannot be there together.
var ErrConflict = errors.New("cannot be there together")

// ParseList reads faults in any order. The error is the first mistake: an
// *Error, of the text or of two that cannot be there together.
func ParseList(texts []string) (List, error) {
	var out List
	for _, s := range texts {
		f, err := Parse(s)
		if err != nil {
			return nil, err
		}
		if out, err = out.With(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// With returns l with one fault more. A fault that is there already, and one
// about the same thing as another, is an *Error.
func (l List) With(f Fault) (List, error) {
	for _, o := range l {
		if o == f {
			return nil, &Error{Fault: f, Err: fmt.Errorf("%w: it is there already", ErrConflict), Hint: "Name it once."}
		}
		if why := clash(o, f); why != "" {
			return nil, &Error{Fault: f, Err: fmt.Errorf("%w: it and %s %s", ErrConflict, o, why), Hint: fmt.Sprintf("Leave one of them out, or heal %s first.", o)}
		}
	}
	out := append(slices.Clone(l), f)
	slices.SortFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(rank(a.kind), rank(b.kind)), cmp.Compare(a.String(), b.String()))
	})
	return out, nil
}

// Without returns l without f, which must be in it.
func (l List) Without(f Fault) (List, error) {
	i := slices.Index(l, f)
	if i < 0 {
		e := &Error{Fault: f, Err: fmt.Errorf("%w: the host has no such fault", ErrImpossible), Hint: "The host has none."}
		if len(l) > 0 {
			e.Hint = "The host has " + strings.Join(l.Texts(), " and ") + "."
		}
		return nil, e
	}
	if len(l) == 1 {
		return nil, nil
	}
	return slices.Delete(slices.Clone(l), i, i+1), nil
}

// Texts returns the text of every fault.
func (l List) Texts() []string {
	var out []string
	for _, f := range l {
		out = append(out, f.String())
	}
	return out
}

// clash says why two faults are about the same thing; empty: they are not.
func clash(a, b Fault) string {
	files := func(f Fault) bool { return f.kind == "version-mismatch" || f.kind == "half-upgrade" }
	switch {
	case files(a) && files(b):
		return "both say which libraries are installed"
	case a.kind == "unmade" && b.kind == "unmade":
		return "are to be one, which names all groups"
	case a.kind == "no-driver" && b.kind == "no-driver" && (a.gpu == "" || b.gpu == "" || a.gpu == b.gpu):
		return "both take the driver away"
	case a.kind == "stale-major" && b.kind == "stale-major" && a.name == b.name, a.kind == "node" && b.kind == "node" && a.name == b.name:
		return "are about the same " + map[string]string{"stale-major": "driver", "node": "node"}[a.kind]
	}
	x, ok := nvmlOf(a)
	y, ok2 := nvmlOf(b)
	switch {
	case !ok || !ok2:
	case starts(x.name) != starts(y.name) && a.kind == b.kind:
		return "are about NVML, which is asked nothing more when it does not start"
	case (x.name == y.name || x.name == "*" || y.name == "*") && (x.gpu == y.gpu || x.gpu == "" || y.gpu == "") && !starts(x.name) && !starts(y.name):
		return "say what the same call returns"
	case x.name == y.name && starts(x.name):
		return "say what the same call returns"
	}
	return ""
}

// nvmlOf returns what a fault makes of NVML's calls.
func nvmlOf(f Fault) (Fault, bool) {
	if f.kind == "off-bus" {
		return Fault{kind: "nvml", name: "*", gpu: f.gpu}, true
	}
	return f, f.kind == "nvml"
}

// starts reports whether a call starts NVML.
func starts(call string) bool { return call == "Init" || call == "InitWithFlags" }

// An Error says which fault is none, or cannot be, and why.
type Error struct {
	Text  string // as it was written, where it could not be read
	Fault Fault
	Err   error  // ErrSyntax, ErrImpossible, ErrConflict or a cause
	Hint  string // what to do, one sentence
}

func (e *Error) Error() string {
	if u, ok := errors.AsType[unknownKind](e.Err); ok {
		return u.Error()
	}
	text := e.Text
	if e.Fault != (Fault{}) {
		text = e.Fault.String()
	}
	return fmt.Sprintf("fault %q: %v", text, e.Err)
}

// Unwrap offers the cause.
func (e *Error) Unwrap() error { return e.Err }
