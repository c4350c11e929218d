package cli

import (
	"io"
	"text/tabwriter"

	"gpurig/core/show"
	"gpurig/fakehw/seen"
	"gpurig/fixtures/records"
)

// showRecords prints the facts of a host with what stands behind each.
func showRecords(w io.Writer, out *output, h fakeHost) error {
	files, err := records.All()
	if err != nil {
		return broken(err)
	}
	host, err := seen.Look(h.model)
	if err != nil {
		return broken(err)
	}
	facts := host.Facts(h.name, files)
	return out.print(w, facts, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		show.Fprintf(t, "MARK\tOF\tFIELD\tSAYS\tRECORD\tSOURCE\n")
		count := map[seen.Mark]int{}
		for _, f := range facts {
			count[f.Mark]++
			source := f.Source
			if f.Why != "" {
				source = f.Why + " " + source
			}
			show.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Mark, dashText(f.Board), f.Field, f.Says, dashText(f.Record), source)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		_, err := show.Fprintf(w, "\n%d facts: %d recorded, %d differ for a reason, %d wrong, %d derived, %d unverified\n", len(facts),
			count[seen.Recorded], count[seen.Differs], count[seen.Wrong], count[seen.Derived], count[seen.Unverified])
		return err
	})
}
