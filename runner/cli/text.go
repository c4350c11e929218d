package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/core/strictyaml"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/reach"
)

// hintOf finds the hint that an error carries.
func hintOf(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	var r *refuse.Error
	if errors.As(err, &r) {
		return r.Hint
	}
	var p *strictyaml.Problem
	if errors.As(err, &p) && p.Hint != "" {
		return p.Hint
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Hint
	}
	var no *reach.Refusal
	if errors.As(err, &no) {
		return no.Hint
	}
	return ""
}

// An output is the value of --output.
type output string

// addOutput gives a listing its --output flag.
func addOutput(cmd *cobra.Command, o *output) {
	*o = "text"
	cmd.Flags().VarP(o, "output", "o", "text, json or yaml")
	completeFlag(cmd, "output", fixed("text", "json", "yaml"))
}

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "FORMAT" }

// Set is part of pflag.Value.
func (o *output) Set(s string) error {
	switch s {
	case "text", "json", "yaml":
		*o = output(s)
		return nil
	}
	return errors.New("want text, json or yaml")
}

// print writes v as JSON or YAML, or calls text.
func (o output) print(w io.Writer, v any, text func(w io.Writer) error) error {
	switch o {
	case "json":
		return writeJSON(w, v)
	case "yaml":
		return writeYAML(w, v)
	}
	return text(w)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(show.JSON(b.Bytes()))
	return err
}

// writeYAML writes v as YAML under its JSON names: one set of keys for both.
func writeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree any
	if err := yaml.UnmarshalWithOptions(data, &tree, yaml.UseOrderedMap()); err != nil {
		return err
	}
	data, err = yaml.Marshal(quoted(tree))
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// quoted has every text in a tree that YAML cannot carry as it is, or that is not
// printable, in quotes and with escapes: the encoder writes both as they are.
func quoted(tree any) any {
	switch v := tree.(type) {
	case yaml.MapSlice:
		for i := range v {
			v[i].Key, v[i].Value = quoted(v[i].Key), quoted(v[i].Value)
		}
	case []any:
		for i := range v {
			v[i] = quoted(v[i])
		}
	case string:
		if lines := strings.ReplaceAll(v, "\n", ""); show.Line(lines) != lines {
			return quotedText(v)
		}
	}
	return tree
}

// A quotedText is written in double quotes. Go's escapes are all of YAML's too.
type quotedText string

// MarshalYAML is part of yaml.BytesMarshaler.
func (q quotedText) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(q))), nil }
