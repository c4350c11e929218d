package reports_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gpurig/reports"
)

func TestReportsAreAsTheirSchemaSays(t *testing.T) {
	read := func(data []byte) any {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", read(reports.JSONSchema())); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	data, err := reports.JSON(sample())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(read(data)); err != nil {
		t.Errorf("a report is not as its schema says: %v", err)
	}
	for from, to := range map[string]string{`"verdict": "pass"`: `"verdict": "fine"`, `"machine"`: `"machines"`, `"line": 7`: `"line": "7"`} {
		bad := strings.Replace(string(data), from, to, 1)
		if bad == string(data) || s.Validate(read([]byte(bad))) == nil {
			t.Errorf("with %s the report is still as its schema says", to)
		}
	}
}
