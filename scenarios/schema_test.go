package scenarios_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"gpurig/scenarios"
)

// schema compiles scenarios.Schema.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(scenarios.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return s.Validate(textKeys(doc))
}

// textKeys makes text of keys that are numbers, as an editor does.
func textKeys(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = textKeys(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = textKeys(v[k])
		}
	case map[any]any:
		out := map[string]any{}
		for k, e := range v {
			out[fmt.Sprint(k)] = textKeys(e)
		}
		return out
	}
	return v
}

// Every key of the Go types is in the schema with a description, and the schema
// has no other.
func TestTheSchemaAndTheTypesAgree(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(scenarios.Schema, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	compare(t, doc, doc, reflect.TypeFor[scenarios.Scenario](), "scenario", map[reflect.Type]bool{}, &n)
	if n < 80 {
		t.Errorf("only %d keys were compared; the walk does not reach all types", n)
	}
}

func compare(t *testing.T, doc, node map[string]any, typ reflect.Type, at string, seen map[reflect.Type]bool, n *int) {
	if ref, ok := node["$ref"].(string); ok {
		node = doc["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	switch typ.Kind() {
	case reflect.Pointer:
		compare(t, doc, node, typ.Elem(), at, seen, n)
	case reflect.Slice:
		compare(t, doc, child(t, node, "items", at), typ.Elem(), at, seen, n)
	case reflect.Map:
		compare(t, doc, child(t, node, "additionalProperties", at), typ.Elem(), at, seen, n)
	case reflect.Struct:
		props := child(t, node, "properties", at)
		var keys []string
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("yaml"), ",")
			// unplug shares its type with plug, but takes no options: the loader refuses them.
			if key == "-" || at == "scenario.steps.unplug" && key == "device" {
				continue
			}
			keys = append(keys, key)
			sub, ok := props[key].(map[string]any)
			if !ok {
				t.Errorf("%s: the schema lacks %q", at, key)
				continue
			}
			if sub["description"] == nil && sub["$ref"] == nil {
				t.Errorf("%s.%s has no description", at, key)
			}
			*n++
			if seen[typ] && typ.Name() == "Expect" {
				continue
			}
			compare(t, doc, sub, typ.Field(i).Type, at+"."+key, seen, n)
		}
		seen[typ] = true
		for _, key := range slices.Sorted(maps.Keys(props)) {
			if !slices.Contains(keys, key) {
				t.Errorf("%s: the schema has %q, the type has not", at, key)
			}
		}
	}
}

func child(t *testing.T, node map[string]any, key, at string) map[string]any {
	sub, ok := node[key].(map[string]any)
	if !ok {
		t.Fatalf("%s: the schema has no %s", at, key)
	}
	return sub
}

// Every scenario that comes with the program is accepted by the loader and by
// the schema that editors use.
func TestShippedScenarios(t *testing.T) {
	s := schema(t)
	all, err := scenarios.LoadFS(scenarios.Files, scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("%d scenarios are embedded; want at least 10", len(all))
	}
	names := map[string]bool{}
	for _, sc := range all {
		names[sc.Name] = true
	}
	for _, sc := range all {
		data, err := scenarios.Files.ReadFile(sc.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, data); err != nil {
			t.Errorf("%s: %v", sc.File, err)
		}
		if sc.Twin != "" && (!names[sc.Twin] || sc.Twin == sc.Name) {
			t.Errorf("%s: twin %q is no other scenario", sc.File, sc.Twin)
		}
	}
}

// What the schema refuses is refused by the loader too; the loader knows more.
func TestTheSchemaRefusesWhatIsWrong(t *testing.T) {
	s := schema(t)
	for _, f := range []string{"unknown-key", "unknown-key-deep", "wrong-shapes", "change-two-things", "values"} {
		data, err := os.ReadFile("testdata/bad/" + f + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if validate(t, s, data) == nil {
			t.Errorf("the schema accepts %s", f)
		}
	}
}
