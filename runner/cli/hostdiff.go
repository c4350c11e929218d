package cli

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/machine"
	"gpurig/fixtures/hosts"
)

func newHostDiff(s Streams) *cobra.Command {
	var out output
	var faults []string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Describe the differences between two hosts",
		Long: `Diff compares two hosts: fake hosts by name, profile files, recordings, or "this"
for this machine. Serial numbers and UUIDs are compared only by their order, so
two machines with the same hardware are equal.

With --fault, B has that fault: compare a host with itself to see its effect.

The exit code is 0 if nothing differs and 1 if something does.`,
		Example: `  gpurig host diff a100-mig-uniform a100-mig-mixed
  gpurig host diff dgx-a100 this
  gpurig host diff dgx-a100 dgx-a100 --fault no-uvm`,
		Args: takes(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return diffHosts(s, out, args[0], args[1], faults)
		},
	}
	addOutput(cmd, &out)
	addFaults(cmd, &faults)
	cmd.ValidArgsFunction = complete(func() []string { return append(hostNames(), "this") })
	return cmd
}

func diffHosts(s Streams, out output, nameA, nameB string, faults []string) error {
	a, err := openForDiff(nameA)
	if err != nil {
		return err
	}
	b, err := openForDiff(nameB, faults...)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		nameB += " with " + strings.Join(faults, " and ")
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
		_, err := show.Fprintf(w, "%s and %s are the same\n", a, b)
		return err
	}
	area := ""
	for _, d := range diffs {
		if d.Area != area {
			area = d.Area
			show.Fprintln(w, area)
		}
		if _, err := show.Fprintf(w, "  %s\n", d.Sentence(a, b)); err != nil {
			return err
		}
	}
	return nil
}

// openForDiff makes a recording of whatever is named: two hosts are compared in
// the same form, in which UUIDs are numbered.
func openForDiff(name string, faults ...string) (capture.Machine, error) {
	if isRecording(name) && len(faults) == 0 {
		f, err := capture.ReadFile(name)
		if err != nil {
			return capture.Machine{}, err
		}
		return capture.Replay(f)
	}
	if name == "this" && len(faults) > 0 {
		return capture.Machine{}, errors.New("--fault: nothing is broken on a real machine; name a fake host as the second")
	}
	if name == "this" {
		f, err := recordRoot("/", true, capture.Options{})
		if err != nil {
			return capture.Machine{}, err
		}
		m, err := capture.Replay(f)
		m.Played = machine.Inside()
		return m, err
	}
	h, err := openHost(name, faults...)
	if err != nil {
		return capture.Machine{}, err
	}
	f, err := recordFake(h)
	if err != nil {
		return capture.Machine{}, broken(err)
	}
	return capture.Replay(f)
}

// recordFake records a fake host as it is under its faults. A library that does
// not start, or breaks off, says nothing.
func recordFake(h fakeHost) (hosts.File, error) {
	t, err := h.request.Tree()
	if err != nil {
		return hosts.File{}, err
	}
	lib, err := h.request.Library(t)
	if err != nil {
		return hosts.File{}, err
	}
	opts := capture.Options{Machine: h.description}
	if f, err := capture.Record(t, discoverable(lib), opts); err == nil || len(h.request.Faults) == 0 {
		return f, err
	}
	return capture.Record(t, nil, opts)
}
