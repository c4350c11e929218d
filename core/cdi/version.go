package cdi

import (
	"cmp"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// versions returns the CDI versions there are, oldest first.
func versions() []string {
	return []string{"0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"}
}

// version checks that the version is one that exists and that it has every
// field in use.
func (v *validator) version(spec *specs.Spec) {
	have := slices.Index(versions(), strings.TrimPrefix(spec.Version, "v"))
	if have < 0 {
		all := versions()
		v.add(ReasonSpecVersion, "cdiVersion", "", "is %s, want a version from %s to %s", quote(spec.Version), all[0], all[len(all)-1])
		return
	}
	if n := newest(spec); slices.Index(versions(), n.version) > have {
		v.add(ReasonSpecVersion, "cdiVersion", "Write cdiVersion: "+n.version+".", "is %s, but %s needs %s", quote(spec.Version), n.field, n.version)
	}
}

// MinimumVersion returns the oldest CDI version that has every field that spec
// uses, from "0.3.0".
//
// The CDI library's function of that purpose (specs-go up to v1.1.1) looks for
// hostPath and mount types in the last device only, because its module declares
// Go 1.19, where a loop has one variable; its answer can be too old.
func MinimumVersion(spec *specs.Spec) string { return newest(spec).version }

// A need says that a field of the Spec came with a version.
type need struct{ version, field string }

// newest returns the need of the newest version, the first one in the Spec.
func newest(spec *specs.Spec) need {
	n := need{version: versions()[0]}
	n.atLeast("0.6.0", len(spec.Annotations) > 0, "annotations")
	_, class, _ := strings.Cut(spec.Kind, "/")
	n.atLeast("0.6.0", strings.Contains(class, "."), "the dot in the class of the kind")
	n.edits(&spec.ContainerEdits, "containerEdits")
	for i := range spec.Devices {
		d, p := &spec.Devices[i], at("devices", i)
		n.atLeast("0.6.0", len(d.Annotations) > 0, p+".annotations")
		n.atLeast("0.5.0", d.Name != "" && isDigit(rune(d.Name[0])), p+".name, which begins with a digit,")
		n.edits(&d.ContainerEdits, p+".containerEdits")
	}
	return n
}

func (n *need) edits(e *specs.ContainerEdits, p string) {
	rdt := e.IntelRdt
	n.atLeast("1.1.0", len(e.NetDevices) > 0, p+".netDevices")
	n.atLeast("1.1.0", rdt != nil && (rdt.Schemata != nil || rdt.EnableMonitoring), p+".intelRdt")
	n.atLeast("0.7.0", rdt != nil, p+".intelRdt")
	n.atLeast("0.7.0", len(e.AdditionalGIDs) > 0, p+".additionalGids")
	for i, d := range e.DeviceNodes {
		if d != nil && d.HostPath != "" {
			n.atLeast("0.5.0", true, at(p+".deviceNodes", i)+".hostPath")
		}
	}
	for i, m := range e.Mounts {
		if m != nil && m.Type != "" {
			n.atLeast("0.4.0", true, at(p+".mounts", i)+".type")
		}
	}
}

func (n *need) atLeast(version string, used bool, field string) {
	// Versions compare as text: every part of every version has one digit.
	if used && cmp.Compare(version, n.version) > 0 {
		*n = need{version, field}
	}
}
