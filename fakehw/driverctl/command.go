package driverctl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/pci"
)

// A Verb is the first word of a request.
type Verb string

// The verbs.
const (
	SetMIGMode     Verb = "mig-mode"
	CreateGI       Verb = "create-gi"
	CreateCI       Verb = "create-ci"
	DestroyGI      Verb = "destroy-gi"
	DestroyCI      Verb = "destroy-ci"
	Reset          Verb = "reset"
	SetPersistence Verb = "persistence"
	SetVFs         Verb = "sriov"
	MakeNodes      Verb = "make-nodes"
)

// Any stands for a free choice: of a memory slice in Start, and of the profile
// that has a whole GPU instance in Profile.
const Any = -1

// A GPU names a GPU as a request does.
type GPU struct {
	Index int     // NVML's; -1: BDF names it
	BDF   pci.BDF // zero if Index names it
}

// ByIndex and ByBDF make a GPU's name.
func ByIndex(i int) GPU    { return GPU{Index: i} }
func ByBDF(at pci.BDF) GPU { return GPU{Index: -1, BDF: at} }
func (g GPU) String() string {
	if g.Index >= 0 {
		return strconv.Itoa(g.Index)
	}
	return g.BDF.String()
}

// A Command is one request. Fields that its verb does not take are zero.
type Command struct {
	Verb    Verb
	GPU     GPU     // all verbs but SetVFs and MakeNodes
	On      bool    // SetMIGMode, SetPersistence
	GI, CI  int     // CreateCI, DestroyGI, DestroyCI
	Profile int     // CreateGI, CreateCI: as nvidia-smi prints it; Any for CreateCI
	Start   int     // CreateGI: memory slice, or Any
	PF      pci.BDF // SetVFs
	VFs     int     // SetVFs
	Group   string  // MakeNodes: one of Groups
}

// Groups are what MakeNodes makes nodes of: GPUs and nvidiactl, the others by the
// names of their drivers.
var Groups = []string{"gpus", "modeset", "uvm", "caps"}

// String is the request's line, without its newline.
func (c Command) String() string {
	switch c.Verb {
	case SetMIGMode, SetPersistence:
		return fmt.Sprintf("%s %s %d", c.Verb, c.GPU, bit(c.On))
	case CreateGI:
		if c.Start == Any {
			return fmt.Sprintf("%s %s %d", c.Verb, c.GPU, c.Profile)
		}
		return fmt.Sprintf("%s %s %d %d", c.Verb, c.GPU, c.Profile, c.Start)
	case CreateCI:
		if c.Profile == Any {
			return fmt.Sprintf("%s %s %d default", c.Verb, c.GPU, c.GI)
		}
		return fmt.Sprintf("%s %s %d %d", c.Verb, c.GPU, c.GI, c.Profile)
	case DestroyGI:
		return fmt.Sprintf("%s %s %d", c.Verb, c.GPU, c.GI)
	case DestroyCI:
		return fmt.Sprintf("%s %s %d %d", c.Verb, c.GPU, c.GI, c.CI)
	case SetVFs:
		return fmt.Sprintf("%s %s %d", c.Verb, c.PF, c.VFs)
	case MakeNodes:
		return fmt.Sprintf("%s %s", c.Verb, c.Group)
	}
	return fmt.Sprintf("%s %s", c.Verb, c.GPU)
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// ErrSyntax marks a line that is no request, or no reply.
var ErrSyntax = errors.New("not in the form of the control protocol")

// A SyntaxError says which line that is and what is wrong with it.
type SyntaxError struct {
	Line string
	Why  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("control line %q: %s", e.Line, e.Why) }

// Unwrap makes every SyntaxError an ErrSyntax.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// Limits of the numbers in a request. They are those of sixteen bits, far more
// than any host has, so that no sum of two overflows.
const maxNumber = 1<<16 - 1

// words reads a line word by word and remembers the first mistake.
type words struct {
	line string
	rest []string
	why  string
}

func (w *words) next(what string) string {
	if w.why != "" {
		return ""
	}
	if len(w.rest) == 0 {
		w.why = "no " + what
		return ""
	}
	word := w.rest[0]
	w.rest = w.rest[1:]
	if word == "" {
		w.why = "words are divided by one space"
	}
	return word
}

func (w *words) bad(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

// decimal reads a number without sign or leading zeros.
func decimal(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n <= maxNumber && strconv.Itoa(n) == s
}

func (w *words) number(what string) int {
	word := w.next(what)
	n, ok := decimal(word)
	if !ok {
		w.bad("%s %q is not a number from 0 to %d", what, word, maxNumber)
	}
	return n
}

func (w *words) flag() bool {
	word := w.next("0 or 1")
	if word != "0" && word != "1" {
		w.bad("%q is not 0 or 1", word)
	}
	return word == "1"
}

func (w *words) bdf(what string) pci.BDF {
	word := w.next(what)
	at, err := pci.ParseBDF(word)
	if err != nil {
		w.bad("%s %q is not a PCI address", what, word)
	}
	return at
}

func (w *words) gpu() GPU {
	word := w.next("GPU")
	if n, ok := decimal(word); ok {
		return ByIndex(n)
	}
	at, err := pci.ParseBDF(word)
	if err != nil {
		w.bad("GPU %q is neither an index nor a PCI address", word)
	}
	return ByBDF(at)
}

// profile reads the profile of a compute instance.
func (w *words) profile() int {
	if len(w.rest) > 0 && w.rest[0] == "default" {
		w.rest = w.rest[1:]
		return Any
	}
	return w.number("profile")
}

// Parse reads a request's line, without its newline. The error is a
// *SyntaxError, and the Command is then zero.
func Parse(line string) (Command, error) {
	if len(line) >= MaxLine {
		return Command{}, &SyntaxError{Line: line[:40] + "…", Why: fmt.Sprintf("longer than %d bytes", MaxLine-1)}
	}
	w := &words{line: line, rest: strings.Split(line, " ")}
	c := Command{Verb: Verb(w.next("verb"))}
	if c.Verb != SetVFs && c.Verb != MakeNodes {
		c.GPU = w.gpu()
	}
	switch c.Verb {
	case SetMIGMode, SetPersistence:
		c.On = w.flag()
	case CreateGI:
		c.Profile, c.Start = w.number("profile"), Any
		if len(w.rest) > 0 {
			c.Start = w.number("memory slice")
		}
	case CreateCI:
		c.GI, c.Profile = w.number("GPU instance"), w.profile()
	case DestroyGI:
		c.GI = w.number("GPU instance")
	case DestroyCI:
		c.GI, c.CI = w.number("GPU instance"), w.number("compute instance")
	case SetVFs:
		c.PF, c.VFs = w.bdf("PCI address"), w.number("number of virtual functions")
	case MakeNodes:
		c.Group = w.next("group")
		if !slices.Contains(Groups, c.Group) {
			w.bad("%q is none of %s", c.Group, strings.Join(Groups, ", "))
		}
	case Reset:
	default:
		w.why = fmt.Sprintf("unknown verb %q", string(c.Verb))
	}
	if len(w.rest) > 0 {
		w.bad("%q is too much", w.rest[0])
	}
	if w.why != "" {
		return Command{}, &SyntaxError{Line: line, Why: w.why}
	}
	return c, nil
}
