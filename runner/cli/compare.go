package cli

import (
	"io"

	"github.com/spf13/cobra"

	"gpurig/reports"
)

func newCompare(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "compare BASE NEW",
		Short: "Compare two JSON reports; exit 1 on a regression",
		Long: `Compare says what changed from the report BASE to the report NEW: newly failing,
newly broken, fixed, no longer judged, gone and added results, Specs, plans and
observations that changed under the same verdict, and the environment.

It exits 1 when something fails, is broken, or is not judged any more, that was.`,
		Example: "  gpurig compare last-green.json out/report.json",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			base, err := reports.Read(args[0])
			if err != nil {
				return err
			}
			now, err := reports.Read(args[1])
			if err != nil {
				return err
			}
			c := reports.Compare(base, now)
			err = out.print(s.Out, c, func(w io.Writer) error {
				_, err := io.WriteString(w, c.Text())
				return err
			})
			if err == nil && c.Regression() {
				return &exit{code: ExitFailed}
			}
			return err
		},
	}
	addOutput(cmd, &out)
	return cmd
}
