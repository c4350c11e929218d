package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gpurig/reports"
)

// readReport reads a JSON report, with a hint where it is something else.
func readReport(file string) (reports.Report, error) {
	r, err := reports.Read(file)
	if errors.Is(err, reports.ErrNotReport) {
		return r, hint(err, "gpurig run --report FILE.json writes one")
	}
	return r, err
}

func newMerge(s Streams) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:     "merge REPORT...",
		Short:   "Join the JSON reports of all shards of one run",
		Example: "  gpurig merge --report all.json --report all.xml shard-*.json",
		Args:    takes(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, f := range files {
				if err := reports.CheckFile(f); err != nil {
					return err
				}
			}
			var parts []reports.Report
			results := 0
			for _, a := range args {
				r, err := readReport(a)
				if err != nil {
					return err
				}
				if results += len(r.Results); results > reports.MaxResults {
					return hint(fmt.Errorf("%s: more than %d results with those before it", a, reports.MaxResults), "merge fewer scenarios or targets at a time")
				}
				parts = append(parts, r)
			}
			all, err := reports.Merge(parts)
			if err != nil {
				return hint(err, "give the report of every shard, once")
			}
			if len(files) == 0 {
				data, err := reports.JSON(all)
				if err != nil {
					return err
				}
				_, err = s.Out.Write(data)
				return err
			}
			for _, f := range files {
				if err := reports.Write(f, all); err != nil {
					return broken(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&files, "report", nil, "write the joined report to `FILE` (.json, .xml, .md, .html); again for another format; none: JSON to standard output")
	completeReports(cmd)
	return cmd
}
