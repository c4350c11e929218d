package cdi

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/refuse"
)

// A Problem is something wrong with one Spec, one file or one directory. It is
// a refusal as a value to list and store.
type Problem struct {
	Path   string        `json:"path,omitempty" yaml:"path,omitempty"`   // file or directory; empty: a Spec from no file
	Where  string        `json:"where,omitempty" yaml:"where,omitempty"` // "12:7: devices[1].name", or the field alone
	Reason refuse.Reason `json:"reason" yaml:"reason"`
	Msg    string        `json:"message" yaml:"message"`
	Hint   string        `json:"hint,omitempty" yaml:"hint,omitempty"`
	Note   bool          `json:"note,omitempty" yaml:"note,omitempty"` // for information: nothing is missing
}

// Refusal returns p as an error.
func (p Problem) Refusal() *refuse.Error {
	where := p.Path
	switch {
	case where == "":
		where = p.Where
	case p.Where != "" && isDigit(rune(p.Where[0])): // "12:7: …" continues the file's name
		where += ":" + p.Where
	case p.Where != "":
		where += ": " + p.Where
	}
	return &refuse.Error{Reason: p.Reason, Where: where, Msg: p.Msg, Hint: p.Hint}
}

func (p Problem) String() string { return p.Refusal().Error() }

// Validate returns what is wrong with a Spec that does not come from a file, in
// the order of its fields; nil means that it is valid: everything that the CDI
// schema requires, the version that its fields need, and the ranges of numbers,
// types, permissions, modes, names and paths.
//
// In a Spec that was read already, a device number of zero is one that was not
// given: a major alone has minor 0, as in Specs of NVIDIA's toolkit, and
// neither means that the host's node says it. A minor alone is half given.
func Validate(spec *specs.Spec) []Problem {
	if spec == nil {
		return []Problem{{Reason: ReasonSpecEmpty, Msg: "no Spec data"}}
	}
	var out []Problem
	found := validate(spec)
	for _, p := range found.problems {
		out = append(out, Problem{Where: p.field, Reason: p.reason, Msg: p.msg, Hint: p.hint})
	}
	if found.more > 0 {
		out = append(out, Problem{Reason: out[len(out)-1].Reason, Msg: fmt.Sprintf("and %d more problems", found.more)})
	}
	return out
}

// A validator collects problems of a typed Spec.
type validator struct{ found findings }

func validate(spec *specs.Spec) findings {
	v := &validator{}
	v.version(spec)
	v.kind(spec.Kind)
	v.annotations(spec.Annotations, "annotations")
	v.edits(&spec.ContainerEdits, "containerEdits")
	v.devices(spec.Devices)
	return v.found
}

func (v *validator) add(r refuse.Reason, field, hint, format string, args ...any) {
	v.found.add(fieldProblem{field: field, reason: r, hint: hint}, format, args...)
}

func (v *validator) kind(kind string) {
	vendor, class, ok := strings.Cut(kind, "/")
	why := checkKind(vendor, class)
	if !ok {
		why = "the class is missing"
	}
	if why != "" {
		v.add(ReasonSpecName, "kind", "Write vendor/class, for instance nvidia.com/gpu.", "is %s: %s", quote(kind), why)
	}
}

func (v *validator) devices(devs []specs.Device) {
	if len(devs) == 0 {
		v.add(ReasonSpecNoDevices, "devices", "", "the Spec defines no device")
	}
	first := map[string]int{}
	for i, d := range devs {
		p := at("devices", i)
		if why := checkPart("device", d.Name, MaxDevice, "_-.:", false); why != "" {
			v.add(ReasonSpecName, p+".name", "", "is %s: %s", quote(d.Name), why)
		}
		if j, twice := first[d.Name]; twice {
			v.add(ReasonSpecDuplicateDevice, p+".name", "", "is %s, as devices[%d] already is", quote(d.Name), j)
		} else {
			first[d.Name] = i
		}
		v.annotations(d.Annotations, p+".annotations")
		if noEdits(&d.ContainerEdits) {
			v.add(ReasonSpecNoEdits, p+".containerEdits", "", "the device %s changes nothing in a container", quote(d.Name))
		}
		v.edits(&d.ContainerEdits, p+".containerEdits")
	}
}

func noEdits(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

func (v *validator) edits(e *specs.ContainerEdits, p string) {
	v.env(e.Env, p+".env")
	for i, n := range e.DeviceNodes {
		if v.notNil(n != nil, at(p+".deviceNodes", i)) {
			v.node(n, at(p+".deviceNodes", i))
		}
	}
	v.netDevices(e.NetDevices, p+".netDevices")
	for i, h := range e.Hooks {
		if v.notNil(h != nil, at(p+".hooks", i)) {
			v.hook(h, at(p+".hooks", i))
		}
	}
	for i, m := range e.Mounts {
		if v.notNil(m != nil, at(p+".mounts", i)) {
			v.notEmpty(m.HostPath, at(p+".mounts", i)+".hostPath")
			v.notEmpty(m.ContainerPath, at(p+".mounts", i)+".containerPath")
		}
	}
	if e.IntelRdt != nil {
		v.closID(e.IntelRdt.ClosID, p+".intelRdt.closID")
	}
}

func (v *validator) notNil(ok bool, field string) bool {
	if !ok {
		v.add(ReasonSpecNull, field, "Leave the item out, or give it a value.", "is null")
	}
	return ok
}

func (v *validator) notEmpty(s, field string) bool {
	if s == "" {
		v.add(ReasonSpecMissingField, field, "", "is empty")
	}
	return s != ""
}

func (v *validator) env(env []string, p string) {
	for i, e := range env {
		if strings.IndexByte(e, '=') < 1 {
			v.add(ReasonSpecEnv, at(p, i), "A name without a value would take the value from the host.", "is %s, want NAME=VALUE", quote(e))
		}
	}
}

func (v *validator) node(n *specs.DeviceNode, p string) {
	if v.notEmpty(n.Path, p+".path") {
		v.nodePath(n.Path, p+".path")
	}
	if n.HostPath != "" {
		v.nodePath(n.HostPath, p+".hostPath")
	}
	switch n.Type {
	case "", "c", "u", "b": // whether a container gets a block device is policy
	case "p":
		v.add(ReasonSpecNodeType, p+".type", "", "is %q: only devices are passed to containers", n.Type)
	default:
		v.add(ReasonSpecNodeType, p+".type", `Write "c", or leave the type out.`, "is %s, want c, u or b", quote(n.Type))
	}
	v.numbers(n, p)
	v.permissions(n.Permissions, p+".permissions")
	if n.FileMode != nil && *n.FileMode > 0o777 {
		v.add(ReasonSpecMode, p+".fileMode", "Set-id and sticky bits have no meaning for a device node.", "is mode %#o: above 0777", uint32(*n.FileMode))
	}
}

// nodePath checks what a device path has to be for a reader to know which node
// is meant. Which nodes a container may have is policy, in package translate.
func (v *validator) nodePath(s, field string) {
	switch {
	case strings.ContainsAny(s, "*?[]{}"):
		v.add(ReasonSpecPath, field, "Name each node; a Spec has no patterns.", "is %s: patterns are not expanded", quote(s))
	case !path.IsAbs(s) || path.Clean(s) != s:
		v.add(ReasonSpecPath, field, "", "is %s, want an absolute path without //, . or ..", quote(s))
	}
}

func (v *validator) numbers(n *specs.DeviceNode, p string) {
	if n.Major < 0 || n.Major > device.MaxMajor {
		v.add(ReasonSpecNumber, p+".major", "", "is %d, want 0 to %d", n.Major, device.MaxMajor)
	}
	if n.Minor < 0 || n.Minor > device.MaxMinor {
		v.add(ReasonSpecNumber, p+".minor", "", "is %d, want 0 to %d", n.Minor, device.MaxMinor)
	}
	if n.Major == 0 && n.Minor > 0 {
		v.add(ReasonSpecNumber, p+".minor", "Give the major too, or neither: then the host's node says both.", "is %d without a major", n.Minor)
	}
}

func (v *validator) permissions(s, field string) {
	if s == "" || s == "none" {
		return
	}
	seen := ""
	for _, r := range s {
		if !strings.ContainsRune("rwm", r) || strings.ContainsRune(seen, r) {
			v.add(ReasonSpecPermissions, field, `Write "rw", or leave the permissions out.`, "is %s, want a set of r, w and m, or none", quote(s))
			return
		}
		seen += string(r)
	}
}

func (v *validator) hook(h *specs.Hook, p string) {
	names := []string{"createContainer", "createRuntime", "poststart", "poststop", "prestart", "startContainer"}
	if !slices.Contains(names, h.HookName) {
		v.add(ReasonSpecHook, p+".hookName", "The names are "+strings.Join(names, ", ")+".", "is %s, which CDI does not know", quote(h.HookName))
	}
	if v.notEmpty(h.Path, p+".path") && (!path.IsAbs(h.Path) || path.Clean(h.Path) != h.Path) {
		v.add(ReasonSpecPath, p+".path", "", "is %s, want an absolute path without //, . or ..", quote(h.Path))
	}
	v.env(h.Env, p+".env")
	if h.Timeout != nil && *h.Timeout < 0 {
		v.add(ReasonSpecHook, p+".timeout", "", "is %d, want seconds from 0", *h.Timeout)
	}
}

func (v *validator) closID(s, field string) {
	if s == "" || s == "/" {
		return
	}
	if len(s) > 255 || s == "." || s == ".." || strings.ContainsAny(s, "/\n") {
		v.add(ReasonSpecRDT, field, "", "is %s, want a file name or /", quote(s))
	}
}

func (v *validator) netDevices(devs []*specs.LinuxNetDevice, p string) {
	hosts, names := map[string]bool{}, map[string]bool{}
	for i, n := range devs {
		where := at(p, i)
		if !v.notNil(n != nil, where) {
			continue
		}
		if v.notEmpty(n.HostInterfaceName, where+".hostInterfaceName") && hosts[n.HostInterfaceName] {
			v.add(ReasonSpecNetDevice, where+".hostInterfaceName", "", "is %s a second time", quote(n.HostInterfaceName))
		}
		if v.notEmpty(n.Name, where+".name") && names[n.Name] {
			v.add(ReasonSpecNetDevice, where+".name", "", "is %s a second time", quote(n.Name))
		}
		hosts[n.HostInterfaceName], names[n.Name] = true, true
	}
}

// annotations checks keys as Kubernetes does: a name of at most 63 letters,
// digits and "-_.", after an optional DNS prefix and a slash.
func (v *validator) annotations(a map[string]string, p string) {
	keys := make([]string, 0, len(a))
	size := 0
	for k, val := range a {
		keys, size = append(keys, k), size+len(k)+len(val)
	}
	slices.Sort(keys)
	for _, k := range keys {
		prefix, name, ok := strings.Cut(k, "/")
		if !ok {
			prefix, name = "x", k
		}
		why := checkPart("prefix", strings.ToLower(prefix), MaxVendor, "-.", false)
		if why == "" {
			why = checkPart("name", name, MaxClass, "_-.", false)
		}
		if why != "" {
			v.add(ReasonSpecAnnotation, join(p, k), "", "the key is not allowed: %s", why)
		}
	}
	if most := 256 << 10; size > most {
		v.add(ReasonSpecAnnotation, p, "", "have "+strconv.Itoa(size)+" bytes, at most %d are allowed", most)
	}
}
