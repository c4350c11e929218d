package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/reports"
)

func newCompare(s Streams) *cobra.Command {
	var out output
	var file string
	cmd := &cobra.Command{
		Use:   "compare BASE NEW",
		Short: "Compare two JSON reports; exit 1 on a regression",
		Long: `Compare says what changed from the report BASE to the report NEW: newly failing,
newly broken, fixed, no longer judged, gone and added results, Specs, plans and
observations that changed under the same verdict, and the environment.

With --report it also writes the page of NEW, with what changed in it.

The exit code is 1 if a result that had passed now fails, is broken, or is no
longer judged.`,
		Example: `  gpurig compare last-green.json out/report.json
  gpurig compare --report changes.html last-green.json out/report.json`,
		Args: takes(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			if file != "" {
				if err := checkPage(file); err != nil {
					return err
				}
			}
			base, err := readReport(args[0])
			if err != nil {
				return err
			}
			now, err := readReport(args[1])
			if err != nil {
				return err
			}
			c := reports.Compare(base, now)
			if file != "" {
				page, err := reports.HTML(now, &c)
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
			err = out.print(s.Out, c, func(w io.Writer) error {
				return show.WriteText(w, c.Text())
			})
			if err == nil && c.Regression() {
				return &exit{code: ExitFailed}
			}
			return err
		},
	}
	addOutput(cmd, &out)
	cmd.Flags().StringVar(&file, "report", "", "write the page of NEW with what changed to `FILE` (.html)")
	return cmd
}

// checkPage says, before anything is read, whether a page could be written there.
func checkPage(file string) error {
	if strings.ToLower(filepath.Ext(file)) != ".html" {
		return fmt.Errorf("%s: %w for a comparison or a history: name it .html", file, reports.ErrFormat)
	}
	return reports.CheckFile(file)
}
