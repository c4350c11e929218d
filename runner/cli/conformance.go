package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/runner/conformance"
)

func newConformance(s Streams) *cobra.Command {
	var targets, files, with []string
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Say what each consumer of CDI Specs makes of each field",
		Long: `Conformance gives consumers of CDI Specs one Spec for each field of the
specification and looks at the config.json that they write for their OCI runtime: the
field is applied, dropped in silence, refused, or something else is there. Nothing is
started: a stub takes the runtime's place.

Without --target it asks all consumers that are at hand; the others are named on standard
error. They are the programs that are first on the path. --with adds what an earlier
report (.json) has of other releases.`,
		Example: "  gpurig conformance --target library --report out/conformance.md",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, t := range targets {
				if !slices.Contains(conformance.Names(), t) {
					return fmt.Errorf("--target %q: want %s", t, strings.Join(conformance.Names(), ", "))
				}
			}
			for _, f := range files {
				if err := conformance.CheckFile(f); err != nil {
					return fmt.Errorf("--report: %w", err)
				}
			}
			r := conformance.Report{Date: time.Now().UTC().Format(time.DateOnly)}
			for _, f := range with {
				data, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				earlier, err := conformance.Read(data)
				if err != nil {
					return fmt.Errorf("--with %s: %w", f, err)
				}
				r.Columns = append(r.Columns, earlier.Columns...)
			}
			cases, err := conformance.Cases()
			if err != nil {
				return broken(err)
			}
			names, all := targets, len(targets) == 0
			if all {
				names = conformance.Names()
			}
			for _, name := range names {
				by, err := conformance.Open(cmd.Context(), name)
				var missing *conformance.Missing
				if all && errors.As(err, &missing) {
					show.Fprintf(s.Err, "note: %v; %s\n", err, missing.Hint)
					continue
				}
				if errors.As(err, &missing) {
					return broken(hint(err, "%s", missing.Hint))
				}
				if err != nil {
					return broken(err)
				}
				col, err := conformance.Run(cmd.Context(), by, cases)
				if err = errors.Join(err, by.Close()); err != nil {
					return broken(err)
				}
				r.Columns = append(r.Columns, col)
			}
			for _, f := range files {
				if err := writeConformance(r, f); err != nil {
					return broken(err)
				}
			}
			if len(files) == 0 {
				return r.Write(s.Out, ".md")
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&targets, "target", nil, "consumers to ask (`NAME,...`): "+strings.Join(conformance.Names(), ", "))
	fl.StringArrayVar(&files, "report", nil, "write the table to `FILE` (.md, .html, .json) and not to standard output; repeat for other formats")
	fl.StringArrayVar(&with, "with", nil, "add what the report `FILE` (.json) of an earlier run has")
	return cmd
}

func writeConformance(r conformance.Report, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.Write(f, name), f.Close())
}
