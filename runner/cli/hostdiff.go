package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gpurig/fakehw/capture"
)

func newHostDiff(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say in words what differs between two hosts",
		Long: `Diff compares two hosts: fake hosts by name, profile files, recordings, or "this"
for the machine that it runs on. Serial numbers and UUIDs count by their order
alone, so two machines of one kind are equal.

It exits 0 when nothing differs and 1 when something does.`,
		Example: `  gpurig host diff a100-mig-uniform a100-mig-mixed
  gpurig host diff dgx-a100 this`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return diffHosts(s, out, args[0], args[1])
		},
	}
	addOutput(cmd, &out)
	return cmd
}

func diffHosts(s Streams, out output, nameA, nameB string) error {
	a, err := openForDiff(nameA)
	if err != nil {
		return err
	}
	b, err := openForDiff(nameB)
	if err != nil {
		return err
	}
	diffs, err := capture.Compare(a, b)
	if err != nil {
		return err
	}
	if diffs == nil {
		diffs = []capture.Difference{}
	}
	if err := out.print(s.Out, diffs, func(w io.Writer) error { return writeDiffs(w, nameA, nameB, diffs) }); err != nil {
		return err
	}
	if len(diffs) > 0 {
		return &exit{code: ExitFailed}
	}
	return nil
}

func writeDiffs(w io.Writer, a, b string, diffs []capture.Difference) error {
	if len(diffs) == 0 {
		_, err := fmt.Fprintf(w, "%s and %s are the same\n", printable(a), printable(b))
		return err
	}
	area := ""
	for _, d := range diffs {
		if d.Area != area {
			area = d.Area
			fmt.Fprintln(w, area)
		}
		if _, err := fmt.Fprintf(w, "  %s\n", printable(d.Sentence(a, b))); err != nil {
			return err
		}
	}
	return nil
}

// openForDiff makes a recording of whatever is named: two hosts are compared in
// the same form, in which UUIDs are numbered.
func openForDiff(name string) (capture.Machine, error) {
	if isRecording(name) {
		f, err := capture.ReadFile(name)
		if err != nil {
			return capture.Machine{}, err
		}
		return capture.Replay(f)
	}
	if name == "this" {
		f, err := recordRoot("/", true, capture.Options{})
		if err != nil {
			return capture.Machine{}, err
		}
		return capture.Replay(f)
	}
	h, err := openHost(name)
	if err != nil {
		return capture.Machine{}, err
	}
	f, err := capture.Of(h.request.Model, capture.Options{Machine: h.description})
	if err != nil {
		return capture.Machine{}, broken(err)
	}
	return capture.Replay(f)
}
