package cli

import (
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/show"
)

// A listLine is one variant of a scenario in a listing.
type listLine struct {
	Scenario string            `json:"scenario"`
	id       string            // with the variant, where it is one
	Variant  map[string]string `json:"variant,omitempty"`
	Title    string            `json:"title"`
	Host     string            `json:"host"`
	Labels   []string          `json:"labels"`
	Bug      string            `json:"bug,omitempty"`
	File     string            `json:"file"`
}

func newList(s Streams) *cobra.Command {
	var x selection
	var out output
	var variants bool
	cmd := &cobra.Command{
		Use:     "list [SCENARIO...]",
		Short:   "List scenarios, their labels and descriptions",
		Example: "  gpurig list --label tegra\n  gpurig list --variants --output json",
		RunE: func(_ *cobra.Command, args []string) error {
			all, shard, err := x.variants(args)
			if err != nil {
				return err
			}
			if err := measured(shard.Took, all); err != nil {
				return err
			}
			lines := []listLine{}
			seen := map[string]bool{}
			for _, v := range shard.Of(all) {
				if !variants && seen[v.Name] {
					continue
				}
				seen[v.Name] = true
				l := listLine{Scenario: v.Name, id: v.Name, Title: v.Title, Host: v.Host, Labels: v.AllLabels(), Bug: v.Bug, File: v.File}
				if variants {
					l.Variant, l.id = v.Map(), v.ID()
				}
				lines = append(lines, l)
			}
			return out.print(s.Out, lines, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				show.Fprintf(t, "SCENARIO\tHOST\tLABELS\tIT SAYS\n")
				for _, l := range lines {
					show.Fprintf(t, "%s\t%s\t%s\t%s\n", l.id, l.Host, strings.Join(l.Labels, " "), l.Title)
				}
				return t.Flush()
			})
		},
	}
	x.flags(cmd)
	cmd.Flags().BoolVar(&variants, "variants", false, "list every variant of a matrix")
	addOutput(cmd, &out)
	cmd.ValidArgsFunction = complete(shippedNames)
	return cmd
}
