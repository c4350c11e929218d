package cli

import (
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/reports"
)

func newHistory(s Streams) *cobra.Command {
	var out output
	var file string
	cmd := &cobra.Command{
		Use:   "history REPORT REPORT...",
		Short: "Say what several JSON reports have in turn: failures since when, flaky, slower",
		Long: `History puts the reports of several runs in order of their dates and says of each
result that did not always pass since which run it fails, whether it is flaky, and
whether it became slower: at least twice as slow as the median before, and by 0.1 s.
They come by host and target. One letter stands for each run: P(ass), F(ail),
B(roken), S(kip), D(iffer), "-" where the result was not.`,
		Example: "  gpurig history --report trend.html monday.json tuesday.json wednesday.json",
		Args:    takes(2, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			if file != "" {
				if err := checkPage(file); err != nil {
					return err
				}
			}
			var all []reports.Report
			for _, a := range args {
				r, err := readReport(a)
				if err != nil {
					return err
				}
				r.Values = nil // which nobody asks for
				all = append(all, r)
			}
			h := reports.NewHistory(all)
			if file != "" {
				page, err := h.HTML()
				if err != nil {
					return broken(err)
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
					return broken(err)
				}
				if err := reports.WriteFile(file, page); err != nil {
					return broken(err)
				}
			}
			return out.print(s.Out, h, func(w io.Writer) error { return show.WriteText(w, h.Text()) })
		},
	}
	addOutput(cmd, &out)
	cmd.Flags().StringVar(&file, "report", "", "write the history as a page to `FILE` (.html)")
	return cmd
}
