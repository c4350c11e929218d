package reports

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// JSONSchema is the JSON Schema of a report's JSON form, made of the types.
//
// Reference: https://json-schema.org/draft/2020-12
func JSONSchema() []byte {
	s := schemaOf(reflect.TypeFor[Report]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "gpurig report"
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps of texts always have a JSON form
	}
	return append(data, '\n')
}

func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[Verdict]():
		return map[string]any{"enum": []Verdict{Pass, Fail, Broken, Skip, Differ}}
	}
	switch t.Kind() {
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if properties[name] = schemaOf(f.Type); options == "" {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "string"}
}
