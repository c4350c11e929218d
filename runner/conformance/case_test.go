package conformance_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/runner/conformance"
)

func cases(t *testing.T) []conformance.Case {
	t.Helper()
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fields are those of a type of the CDI specification, by their names in a Spec.
func fields(t reflect.Type, prefix string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{strings.TrimSuffix(prefix, ".")}
	}
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "containerEdits" {
			name = "" // they are named alone
		}
		at := prefix + name
		if name != "" {
			at += "."
		} else {
			at = ""
		}
		out = append(out, fields(t.Field(i).Type, at)...)
	}
	return out
}

// Every field of the CDI schema has a case.
func TestEveryFieldHasACase(t *testing.T) {
	all := cases(t)
	want := slices.Compact(slices.Sorted(slices.Values(fields(reflect.TypeFor[specs.Spec](), ""))))
	if len(want) < 25 {
		t.Fatalf("the specification has the fields %q alone", want)
	}
	for _, field := range want {
		if !slices.ContainsFunc(all, func(c conformance.Case) bool {
			return c.Field == field || strings.HasPrefix(c.Field, field+" ") || strings.HasPrefix(c.Field, field+":")
		}) {
			t.Errorf("no case for %s", field)
		}
	}
}

// Every case is a Spec that our own reader takes, of the oldest version that has its field.
func TestCasesAreSpecs(t *testing.T) {
	for _, c := range cases(t) {
		if gone(c.Name) {
			continue
		}
		s, err := cdi.Parse([]byte(c.Spec), c.Name+".yaml")
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if min := cdi.MinimumVersion(s); min != s.Version && !strings.HasPrefix(c.Field, "cdiVersion") && min > s.Version {
			t.Errorf("%s: version %s; its field came with %s", c.Name, s.Version, min)
		}
	}
}

// gone reports whether a case has a field that only versions before 1.1.0 have. The
// library, and so our reader, refuses it in every version from 1.1.0 of its own on.
func gone(name string) bool { return name == "rdt-enable-cmt" || name == "rdt-enable-mbm" }

func TestJudge(t *testing.T) {
	one := conformance.Case{Want: []conformance.Want{{At: "a.b[k=v].c", Is: 416, Without: 438}}}
	for _, tc := range []struct {
		config string
		want   conformance.Outcome
	}{
		{`{"a":{"b":[{"k":"x","c":1},{"k":"v","c":416}]}}`, conformance.Applied},
		{`{"a":{"b":[{"k":"v","c":438}]}}`, conformance.Dropped},
		{`{"a":{"b":[{"k":"v"}]}}`, conformance.Dropped},
		{`{"a":{"b":[{"k":"x","c":416}]}}`, conformance.Dropped},
		{`{}`, conformance.Dropped},
		{`{"a":{"b":[{"k":"v","c":1}]}}`, conformance.Wrong},
		{`{`, conformance.Broken},
	} {
		if got, why := one.Judge([]byte(tc.config)); got != tc.want || (why == "") != (got == conformance.Applied) {
			t.Errorf("Judge(%s) = %s, %q; want %s", tc.config, got, why, tc.want)
		}
	}
	list := conformance.Case{Want: []conformance.Want{{At: "e", Has: "A=b"}}}
	for config, want := range map[string]conformance.Outcome{`{"e":["A=b"]}`: conformance.Applied, `{"e":["A"]}`: conformance.Dropped, `{"e":"A=b"}`: conformance.Dropped} {
		if got, _ := list.Judge([]byte(config)); got != want {
			t.Errorf("Judge(%s) = %s; want %s", config, got, want)
		}
	}
}

// The reference implementation applies every case but these: what else it does not is a
// case of ours that is wrong. A mount without options is a bind mount that it does not say.
func TestTheLibraryAppliesAll(t *testing.T) {
	l, err := conformance.Library()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	col, err := conformance.Run(t.Context(), l, cases(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range col.Results {
		want := conformance.Applied
		switch {
		case gone(r.Case):
			want = conformance.Refused
		case r.Case == "mount-without-options":
			want = conformance.Wrong
		}
		if r.Outcome != want {
			got = append(got, fmt.Sprintf("%s: %s: %s", r.Case, r.Outcome, r.Why))
		}
	}
	if len(got) > 0 {
		t.Errorf("%s %s:\n%s", col.Consumer, col.Version, strings.Join(got, "\n"))
	}
}

// The table in docs has every case, so that a new one is not forgotten there.
func TestTheTableHasEveryCase(t *testing.T) {
	table, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases(t) {
		if !strings.Contains(string(table), "| "+c.Field+" | `"+c.Name+"` |") {
			t.Errorf("docs/conformance.md has no row for %s: make conformance", c.Name)
		}
	}
}

// A consumer that is at hand answers: no case is broken, and nothing is left.
func TestConsumersAtHand(t *testing.T) {
	for _, name := range []string{"gpurig", "podman", "nvidia"} {
		t.Run(name, func(t *testing.T) {
			by, err := conformance.Open(t.Context(), name)
			if missing, ok := errors.AsType[*conformance.Missing](err); ok {
				t.Skip(missing)
			}
			if err != nil {
				t.Fatal(err)
			}
			some := slices.DeleteFunc(cases(t), func(c conformance.Case) bool {
				return c.Name != "node-uid" && c.Name != "env" && c.Name != "hook-prestart"
			})
			col, err := conformance.Run(t.Context(), by, some)
			if err = errors.Join(err, by.Close()); err != nil {
				t.Fatal(err)
			}
			for _, r := range col.Results {
				if refuses := name == "gpurig" && r.Case == "hook-prestart"; r.Outcome == conformance.Broken || (r.Outcome == conformance.Applied) == refuses {
					t.Errorf("%s: %s: %s", r.Case, r.Outcome, r.Why)
				}
			}
		})
	}
}

// What a report says is the same in every format, and can be read again.
func TestReport(t *testing.T) {
	r := conformance.Report{Date: "2026-01-02", Columns: []conformance.Column{{Consumer: "one", Version: "1.0", Results: []conformance.Result{
		{Case: "a", Field: "env", Outcome: conformance.Applied}, {Case: "b", Field: "uid", Outcome: conformance.Dropped, Why: "uid of b is <0>"},
	}}}}
	texts := map[string]string{}
	for _, format := range conformance.Formats {
		var b strings.Builder
		if err := r.Write(&b, "x"+format); err != nil {
			t.Fatal(err)
		}
		texts[format] = b.String()
		for _, want := range []string{"2026-01-02", "uid", "dropped"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s has no %s:\n%s", format, want, b.String())
			}
		}
	}
	if again, err := conformance.Read([]byte(texts[".json"])); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if !strings.Contains(texts[".md"], "- `b`: dropped: uid of CASE is &lt;0>") {
		t.Error(texts[".md"])
	}
	if err := conformance.CheckFile("x.txt"); err == nil {
		t.Error("x.txt is taken")
	}
}
