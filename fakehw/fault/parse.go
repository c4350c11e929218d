package fault

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/device"
	"gpurig/core/pci"
	"gpurig/core/suggest"
	"gpurig/fakehw/nvmlfake"
)

// ErrSyntax marks text that is no fault.
var ErrSyntax = errors.New("not a fault")

const maxText = 4096 // bytes of one fault

// Parse reads the text form of a fault. The error is an *Error that wraps
// ErrSyntax and says which forms there are.
func Parse(text string) (Fault, error) {
	name, args, colon := strings.Cut(text, ":")
	fail := func(err error, hint string) (Fault, error) {
		if len(text) > 80 {
			text = text[:80] + "…"
		}
		return Fault{}, &Error{Text: text, Err: fmt.Errorf("%w: %w", ErrSyntax, err), Hint: hint}
	}
	if len(text) > maxText {
		return fail(fmt.Errorf("it has %d bytes, at most %d", len(text), maxText), "")
	}
	i := rank(name)
	if i < 0 {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		return fail(unknownKind{name, suggest.Nearest(name, names, 1)}, "There are "+strings.Join(names, ", ")+"; gpurig host fault --list explains them.")
	}
	k := kinds[i]
	hint := "Write " + k.Form + ", such as " + k.Example + "."
	if colon && args == "" {
		return fail(errors.New("there is nothing after the colon"), hint)
	}
	f := Fault{kind: name}
	if err := k.parse(&f, args); err != nil {
		return fail(err, hint)
	}
	return f, nil
}

// An unknownKind says that there is no such kind of fault, and which may be meant.
type unknownKind struct {
	name string
	near []string // the likeliest, if any is likely
}

func (u unknownKind) Error() string {
	text := fmt.Sprintf("unknown fault %.80q", u.name)
	if len(u.near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", u.near[0])
	}
	return text
}

// Check says what is wrong with the text of a fault, what to do included.
func Check(text string) error {
	_, err := Parse(text)
	if e, ok := errors.AsType[*Error](err); ok {
		return fmt.Errorf("%w. %s", e, e.Hint)
	}
	return nil
}

func nothing(_ *Fault, args string) error {
	if args != "" {
		return fmt.Errorf("it takes no argument, not %q", args)
	}
	return nil
}

func optionalGPU(f *Fault, args string) error {
	if args == "" {
		return nil
	}
	return gpu(f, args)
}

// gpu reads an NVML index or a PCI address.
func gpu(f *Fault, s string) error {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		f.gpu = strconv.FormatUint(n, 10)
		return nil
	}
	a, err := pci.ParseBDF(s)
	if err != nil {
		return fmt.Errorf("%q is neither an NVML index nor a PCI address", s)
	}
	f.gpu = a.String()
	return nil
}

// version reads a driver version or branch. Which ones there are is the
// catalogue's affair.
func version(f *Fault, s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) {
		return fmt.Errorf("%q is no driver version, such as 570 or 550.163.01", s)
	}
	f.name = s
	return nil
}

func absolute(f *Fault, s string) error {
	if s == "" || !path.IsAbs(s) || path.Clean(s) != s || s == "/" || control(s) {
		return fmt.Errorf("%q is no clean absolute path", s)
	}
	f.name = s
	return nil
}

func control(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '�' })
}

// pattern reads a pattern of path.Match below /dev.
func pattern(f *Fault, s string) error {
	if s == "" {
		return nil
	}
	if _, err := path.Match(s, ""); err != nil || !strings.HasPrefix(s, "/dev/") || control(s) {
		return fmt.Errorf("%q is no pattern of paths below /dev", s)
	}
	f.name = s
	return nil
}

// major reads DRIVER=MAJOR.
func major(f *Fault, s string) error {
	name, number, ok := strings.Cut(s, "=")
	if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q does not say which driver has which major", s)
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || n > device.MaxMajor {
		return fmt.Errorf("%q is no major, 1 to %d", number, device.MaxMajor)
	}
	f.name, f.major = name, uint32(n)
	return nil
}

// node reads PATH,key=value…
func node(f *Fault, s string) error {
	p, rest, _ := strings.Cut(s, ",")
	if err := absolute(f, p); err != nil {
		return err
	}
	if !strings.HasPrefix(p, "/dev/") {
		return fmt.Errorf("%q is not below /dev", p)
	}
	if rest == "" {
		return errors.New("nothing is said of the node")
	}
	for word := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(word, "=")
		base, bits, to, has := 10, 32, &f.node.uid, &f.node.hasUID
		switch key {
		case "uid":
		case "gid":
			to, has = &f.node.gid, &f.node.hasGID
		case "mode":
			base, bits, to, has = 8, 9, &f.node.mode, &f.node.hasMode
		default:
			return fmt.Errorf("unknown key %q: want mode, uid or gid", key)
		}
		n, err := strconv.ParseUint(value, base, bits)
		if err != nil || n == 1<<32-1 { // (uid_t)-1 is nobody's id
			return fmt.Errorf("%s %q is no number that it can be", key, value)
		}
		if *has {
			return fmt.Errorf("%s is given twice", key)
		}
		*to, *has = uint32(n), true
	}
	return nil
}

// nvmlCall reads CALL=CODE and CALL:GPU=CODE.
func nvmlCall(f *Fault, s string) error {
	at := strings.LastIndexByte(s, '=')
	if at < 0 {
		return fmt.Errorf("%q does not say what the call returns", s)
	}
	call, which, about := strings.Cut(s[:at], ":")
	var err error
	if f.name, err = callName(call); err != nil {
		return err
	}
	if about {
		if err := gpu(f, which); err != nil {
			return err
		}
	}
	switch of := slices.ContainsFunc([]string{"Device", "Gpu", "ComputeInstance", "*"}, func(p string) bool { return strings.HasPrefix(f.name, p) }); {
	case about && !of:
		return fmt.Errorf("%q is no call about one GPU", call)
	case !about && f.name == "*":
		return errors.New("\"*\" needs the GPU that it is about")
	}
	f.code, err = parseCode(s[at+1:])
	return err
}

// xid reads GPU=CODE.
func xid(f *Fault, s string) error {
	which, number, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q does not say which GPU has which Xid", s)
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || n > nvmlfake.MaxXid {
		return fmt.Errorf("%q is no Xid, 1 to %d", number, nvmlfake.MaxXid)
	}
	f.code = nvml.Return(n)
	return gpu(f, which)
}
