package translate_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/translate"
)

// samples give each field of the CDI schema a value that differs from what base
// has and that a Spec may have. A field without a sample fails the test, so a
// field that a new schema adds cannot be dropped.
var samples = map[string]any{
	"Env[]":                               "NVIDIA_OTHER=1",
	"DeviceNodes[].Path":                  "/dev/nvidia7",
	"DeviceNodes[].HostPath":              "/dev/nvidia1",
	"DeviceNodes[].Type":                  "b",
	"DeviceNodes[].Major":                 int64(511),
	"DeviceNodes[].Minor":                 int64(5),
	"DeviceNodes[].FileMode":              ptr(fs.FileMode(0o600)),
	"DeviceNodes[].Permissions":           "r",
	"DeviceNodes[].UID":                   ptr(uint32(7)),
	"DeviceNodes[].GID":                   ptr(uint32(7)),
	"NetDevices[].HostInterfaceName":      "eth0",
	"NetDevices[].Name":                   "eth1",
	"Hooks[].HookName":                    "poststop",
	"Hooks[].Path":                        "/opt/nvidia-ctk2",
	"Hooks[].Args[]":                      "chmod",
	"Hooks[].Env[]":                       "LD_PRELOAD=/x",
	"Hooks[].Timeout":                     ptr(-5),
	"Mounts[].HostPath":                   "/usr/share/vulkan/icd.d/nvidia_icd.json",
	"Mounts[].ContainerPath":              "/usr/bin/other",
	"Mounts[].Options[]":                  "noexec",
	"Mounts[].Type":                       "tmpfs",
	"IntelRdt.ClosID":                     "x",
	"IntelRdt.L3CacheSchema":              "x",
	"IntelRdt.MemBwSchema":                "x",
	"IntelRdt.Schemata[]":                 "x",
	"IntelRdt.EnableMonitoring":           true,
	"AdditionalGIDs[]":                    uint32(44),
	"Spec.Annotations/Device.Annotations": nil, // TestAnnotationsAreNoted
}

// base is a whole set of edits in which every list has one entry.
func base() *specs.ContainerEdits {
	return &specs.ContainerEdits{
		Env:         []string{"NVIDIA_X=1"},
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", Permissions: "rw"}},
		Hooks:       []*specs.Hook{hook("update-ldcache", "--folder", lib)},
		Mounts:      []*specs.Mount{{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/usr/bin/nvidia-smi", Options: []string{"ro"}}},
	}
}

// outcome is all that Edits says, as one text.
func outcome(t *testing.T, e *specs.ContainerEdits) string {
	t.Helper()
	p, err := translate.Edits(newHost(t), []cdi.Edits{one(e)}, translate.Options{})
	data, jsonErr := json.Marshal(p)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	return fmt.Sprintf("%s %v", data, err)
}

// Each field of the CDI schema, set alone, changes the plan, the notes or the
// refusals: none is dropped.
func TestNoFieldIsDropped(t *testing.T) {
	before := outcome(t, base())
	seen := 0
	for _, path := range leaves(reflect.TypeFor[specs.ContainerEdits](), "") {
		sample, ok := samples[path]
		if !ok {
			t.Errorf("field %s of the CDI schema has no sample: is it carried out, refused or noted?", path)
			continue
		}
		seen++
		e := base()
		set(reflect.ValueOf(e).Elem(), path, reflect.ValueOf(sample))
		if outcome(t, e) == before {
			t.Errorf("field %s set to %v changes nothing: it is dropped", path, sample)
		}
	}
	if seen != len(samples)-1 {
		t.Errorf("%d fields were set, samples has %d: the schema lost one", seen, len(samples)-1)
	}
}

// The fields of the schema outside container edits: names, which are how a
// device is asked for, and annotations.
func TestFieldsOutsideEditsAreKnown(t *testing.T) {
	for typ, want := range map[reflect.Type][]string{
		reflect.TypeFor[specs.Spec]():   {"Version", "Kind", "Annotations", "Devices", "ContainerEdits"},
		reflect.TypeFor[specs.Device](): {"Name", "Annotations", "ContainerEdits"},
	} {
		var got []string
		for i := range typ.NumField() {
			got = append(got, typ.Field(i).Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has fields %v, want %v", typ, got, want)
		}
	}
}

func TestAnnotationsAreNoted(t *testing.T) {
	e := one(base())
	e.Annotations = map[string]string{"b": "1", "a": "2"}
	p := mustEdits(t, newHost(t), translate.Options{}, e)
	var got []string
	for _, n := range p.Notes {
		if n.Reason == translate.ReasonAnnotation {
			got = append(got, n.What)
		}
	}
	if !slices.Equal(got, []string{`annotation "a"`, `annotation "b"`}) {
		t.Errorf("annotations noted: %q", got)
	}
}

// A hook's environment and timeout that mean nothing here are noted, once.
func TestHookLeftoversAreNoted(t *testing.T) {
	p := mustEdits(t, newHost(t), translate.Options{}, commonEdits())
	var got []string
	for _, n := range p.Notes {
		if n.Reason == translate.ReasonNeverRun {
			got = append(got, n.What)
		}
	}
	if !slices.Equal(got, []string{"program, environment and timeout of 5 hooks"}) {
		t.Errorf("notes about hooks: %q", got)
	}
}

// leaves names the settable fields of a type: "Mounts[].HostPath".
func leaves(typ reflect.Type, at string) []string {
	switch {
	case typ.Kind() == reflect.Pointer && typ.Elem().Kind() == reflect.Struct:
		return leaves(typ.Elem(), at)
	case typ.Kind() == reflect.Slice:
		return leaves(typ.Elem(), at+"[]")
	case typ.Kind() != reflect.Struct:
		return []string{at}
	}
	var out []string
	for i := range typ.NumField() {
		out = append(out, leaves(typ.Field(i).Type, strings.TrimPrefix(at+"."+typ.Field(i).Name, "."))...)
	}
	return out
}

// set sets the field at path; of a list, the first entry of structures and one
// more of plain values. Missing structures are made.
func set(v reflect.Value, path string, to reflect.Value) {
	if path == "" {
		v.Set(to)
		return
	}
	if rest, ok := strings.CutPrefix(path, "[]"); ok {
		if rest == "" || v.Len() == 0 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
		set(v.Index(v.Len()-1), strings.TrimPrefix(rest, "."), to)
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	set(v.FieldByName(path[:end]), strings.TrimPrefix(path[end:], "."), to)
}
