package cli

import (
	"io"
	"strings"
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
			checks := append(doctor.Examine(cmd.Context()), hardwareCheck())
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

// hardwareCheck says what run --hardware would have.
func hardwareCheck() doctor.Check {
	h, closeIt, err := openHardware(false)
	if err == nil {
		defer closeIt()
		m, err2 := h.Host.Model()
		if err = err2; err == nil {
			c := doctor.Hardware(m)
			if h.Problem != "" {
				c.State, c.Detail = doctor.No, h.Problem
			}
			return c
		}
	}
	return doctor.Check{Name: "hardware", For: "scenarios on real hardware", State: doctor.Unknown, Detail: strings.ReplaceAll(err.Error(), "\n", "; ")}
}
