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

	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/core/strictdoc"
	"gpurig/runner"
	"gpurig/runner/specgen"
)

type explainFlags struct {
	settings
	target   string
	stations []string
	diff     []string
	all      bool
	reasons  bool
	out      output
}

func newExplain(s Streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain SCENARIO[KEY=VALUE,...]",
		Short: "Run one scenario and show how it came to its verdict",
		Long: `Explain runs one variant of one scenario and says what happened at each step: what
was planned, seen, refused and found. --station prints the values themselves, and
--all every one: the host, its CDI Specs, the plan, the configuration of the
container, what the container saw. A failure arises after the last correct value.

With --diff the variant runs on two targets, and the values that differ are printed.

If a scenario has a matrix, the first variant runs unless one is named.`,
		Example: `  gpurig explain mig/one-of-two
  gpurig explain 'mig/one-of-two[cgroup=v2,idmap=none]' --station plan
  gpurig explain mig/one-of-two --diff sim,sim-lxd
  gpurig explain --reasons`,
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
			if cmd.Flags().Changed("target") && len(f.diff) > 0 {
				return hint(errors.New("--target with --diff, which names two"), "leave one of them out")
			}
			return explain(cmd.Context(), s, f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.target, "target", "sim", "`TARGET` where the container is made: "+strings.Join(targetNames(), ", "))
	fl.StringSliceVar(&f.stations, "station", nil, "print the values of `STATION,...`: "+strings.Join(stations, ", "))
	fl.BoolVar(&f.all, "all", false, "print the values of all stations")
	fl.StringSliceVar(&f.diff, "diff", nil, "run on two targets `A,B` and print what differs")
	f.hostFlag(cmd)
	f.settings.flags(cmd)
	fl.BoolVar(&f.reasons, "reasons", false, "list the reasons of refusals, warnings and notes")
	completeFlag(cmd, "target", targetNames)
	completeFlag(cmd, "station", func() []string { return stations })
	cmd.ValidArgsFunction = complete(shippedNames)
	addOutput(cmd, &f.out)
	return cmd
}

// check refuses flags that have no meaning, before anything runs.
func (f *explainFlags) check() error {
	for _, x := range f.stations {
		if !slices.Contains(stations, x) {
			return fmt.Errorf("--station %q: want one of %s%s", x, strings.Join(stations, ", "), strictdoc.Meant(x, stations))
		}
	}
	if f.all {
		f.stations = stations
	}
	if n := len(f.diff); n > 0 && (n != 2 || f.diff[0] == f.diff[1]) {
		return hint(fmt.Errorf("--diff %s: want two targets", strings.Join(f.diff, ",")), "such as --diff sim,lxc")
	}
	for _, t := range f.targetNames() {
		if !slices.Contains(targetNames(), t) {
			flag := "--target"
			if len(f.diff) > 0 {
				flag = "--diff"
			}
			return fmt.Errorf("%s %q: want one of %s", flag, t, strings.Join(targetNames(), ", "))
		}
	}
	return nil
}

// targetNames are those that the variant runs on.
func (f *explainFlags) targetNames() []string {
	if len(f.diff) > 0 {
		return f.diff
	}
	return []string{f.target}
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

func explain(ctx context.Context, s Streams, f explainFlags, arg string) error {
	if err := f.check(); err != nil {
		return err
	}
	variants, _, err := f.variants([]string{arg})
	if err != nil {
		return err
	}
	if variants[0].Name != variants[len(variants)-1].Name {
		name, _, _ := strings.Cut(arg, "[")
		return hint(fmt.Errorf("%s has several scenarios: name one", arg), "gpurig list %s shows them", name)
	}
	opts, closeIt, err := f.options()
	if err != nil {
		return err
	}
	defer closeIt()
	if variants = variants[:1]; opts.Hardware != nil {
		variants = runner.OnHardware(variants)
	}
	targets, err := openTargets(ctx, f.targetNames(), f.lxd, f.lxcVersion, func(string) {})
	if err != nil {
		return err
	}
	specs := specgen.New(specgen.Options{Children: 1, CacheDir: cacheDir()})
	defer specs.Close()
	traces := map[string]runner.Trace{}
	opts.Targets, opts.Specs, opts.Jobs = targets, specs, 1
	opts.Trace = func(t runner.Trace) { traces[t.Target] = t }
	r, err := runner.Run(ctx, opts, variants)
	if err := errors.Join(err, closeTargets(targets)); err != nil {
		return broken(err)
	}
	if len(traces) < len(f.targetNames()) {
		return codeOf(r)
	}
	if len(f.diff) > 0 {
		a, b := traces[f.diff[0]], traces[f.diff[1]]
		err = f.out.print(s.Out, []runner.Trace{a, b}, func(w io.Writer) error { return explainDiff(w, a, b) })
	} else {
		trace := traces[f.target]
		err = f.out.print(s.Out, trace, func(w io.Writer) error { return explainText(w, trace, f.stations) })
	}
	return cmp.Or(err, codeOf(r))
}
