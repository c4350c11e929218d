package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/fakehw/fault"
)

// addFaults gives a command about a fake host the flag that breaks it.
func addFaults(cmd *cobra.Command, faults *[]string) {
	cmd.Flags().StringArrayVar(faults, "fault", nil, "break the host: `FAULT` such as off-bus:0; again for another (gpurig host fault --list)")
}

// A faultLine is one kind of fault in a listing.
type faultLine struct {
	Fault   string `json:"fault"`
	Example string `json:"example"`
	Is      string `json:"is"`
	Surface string `json:"surface"`
}

func newHostFault(s Streams) *cobra.Command {
	var out output
	var kinds bool
	cmd := &cobra.Command{
		Use:     "fault --list",
		Short:   "List what can be broken on a fake host",
		Example: "  gpurig host fault --list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !kinds {
				return cmd.Help()
			}
			return listFaults(s, out)
		},
	}
	cmd.Flags().BoolVar(&kinds, "list", false, "list the kinds of faults")
	addOutput(cmd, &out)
	return cmd
}

func listFaults(s Streams, out output) error {
	var lines []faultLine
	for _, k := range fault.Kinds() {
		lines = append(lines, faultLine{k.Form, k.Example, k.Is, k.Surface})
	}
	return out.print(s.Out, lines, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "FAULT\tEXAMPLE\tIS")
		for _, l := range lines {
			fmt.Fprintf(t, "%s\t%s\t%s\n", l.Fault, l.Example, l.Is)
		}
		return t.Flush()
	})
}
