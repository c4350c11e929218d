package cdi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/show"
)

// A Format is a way to write a Spec.
type Format string

// The formats that Specs have, named after their files' endings.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Marshal writes a Spec: the same bytes for the same Spec, ending in a line
// feed. YAML is laid out as the CDI library writes it, JSON is indented by two
// spaces. Marshal does not validate; a nil Spec or an unknown format is an error.
func Marshal(spec *specs.Spec, format Format) ([]byte, error) {
	if spec == nil {
		return nil, fmt.Errorf("write CDI Spec: there is none")
	}
	switch format {
	case YAML:
		out, err := yaml.Marshal(spec)
		if err != nil {
			return nil, fmt.Errorf("write CDI Spec as YAML: %w", err)
		}
		return append([]byte("---\n"), out...), nil
	case JSON:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(spec); err != nil {
			return nil, fmt.Errorf("write CDI Spec as JSON: %w", err)
		}
		return show.JSON(b.Bytes()), nil
	}
	return nil, fmt.Errorf("write CDI Spec: unknown format %q, want yaml or json", format)
}
