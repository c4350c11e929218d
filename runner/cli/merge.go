package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpurig/core/show"
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
		Use:   "merge REPORT...",
		Short: "Join the JSON reports of all shards of one run",
		Long: `Merge joins the JSON reports of the shards of one run. All must have been run with
the same scenarios, hosts, targets, faults and versions; otherwise the difference
is reported and nothing is joined, as when a result was added or left out. If the
shards ran on machines of other kernels or versions, the report says which.

Reports of one shard that was run twice count once: where their verdicts differ, the
worse counts, and the result is marked flaky. Shards that are missing or were cut short
are named, and the others joined. The exit code is that of run: 0 if all passed, 1 if
the product failed, 3 if there is no verdict for some.`,
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
				return hint(err, "give the reports of all shards of one run")
			}
			for _, n := range all.Notes {
				show.Fprintf(s.Err, "note: %s\n", n)
			}
			if len(files) == 0 {
				data, err := reports.JSON(all)
				if err != nil {
					return err
				}
				if _, err = s.Out.Write(data); err != nil {
					return err
				}
				return codeOf(all)
			}
			for _, f := range files {
				if err := reports.Write(f, all); err != nil {
					return broken(err)
				}
			}
			if err := summary(s.Out, all, time.Duration(all.TookMS)*time.Millisecond); err != nil {
				return err
			}
			return codeOf(all)
		},
	}
	cmd.Flags().StringArrayVar(&files, "report", nil, "write the joined report to `FILE` (.json, .xml, .md, .html); repeat for other formats; none: JSON to standard output")
	completeReports(cmd)
	return cmd
}
