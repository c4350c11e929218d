package cli

import (
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/runner/doctor"
)

func newDoctor(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what this machine can run, and how to enable the rest",
		Example: "  gpurig doctor",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := doctor.Examine(cmd.Context())
			return out.print(s.Out, checks, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				show.Fprintf(t, "CHECK\tSTATE\tDETAIL\tNEEDED FOR\n")
				for _, c := range checks {
					show.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Name, c.State, c.Detail, c.For)
				}
				if err := t.Flush(); err != nil {
					return err
				}
				for _, c := range checks {
					if c.Hint != "" {
						show.Fprintf(w, "\nFor %s: %s\n", c.For, c.Hint)
					}
				}
				return nil
			})
		},
	}
	addOutput(cmd, &out)
	return cmd
}
