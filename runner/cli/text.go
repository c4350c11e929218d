package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/core/strictdoc"
	"gpurig/fakehw/ctlsocket"
	"gpurig/fakehw/fault"
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
	var p *strictdoc.Problem
	if errors.As(err, &p) && p.Hint != "" {
		return p.Hint
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Hint
	}
	var no *ctlsocket.Refusal
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
func writeYAML(w io.Writer, v any) error { return writeYAMLWith(w, v, func(*yaml.Node) {}) }

// writeYAMLWith is writeYAML of what change makes of the document.
func writeYAMLWith(w io.Writer, v any, change func(*yaml.Node)) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		if r < 0x10000 && !strconv.IsPrint(r) { // which YAML may not have as it is, and JSON may
			b.Write(fmt.Appendf(nil, `\u%04x`, r))
		} else {
			b.WriteRune(r)
		}
	}
	var n yaml.Node // keeps the order of the keys
	if err := yaml.Unmarshal(b.Bytes(), &n); err != nil {
		return err
	}
	change(&n)
	blockStyle(&n)
	b.Reset()
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := errors.Join(enc.Encode(&n), enc.Close()); err != nil {
		return err
	}
	return show.WriteText(w, b.String()) // Go's escapes are all of YAML's too
}

// blockStyle takes away the style of JSON. Text that would be read as something else
// keeps its quotes, and what is not printable gets some.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if lines := strings.ReplaceAll(n.Value, "\n", ""); show.Line(lines) != lines {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}
