package vfio

import (
	"strconv"
	"testing"
)

func TestParseCreatable(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		ids      []string // types
		bad      string
	}{
		{"a table", "ID    : vGPU Name\n1147  : NVIDIA L40S-1Q\n1428  : NVIDIA H200X-141C\n", []string{"1147", "1428"}, ""},
		{"the other spelling", "ID  : VGPU Name\n1414  : NVIDIA H200X-1-18C", []string{"1414"}, ""},
		{"nothing left", "ID    : vGPU Name\n", nil, ""},
		{"an empty file", "", nil, ""},
		{"a name with a colon", "7 : A: B\n", []string{"7"}, ""},
		{"no number", "ID : vGPU Name\nx : A\n", nil, "x : A\n"},
		{"no name", "7 :\n", nil, "7 :\n"},
		{"no type", "0 : none\n", nil, "0 : none\n"},
		{"a number of another form", "007 : A\n", nil, "007 : A\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, bad := parseCreatable(tc.in)
			var ids []string
			for _, k := range got {
				ids = append(ids, k.id)
			}
			if bad != tc.bad || len(ids) != len(tc.ids) {
				t.Fatalf("parseCreatable(%q) = %v, %q; want %v, %q", tc.in, got, bad, tc.ids, tc.bad)
			}
			for i := range ids {
				if ids[i] != tc.ids[i] {
					t.Errorf("parseCreatable(%q) = %v; want %v", tc.in, ids, tc.ids)
				}
			}
		})
	}
}

// Names are compared whole: the lists of two types are disjoint (vgpu-type-list-shared).
func TestTypeIsTheOneAskedFor(t *testing.T) {
	small, large := vgpuType{id: "nvidia-560", name: "NVIDIA A40-4Q"}, vgpuType{id: "nvidia-566", name: "NVIDIA A40-48Q"}
	for asked, want := range map[string][2]bool{
		"nvidia-560": {true, false}, "A40-4Q": {true, false}, "A40-48Q": {false, true}, "A40-4": {}, "NVIDIA": {}, "560": {}, "": {}, "a40-4q": {},
	} {
		if got := [2]bool{small.is(asked), large.is(asked)}; got != want {
			t.Errorf("%q is %v; want %v", asked, got, want)
		}
	}
	vendor := vgpuType{id: "1147", name: "NVIDIA L40S-1Q"}
	for asked, want := range map[string]bool{"1147": true, "nvidia-1147": true, "L40S-1Q": true, "114": false, "vidia-1147": false} {
		if vendor.is(asked) != want {
			t.Errorf("%q is %v; want %v", asked, !want, want)
		}
	}
}

func FuzzParseCreatable(f *testing.F) {
	for _, seed := range []string{"ID    : vGPU Name\n1147  : NVIDIA L40S-1Q\n", "ID : x\n", "1 : a\n2 : b", ":", "99999999999999999999 : A\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		types, bad := parseCreatable(text)
		if bad != "" && types != nil {
			t.Fatalf("parseCreatable(%q) returned %v along with the bad line %q", text, types, bad)
		}
		for _, k := range types {
			if n, err := strconv.Atoi(k.id); err != nil || n <= 0 || strconv.Itoa(n) != k.id || k.name == "" {
				t.Fatalf("parseCreatable(%q) has the type %+v", text, k)
			}
			s := step{kind: vgpu}
			s.n, _ = strconv.Atoi(k.id)
			if got, err := parseStep(s.write()); err != nil || got != s {
				t.Fatalf("type %+v makes no write of a plan: %v", k, err)
			}
		}
	})
}
