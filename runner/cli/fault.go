package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/fakehw/ctlsocket"
	"gpurig/fakehw/fault"
)

// addFaults gives a command about a fake host the flag that breaks it.
func addFaults(cmd *cobra.Command, faults *[]string) {
	cmd.Flags().StringArrayVar(faults, "fault", nil, "break the host: `FAULT` such as off-bus:0; repeat for others (gpurig host fault --list)")
	completeFlag(cmd, "fault", faultKinds)
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
	var heal []string
	cmd := &cobra.Command{
		Use:   "fault [MACHINE [FAULT...]]",
		Short: "Break and heal a fake machine while it runs",
		Long: `Fault breaks a machine that gpurig host enter or mount runs in another terminal,
or heals it, and then lists its faults. MACHINE is its host, or its process id
if several machines have that host. Without MACHINE, the running machines of this
user are listed. If faults cannot occur together, nothing is changed.

Files that were mounted over /usr, /etc and /run when the machine was entered stay
as they were: faults of libraries and sockets affect NVML, but not those files.`,
		Example: `  gpurig host fault --list
  gpurig host fault
  gpurig host fault dgx-a100 off-bus:3 no-uvm
  gpurig host fault dgx-a100 --heal off-bus:3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case kinds && (len(args) > 0 || len(heal) > 0):
				return errors.New("--list takes no machine and no fault")
			case kinds:
				return listFaults(s, out)
			case len(args) == 0 && len(heal) > 0:
				return hint(errors.New("--heal without a machine"), "gpurig host fault lists those that run")
			case len(args) == 0:
				return listMachines(cmd.Context(), s, out)
			}
			return changeFaults(cmd.Context(), s, out, args[0], args[1:], heal)
		},
	}
	cmd.Flags().BoolVar(&kinds, "list", false, "list the kinds of faults")
	cmd.Flags().StringArrayVar(&heal, "heal", nil, "heal `FAULT`, as it was given; repeat for others")
	completeFlag(cmd, "heal", faultKinds)
	cmd.ValidArgsFunction = complete(hostNames, faultKinds)
	addOutput(cmd, &out)
	return cmd
}

func listMachines(ctx context.Context, s Streams, out output) error {
	all, err := ctlsocket.List(ctx, ctlsocket.User())
	if err != nil {
		return broken(err)
	}
	if all == nil {
		all = []ctlsocket.Machine{}
	}
	return out.print(s.Out, all, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		show.Fprintf(t, "PID\tHOST\tFAULTS\n")
		for _, m := range all {
			if m.Silent {
				m.Host = "(does not answer)"
			}
			pid := "-" // from inside of a machine, those outside have none
			if m.PID != 0 {
				pid = strconv.Itoa(m.PID)
			}
			show.Fprintf(t, "%s\t%s\t%s\n", pid, m.Host, dashText(strings.Join(m.Faults.Texts(), " ")))
		}
		return t.Flush()
	})
}

func changeFaults(ctx context.Context, s Streams, out output, machine string, add, heal []string) error {
	var r ctlsocket.Request
	for _, text := range heal {
		f, err := fault.Parse(text)
		if err != nil {
			return err
		}
		r.Heal = append(r.Heal, f)
	}
	for _, text := range add {
		f, err := fault.Parse(text)
		if err != nil {
			return err
		}
		r.Add = append(r.Add, f)
	}
	m, err := ctlsocket.Find(ctx, ctlsocket.User(), machine)
	switch {
	case errors.Is(err, ctlsocket.ErrNone):
		return hint(err, "gpurig host fault lists those that run; gpurig host enter and gpurig host mount start one")
	case errors.Is(err, ctlsocket.ErrSilent):
		return silent(err)
	case errors.Is(err, ctlsocket.ErrSeveral):
		return hint(err, "name one by its process id: gpurig host fault lists them")
	case err != nil:
		return broken(err)
	}
	if len(r.Add)+len(r.Heal) > 0 {
		if m, err = ctlsocket.Ask(ctx, m, r); errors.Is(err, ctlsocket.ErrSilent) {
			return silent(err)
		} else if err != nil {
			return err
		}
	}
	return out.print(s.Out, m, func(w io.Writer) error {
		for _, f := range m.Faults {
			if _, err := show.Fprintln(w, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// silent is a machine that does not answer.
func silent(err error) error {
	return broken(hint(err, "kill -CONT PID lets a stopped one go on; kill -KILL PID ends it and all that runs in it"))
}

func listFaults(s Streams, out output) error {
	var lines []faultLine
	for _, k := range fault.Kinds() {
		lines = append(lines, faultLine{k.Form, k.Example, k.Is, k.Surface})
	}
	return out.print(s.Out, lines, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		show.Fprintf(t, "FAULT\tEXAMPLE\tIS\n")
		for _, l := range lines {
			show.Fprintf(t, "%s\t%s\t%s\n", l.Fault, l.Example, l.Is)
		}
		return t.Flush()
	})
}
