package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/strictdoc"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/records"
	"gpurig/reports"
	"gpurig/scenarios"
)

// schemas are the JSON Schemas of the files that people and programs write.
var schemas = map[string]func() []byte{
	"scenario": func() []byte { return scenarios.Schema },
	"profile":  func() []byte { return profiles.Schema },
	"record":   func() []byte { return records.Schema },
	"report":   reports.JSONSchema,
}

func newSchema(s Streams) *cobra.Command {
	names := slices.Sorted(maps.Keys(schemas))
	cmd := &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON Schema of scenarios, profiles, reports or records",
		Long: `Schema prints the JSON Schema of one kind of file: scenario, profile, report or record.
Editors complete and check YAML files by it where a line of the file names it:

  # yaml-language-server: $schema=../scenario.schema.json

Records of boards and machines (.tsv) are text: the schema is that of a line, as the
list of its columns. Recordings of hosts (.txtar) are described in docs/hosts.md.`,
		Example: "  gpurig schema scenario\n  gpurig schema report",
		Args:    takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			schema, ok := schemas[args[0]]
			if !ok {
				err := fmt.Errorf("no schema of %q: want one of %s%s", args[0], strings.Join(names, ", "), strictdoc.Meant(args[0], names))
				if args[0] == "recording" {
					return hint(err, "a record of a board has a schema; a recording of a host is a text: see docs/hosts.md")
				}
				return err
			}
			_, err := s.Out.Write(schema())
			return err
		},
	}
	cmd.ValidArgsFunction = complete(func() []string { return names })
	return cmd
}
