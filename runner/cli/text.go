package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"gpurig/core/refuse"
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

// printable escapes what a terminal would act on: names may come from files
// and containers. Line breaks stay.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
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
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeYAML writes v as YAML under its JSON names: one set of keys for both.
func writeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	data, err = yaml.JSONToYAML(data)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
