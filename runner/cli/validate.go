package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/core/translate"
)

type validateFlags struct {
	host, policy string
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
policy prints all rules. What the host lacks is said, and is no mistake of the file.`,
		Example: "  gpurig cdi validate /etc/cdi/vendor.yaml\n  gpurig cdi validate --policy ./policy.yaml vendor.yaml",
		Args:    takes(1, -1),
		RunE:    func(_ *cobra.Command, args []string) error { return runValidate(s, f, args) },
	}
	addHost(cmd, &f.host)
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

func runValidate(s Streams, f validateFlags, files []string) error {
	m, closeIt, err := openMachine(f.host, f.faults...)
	if err != nil {
		return err
	}
	defer closeIt()
	pol, err := readPolicy(f.policy, m.root)
	if err != nil {
		return err
	}
	opts := translate.Options{Policy: pol}
	if err := m.know(); err != nil {
		show.Fprintf(s.Err, "warning: the driver's root is taken to be /: %s\n", err.Error())
	}
	if u := m.model.Userspace; u != nil {
		opts.DriverRoot = u.DriverRoot
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
				v, refusals, err := tryDevice(m, spec, file, d.Name, opts)
				if err != nil {
					return err
				}
				l.Devices = append(l.Devices, v)
				for _, e := range refusals {
					if key := file + "\n" + e.Error(); !said[key] {
						said[key] = true
						errs = append(errs, &refuse.Error{Reason: e.Reason, Where: file, Hint: e.Hint, Err: e})
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

// tryDevice translates one device for a privileged container.
func tryDevice(m machine, spec *specs.Spec, file, name string, opts translate.Options) (validated, []*refuse.Error, error) {
	v := validated{Name: spec.Kind + "=" + name, Permitted: true}
	asked, err := cdi.ParseName(v.Name)
	if err != nil {
		return v, nil, err
	}
	edits, err := cdi.Resolve([]cdi.Source{{Spec: spec, Where: file}}, []cdi.Name{asked})
	if err != nil {
		return v, nil, err
	}
	p, err := translate.Edits(m.root, edits, opts)
	if err != nil && len(refuse.As(err)) == 0 {
		return v, nil, broken(err)
	}
	v.Notes = p.Notes
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
