package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/passthrough"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/core/translate"
)

type validateFlags struct {
	host, policy string
	driver       passthrough.HostOptions
	faults       []string
	out          output
}

func newCDIValidate(s Streams) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check CDI Spec files: form, and what the policy of a host makes of them",
		Long: `Validate checks Spec files: their form (version, numbers, names), and then each
device against the policy of a host, as a container would get it. A refusal names
the rule, and its hint the line of the policy file that would permit it; gpurig
policy prints all rules. What the host lacks is reported, but is not an error.`,
		Example: "  gpurig cdi validate /etc/cdi/vendor.yaml\n  gpurig cdi validate --policy ./policy.yaml vendor.yaml",
		Args:    takes(1, -1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runValidate(cmd.Context(), s, f, args) },
	}
	addHost(cmd, &f.host)
	addDriver(cmd, &f.driver)
	addPolicy(cmd, &f.policy)
	addFaults(cmd, &f.faults)
	addOutput(cmd, &f.out)
	return cmd
}

// A validLine says what became of one file.
type validLine struct {
	File     string      `json:"file"`
	Valid    bool        `json:"valid"` // its form
	Problems []string    `json:"problems,omitempty"`
	Devices  []validated `json:"devices,omitempty"`
}

// A validated is one device as the policy sees it.
type validated struct {
	Name      string      `json:"name"`
	Permitted bool        `json:"permitted"`
	Refusals  []refused   `json:"refusals,omitempty"`
	NotHere   []string    `json:"notHere,omitempty"` // what the host lacks
	Notes     []plan.Note `json:"notes,omitempty"`
}

type refused struct {
	Reason  refuse.Reason `json:"reason"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
}

func runValidate(ctx context.Context, s Streams, f validateFlags, files []string) error {
	h, closeIt, err := openProduct(f.host, f.driver, f.faults...)
	if err != nil {
		return err
	}
	defer closeIt()
	var o passthrough.Options
	if o.Policy, err = readPolicy(f.policy, h.Root()); err != nil {
		return err
	}
	if _, err := h.Model(); err != nil && f.driver.DriverRoot == "" {
		show.Fprintf(s.Err, "warning: the driver's root is taken to be /: %s\n", err.Error())
	}
	var errs []error
	lines := []validLine{}
	said := map[string]bool{} // edits of the whole Spec are refused for each device
	for _, file := range files {
		l := validLine{File: file, Valid: true}
		spec, err := readSpec(file)
		if err != nil {
			l.Valid = false
			for _, e := range flatten(err) {
				l.Problems = append(l.Problems, e.Error())
				errs = append(errs, e)
			}
		}
		if spec != nil {
			for _, d := range spec.Devices {
				v, refusals, err := tryDevice(ctx, h, cdi.Source{Spec: spec, Where: file}, d.Name, o)
				if err != nil {
					return err
				}
				l.Devices = append(l.Devices, v)
				for _, e := range refusals {
					if key := e.Error(); !said[key] {
						said[key] = true
						errs = append(errs, e)
					}
				}
			}
		}
		lines = append(lines, l)
	}
	if err := f.out.print(s.Out, lines, func(w io.Writer) error { return writeValid(w, lines) }); err != nil {
		return err
	}
	for _, e := range errs {
		printError(s.Err, e)
	}
	if len(errs) > 0 {
		return &exit{code: ExitUsage}
	}
	return nil
}

func readSpec(file string) (*specs.Spec, error) {
	data, err := readRegular(file, 1<<20)
	if err != nil {
		return nil, err
	}
	return cdi.Parse(data, file)
}

// lacking are reasons that are about the host and say nothing of the Spec.
var lacking = []refuse.Reason{translate.ReasonNodeGone, translate.ReasonNodeNum, translate.ReasonDriverTab, translate.ReasonMissing}

// tryDevice plans one device for a privileged container.
func tryDevice(ctx context.Context, h *passthrough.Host, from cdi.Source, name string, o passthrough.Options) (validated, []*refuse.Error, error) {
	v := validated{Name: from.Spec.Kind + "=" + name, Permitted: true}
	device, err := cdi.ParseName(v.Name)
	if err != nil {
		return v, nil, err
	}
	made, err := passthrough.PlanSpec(ctx, h, from, device, o)
	switch {
	case made.Plan != nil:
		v.Notes = made.Plan.Notes
	case made.Refused == nil:
		return v, nil, broken(err)
	case made.Refused.At != passthrough.AtPlan:
		return v, nil, err
	}
	var refusals []*refuse.Error
	for _, e := range refuse.As(err) {
		if slices.Contains(lacking, e.Reason) {
			v.NotHere = append(v.NotHere, e.Error())
			continue
		}
		v.Permitted = false
		v.Refusals = append(v.Refusals, refused{e.Reason, e.Error(), e.Hint})
		refusals = append(refusals, e)
	}
	return v, refusals, nil
}

func writeValid(w io.Writer, lines []validLine) error {
	var errs []error
	say := func(format string, args ...any) {
		_, err := show.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	for _, l := range lines {
		if !l.Valid {
			continue
		}
		say("%s: valid\n", l.File)
		for _, d := range l.Devices {
			word := "permitted"
			if !d.Permitted {
				word = fmt.Sprintf("refused, %d reasons", len(d.Refusals))
				if len(d.Refusals) == 1 {
					word = "refused"
				}
			}
			say("  %s: %s\n", d.Name, word)
			for _, n := range d.NotHere {
				say("    not on this host: %s\n", n)
			}
			for _, n := range d.Notes {
				if !n.Done {
					say("    not applied: %s: %s\n", n.What, n.Detail)
				}
			}
		}
	}
	return errors.Join(errs...)
}
