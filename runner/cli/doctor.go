package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/runner/doctor"
)

func newDoctor(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what this machine can run, and how to make it able to do more",
		Example: "  gpurig doctor",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := doctor.Examine(cmd.Context(), programDir())
			return out.print(s.Out, checks, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "CHECK\tSTATE\tDETAIL\tNEEDED FOR")
				for _, c := range checks {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Name, c.State, printable(c.Detail), c.For)
				}
				if err := t.Flush(); err != nil {
					return err
				}
				for _, c := range checks {
					if c.Hint != "" {
						fmt.Fprintf(w, "\nFor %s: %s\n", c.For, printable(c.Hint))
					}
				}
				return nil
			})
		},
	}
	addOutput(cmd, &out)
	return cmd
}

// programDir is the folder that this program lies in: cdi-hook and the probe
// lie beside it.
func programDir() string {
	exe, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(exe)
}
