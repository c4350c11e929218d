package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/fakehw/fault"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target/lxd"
	"gpurig/scenarios"
)

type explainFlags struct {
	target     string
	lxcVersion string
	faults     []string
	reasons    bool
	out        output
}

func newExplain(s Streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain SCENARIO[KEY=VALUE,...]",
		Short: "Run one scenario and print the value at every step",
		Long: `Explain runs one variant of one scenario and prints the value at every step: the
host, its CDI Specs, the plan, the configuration of the container, what the
container saw, and the verdict. A failure arises after the last correct value.

If a scenario has a matrix, the first variant runs unless one is named.`,
		Example: "  gpurig explain mig/one-of-two\n  gpurig explain 'mig/one-of-two[cgroup=v2,idmap=none]' --target lxc\n  gpurig explain --reasons",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.reasons {
				if len(args) > 0 {
					return errors.New("--reasons takes no scenario")
				}
				return nil
			}
			return takes(1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.reasons {
				return listReasons(s.Out, f.out)
			}
			return explain(cmd.Context(), s, f, args[0])
		},
	}
	cmd.Flags().StringVar(&f.target, "target", "sim", "`TARGET` where the container is made: "+strings.Join(targetNames(), ", "))
	cmd.Flags().StringVar(&f.lxcVersion, "lxc-version", "", lxcVersionUsage)
	cmd.Flags().BoolVar(&f.reasons, "reasons", false, "list the reasons of refusals, warnings and notes")
	completeFlag(cmd, "target", targetNames)
	cmd.ValidArgsFunction = complete(shippedNames)
	addFaults(cmd, &f.faults)
	addOutput(cmd, &f.out)
	return cmd
}

// meanings are the reason words of the product, each once, by word.
func meanings() []refuse.Meaning {
	all := runner.AllReasons()
	slices.SortStableFunc(all, func(a, b refuse.Meaning) int { return cmp.Compare(a.Reason, b.Reason) })
	return slices.CompactFunc(all, func(a, b refuse.Meaning) bool { return a.Reason == b.Reason })
}

func listReasons(w io.Writer, out output) error {
	all := meanings()
	return out.print(w, all, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, m := range all {
			show.Fprintf(t, "%s\t%s\n", m.Reason, m.Meaning)
		}
		return t.Flush()
	})
}

// pickVariant finds the one variant that is meant.
func pickVariant(arg string) (scenarios.Variant, error) {
	name, _, named := strings.Cut(arg, "[")
	all, err := loadScenarios([]string{name})
	if err != nil {
		return scenarios.Variant{}, err
	}
	if len(all) > 1 {
		return scenarios.Variant{}, hint(fmt.Errorf("%s has %d scenarios: name one", name, len(all)), "gpurig list %s shows them", name)
	}
	variants := scenarios.ExpandAll(all)
	var ids []string
	for _, v := range variants {
		if id := v.ID(); !named || id == arg || strings.HasSuffix(id, arg[strings.Index(arg, "["):]) {
			return v, nil
		}
		ids = append(ids, v.ID())
	}
	return scenarios.Variant{}, hint(fmt.Errorf("scenario %q: no such variant", arg), "it has %s", strings.Join(ids, ", "))
}

func explain(ctx context.Context, s Streams, f explainFlags, arg string) error {
	v, err := pickVariant(arg)
	if err != nil {
		return err
	}
	for _, text := range f.faults {
		if err := fault.Check(text); err != nil {
			return err
		}
	}
	v.Faults = append(slices.Clip(v.Faults), f.faults...)
	if !slices.Contains(targetNames(), f.target) {
		return fmt.Errorf("--target %q: want one of %s", f.target, strings.Join(targetNames(), ", "))
	}
	targets, err := openTargets(ctx, []string{f.target}, lxd.Options{}, f.lxcVersion, func(string) {})
	if err != nil {
		return err
	}
	specs := specgen.New(specgen.Options{Children: 1})
	defer specs.Close()
	var trace runner.Trace
	r, err := runner.Run(ctx, runner.Options{Targets: targets, Specs: specs, Hosts: runner.Profiles{}, Jobs: 1,
		Trace: func(t runner.Trace) { trace = t }}, []scenarios.Variant{v})
	if err := errors.Join(err, closeTargets(targets)); err != nil {
		return broken(err)
	}
	if err := f.out.print(s.Out, trace, func(w io.Writer) error { return explainText(w, trace) }); err != nil {
		return err
	}
	return codeOf(r)
}

// explainText prints a trace as sections, one for each station.
func explainText(w io.Writer, t runner.Trace) error {
	var b strings.Builder
	title := func(format string, args ...any) { show.Fprintf(&b, "\n== %s\n", fmt.Sprintf(format, args...)) }
	v := t.Variant
	show.Fprintf(&b, "%s on %s\n%s\n", v.ID(), t.Target, v.Title)
	for _, step := range t.Steps {
		if step.Host != nil {
			title("host, after step %s: %s", step.Step, v.Host)
			if err := writeYAML(&b, step.Host); err != nil {
				return err
			}
		}
		if step.Looked != nil {
			title("the host as it was found, step %s", step.Step)
			if err := writeYAML(&b, step.Looked); err != nil {
				return err
			}
		}
		for _, c := range step.Containers {
			name := fmt.Sprintf("%s, step %s", c.Container, step.Step)
			for _, src := range c.Specs {
				title("CDI Spec for %s: %s, from %s", name, src.Spec.Kind, src.Where)
				data, err := cdi.Marshal(src.Spec, cdi.YAML)
				if err != nil {
					return err
				}
				b.Write(data)
			}
			if len(c.Warnings) > 0 {
				title("warnings for %s", name)
				for _, x := range c.Warnings {
					show.Fprintf(&b, "%s: %s\n", x.Reason, x.Text)
				}
			}
			if c.Plan != nil {
				title("plan for %s", name)
				if err := writeYAML(&b, c.Plan); err != nil {
					return err
				}
			}
			if c.VFIOPlan != nil {
				title("plan for %s", name)
				if err := writeYAML(&b, c.VFIOPlan); err != nil {
					return err
				}
			}
			if c.Configuration != "" {
				title("configuration of %s", name)
				b.WriteString(strings.TrimRight(c.Configuration, "\n") + "\n")
			}
			if c.Seen != nil {
				title("observation %s %s", inside(v.Containers[c.Container].VM), name)
				if err := writeYAML(&b, c.Seen); err != nil {
					return err
				}
			}
			if c.Error != "" {
				title("refused at %s, %s", c.At, name)
				show.Fprintln(&b, c.Error)
			}
		}
	}
	title("verdict: %s", t.Result.Verdict)
	if t.Result.Reason != "" {
		show.Fprintln(&b, t.Result.Reason)
	}
	for _, x := range t.Result.Findings {
		show.Fprintln(&b, x.Line())
		if x.Next != "" {
			show.Fprintf(&b, "  next: %s\n", x.Next)
		}
	}
	return show.WriteText(w, b.String())
}

// inside says where a container, or the monitor of a virtual machine, was looked at.
func inside(vm bool) string {
	if vm {
		return "of the monitor of"
	}
	return "in"
}
