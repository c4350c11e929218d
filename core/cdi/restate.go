package cdi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
)

// Restate returns spec in the words of an older version, for consumers that read no newer
// one. What the version has no word for and a container can do without is left out and
// named: additional groups, which a manager can give by itself, and annotations.
// Everything else is refused. spec is not changed.
func Restate(spec *specs.Spec, version string) (_ *specs.Spec, left []string, err error) {
	all := versions()
	if !slices.Contains(all, version) {
		return nil, nil, refuse.New(ReasonSpecVersion, "cdiVersion", "%s is no version, want one from %s to %s", quote(version), all[0], all[len(all)-1])
	}
	out := *spec
	out.Version = version
	out.Devices = slices.Clone(spec.Devices)
	annotated := func(list *map[string]string, p string) {
		if len(*list) > 0 && cmp.Less(version, "0.6.0") {
			left, *list = append(left, p+"annotations"), nil
		}
	}
	groups := func(e *specs.ContainerEdits, p string) {
		if len(e.AdditionalGIDs) > 0 && cmp.Less(version, "0.7.0") {
			left = append(left, fmt.Sprintf("%scontainerEdits.additionalGids %s", p, strings.Trim(fmt.Sprint(e.AdditionalGIDs), "[]")))
			e.AdditionalGIDs = nil
		}
	}
	annotated(&out.Annotations, "")
	groups(&out.ContainerEdits, "")
	for i := range out.Devices {
		p := fmt.Sprintf("device %s: ", out.Devices[i].Name)
		annotated(&out.Devices[i].Annotations, p)
		groups(&out.Devices[i].ContainerEdits, p)
	}
	if n := newest(&out); cmp.Less(version, n.version) {
		return nil, nil, refuse.New(ReasonSpecVersion, "cdiVersion", "%s cannot say %s, which needs %s", version, strings.TrimSuffix(n.field, ","), n.version)
	}
	return &out, left, nil
}
