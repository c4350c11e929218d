// Package policyfile reads the file with which an administrator extends the
// policy of a host: YAML, one list of names for each key of policy.Policy.
//
//	drivers: [vfio]             # more names of /proc/devices
//	sources: [/srv/vendor]      # more host paths that may be mounted
//	environment: [VENDOR_MODE]  # more variables
//
// Reading is strict: any mistake is refused with its position, and then the whole
// file is ignored.
package policyfile

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"

	"gpurig/core/host"
	"gpurig/core/policy"
	"gpurig/core/refuse"
	"gpurig/core/strictdoc"
)

// maxSize bounds a file, in bytes.
const maxSize = 64 << 10

// form is how the file is written. NO and 1 are names as well as others.
var form = strictdoc.New[policy.Policy](strictdoc.Options{What: "policy", Bytes: maxSize, Entries: 1000, Empty: true, Words: true})

// Why a file is not used.
const (
	ReasonPolicy    refuse.Reason = "bad-policy"
	ReasonUntrusted refuse.Reason = "policy-untrusted"
)

// Reasons lists them.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonPolicy, Meaning: "The policy file has a mistake, or allows something that no policy may allow."},
		{Reason: ReasonUntrusted, Meaning: "Users other than root can write to the policy file of the host."},
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
		return policy.Policy{}, refuse.New(ReasonUntrusted, policy.File, "%s", why).WithHint("Make root its owner, and let only root write to it.")
	}
	info, err := root.Lstat(real)
	switch {
	case err != nil:
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "cannot be read").WithErr(err)
	case !info.Mode.IsRegular():
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "is not a regular file")
	case info.Size > maxSize:
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "is larger than %d bytes", maxSize)
	}
	data, err := root.ReadFile(real)
	if err != nil {
		return policy.Policy{}, refuse.New(ReasonPolicy, policy.File, "cannot be read").WithErr(err)
	}
	return Parse(data, policy.File)
}

// Parse reads a policy. name is the file's, for messages. The error joins one
// *refuse.Error for each problem, whose cause is a *strictdoc.Problem with its
// place; with an error there is no policy. A file without any key is one that
// widens nothing.
func Parse(data []byte, name string) (policy.Policy, error) {
	var p policy.Policy
	d, ok := form.Read(name, data, &p)
	if ok {
		check(d, p)
	}
	problems, bad := errors.AsType[strictdoc.Problems](d.Err())
	if !bad {
		return p, nil
	}
	refusals := make([]*refuse.Error, len(problems))
	for i, problem := range problems {
		refusals[i] = &refuse.Error{Reason: ReasonPolicy, Hint: problem.Hint, Err: problem}
	}
	return policy.Policy{}, refuse.Join(refusals...)
}

// check places what is written twice, and what the policy itself finds wrong.
func check(d *strictdoc.Doc, p policy.Policy) {
	v := reflect.ValueOf(p)
	for _, f := range form.Fields(v.Type()) {
		key, list := strictdoc.Path(f.Key), f.Of(v).Interface().([]string)
		for i, name := range list {
			if slices.Contains(list[:i], name) {
				d.At(key.Item(i), "Keep one of the two.", "%s: %+q occurs twice", key.Item(i), name)
			}
		}
	}
	if joined, ok := p.Validate().(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if f, ok := errors.AsType[*policy.FieldError](err); ok {
				d.At(strictdoc.Path(f.Field), "", "%s: %s", f.Field, f.Why)
			}
		}
	}
}
