package profiles_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"gpurig/core/strictdoc"
	"gpurig/fakehw/profiles"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(profiles.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("profile.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("profile.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON reads a YAML file the way an editor's schema check would.
func asJSON(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryShippedProfileMatchesTheSchema(t *testing.T) {
	s := schema(t)
	for _, name := range profiles.Names() {
		if err := s.Validate(asJSON(t, "data/"+name+".yaml")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrong by itself, the schema refuses too, so that an editor shows it.
func TestTheSchemaRefusesWhatIsMalformed(t *testing.T) {
	s := schema(t)
	for _, name := range []string{"b47-too-many-gpus", "b47-paths"} {
		if err := s.Validate(asJSON(t, filepath.Join("testdata/bad", name+".yaml"))); err == nil {
			t.Errorf("%s: the schema has nothing against it", name)
		}
	}
}

// The decoder names its keys when it meets one that it does not know: they are
// those of the schema, at every level, and each has a description.
func TestSchemaAndDecoderKnowTheSameKeys(t *testing.T) {
	type object struct {
		Description string                     `json:"description"`
		Properties  map[string]json.RawMessage `json:"properties"`
		Items       json.RawMessage            `json:"items"`
		Each        json.RawMessage            `json:"additionalProperties"`
	}
	check := func(text, want string) {
		t.Helper()
		_, err := profiles.Parse("f.yaml", []byte(text))
		ps, _ := errors.AsType[strictdoc.Problems](err)
		i := slices.IndexFunc(ps, func(p *strictdoc.Problem) bool { return strings.HasSuffix(p.Msg, `unknown key "zz"`) })
		if i < 0 {
			t.Errorf("%s: Parse = %v; want an unknown key", text, err)
			return
		}
		known := strings.Split(strings.TrimSuffix(strings.TrimPrefix(ps[i].Hint, "Known here: "), "."), ", ")
		if slices.Sort(known); strings.Join(known, ", ") != want {
			t.Errorf("%s: the schema has [%s], the decoder says: %s", text, want, ps[i].Hint)
		}
	}
	checked := 0
	var walk func(raw json.RawMessage, around func(string) string)
	walk = func(raw json.RawMessage, around func(string) string) {
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			return // false, which allows nothing
		}
		if len(o.Properties) > 0 {
			check(around("{zz: 1}"), strings.Join(slices.Sorted(maps.Keys(o.Properties)), ", "))
			checked++
		}
		for name, raw := range o.Properties {
			var p object
			if err := json.Unmarshal(raw, &p); err != nil || p.Description == "" {
				t.Errorf("%s has no description: %v", name, err)
			}
			walk(raw, func(s string) string { return around("{" + name + ": " + s + "}") })
		}
		walk(o.Items, func(s string) string { return around("[" + s + "]") })
		walk(o.Each, func(s string) string { return around("{a: " + s + "}") })
	}
	walk(profiles.Schema, func(s string) string { return s })
	if checked < 10 {
		t.Errorf("only %d objects of the schema were compared", checked)
	}
}
