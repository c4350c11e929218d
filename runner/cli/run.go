package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/fakehw/cachedir"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/doctor"
	"gpurig/runner/specgen"
	"gpurig/runner/target/lxd"
	"gpurig/scenarios"
)

type runFlags struct {
	settings
	targets  []string
	jobs     int
	files    []string
	lab      labFlags
	failures string // folder

	degraded bool // a machine that is may be run on
}

func newRun(s Streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [SCENARIO...]",
		Short: "Run scenarios and report a verdict for each",
		Long: `Run runs scenarios: the shipped ones, or those given by name, folder or file. The
exit code is 0 if all passed, 1 if the product failed, 2 on bad usage or input or if
nothing is selected, 3 if there is no verdict.

With --fault every host has that fault. Scenarios expect hosts without it, so the
failures show what the fault breaks. Hosts that cannot have the fault are skipped.

With --retries what fails or cannot be judged is run again: if it passes then, it is
marked flaky. --quarantine names a list of known failures (docs/hardware.md): until
their day they are skipped with what they would be.

With --hardware this machine is the host of every scenario. Scenarios run if the
machine has what they need; those for one fake host are skipped. What is lost or
broken of the machine's GPUs is in every report, and the exit code is then 3, unless
--allow-degraded accepts it. Nothing on the
machine is changed, unless --allow-reconfigure lets scenarios change how GPUs are
partitioned and pass them to virtual machines; each scenario restores them. Without
--target, containers are LXD's, or plain LXC's on a machine without LXD, and they are
compared with a simulation.`,
		Example: `  gpurig run
  gpurig run --target sim,lxc --label mig --report out/report.json
  gpurig run --fault off-bus:0 --host dgx-a100
  gpurig run --hardware --report lab.json
  gpurig run --shard 2/5 --report shard-2.json my-scenarios/
  gpurig run --shard 2/5@last.json --report shard-2.json my-scenarios/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runScenarios(cmd.Context(), s, f, cmd.Flags().Changed("target"), args)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	f.selection.flags(cmd)
	fl.StringSliceVar(&f.targets, "target", []string{"sim"}, "`TARGET,...` where containers are made: "+strings.Join(targetNames(), ", ")+"; auto: all that this machine can, without "+strings.Join(byName, ", "))
	fl.IntVar(&f.jobs, "jobs", 0, "run `N` scenarios at a time (default one per processor)")
	fl.StringArrayVar(&f.files, "report", nil, "write a report to `FILE` (.json, .xml for JUnit, .md, .html); repeat for other formats")
	f.settings.flags(cmd)
	f.lab.flags(fl)
	fl.StringVar(&f.failures, "failures", "", "keep what shows of each failure as an archive in `FOLDER`; with --hardware also the machine and its driver's messages")
	fl.BoolVar(&f.degraded, "allow-degraded", false, "with --hardware: accept a machine that lost a GPU or a node, or whose driver is broken")
	completeFlag(cmd, "target", func() []string { return append(targetNames(), "auto") })
	completeReports(cmd)
	cmd.ValidArgsFunction = complete(shippedNames)
	return cmd
}

func runScenarios(ctx context.Context, s Streams, f runFlags, targeted bool, args []string) error {
	started := time.Now()
	if f.jobs < 0 {
		return fmt.Errorf("--jobs %d: want a positive number", f.jobs)
	}
	for _, file := range f.files {
		if err := reports.CheckFile(file); err != nil {
			return err
		}
	}
	for _, a := range args {
		if _, err := os.Lstat(a); err == nil && scenarios.Has(scenarios.Files, a) {
			show.Fprintf(s.Err, "note: %s is taken for the shipped scenarios of that name; what is here is ./%s\n", a, a)
		}
	}
	variants, shard, err := f.variants(args)
	if err != nil {
		return err
	}
	if f.degraded && !f.hardware {
		return hint(errors.New("--allow-degraded without --hardware: fake hosts are as scenarios say"), "leave it out")
	}
	opts, closeIt, err := f.options()
	if err != nil {
		return err
	}
	defer closeIt()
	if err := f.lab.apply(&opts, started); err != nil {
		return err
	}
	if f.failures != "" {
		a, err := newArchive(f.failures, f.hardware, func(err error) { show.Fprintf(s.Err, "warning: %s\n", err) })
		if err != nil {
			return err
		}
		opts.Failed = a.failed
	}
	var notes []string
	var stock runner.Stock
	if f.hardware {
		variants = runner.OnHardware(variants)
		if f.reconfigure && f.jobs > 1 {
			return errors.New("--jobs with --allow-reconfigure: one scenario at a time may change the machine")
		}
		f.jobs = max(f.jobs, 1) // containers that compute at a time share the GPU
		var note string
		if stock, err = opts.Hardware.Stock(); err != nil {
			return broken(err)
		}
		if len(stock.GPUs) == 0 {
			notes = append(notes, "there is no GPU on this machine: nothing that needs one can be judged")
		}
		for _, d := range stock.Degraded {
			show.Fprintf(s.Err, "warning: this machine is degraded: %s\n", d)
		}
		if f.targets, note = hardwareTargets(f.targets, targeted); note != "" {
			notes = append(notes, note)
		}
	} else if err := f.fitDaemon(); err != nil {
		return err
	}
	if err := measured(shard.Took, variants); err != nil {
		return err
	}
	for _, h := range slices.Sorted(maps.Keys(f.instead)) {
		notes = append(notes, fmt.Sprintf("%s stands for %s", f.instead[h], h))
	}
	if len(opts.Faults) > 0 {
		notes = append(notes, fmt.Sprintf("every host has %s; what scenarios expect is of hosts without", strings.Join(opts.Faults.Texts(), ", ")))
	}
	for _, n := range notes {
		show.Fprintf(s.Err, "note: %s\n", n)
	}
	targets, err := openTargets(ctx, f.targets, f.lxd, f.lxcVersion, func(n string) { show.Fprintf(s.Err, "note: %s\n", n) })
	if err != nil {
		return err
	}
	specs := specgen.New(specgen.Options{CacheDir: cacheDir()})
	defer specs.Close()
	// What is in use at a time is little, what is made is a lot.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(200 << 20)
	show := newProgress(s, len(shard.Of(variants))*len(targets))
	opts.Targets, opts.Specs, opts.Jobs, opts.Shard, opts.Result = targets, specs, f.jobs, shard, show.result
	var keep keeper
	if len(f.files) > 0 {
		opts.Trace = keep.trace
	}
	r, err := runner.Run(ctx, opts, variants)
	if err != nil {
		return errors.Join(err, closeTargets(targets))
	}
	show.end()
	var made []string
	for _, t := range targets {
		made = append(made, t.Name())
	}
	lost := []error{closeTargets(targets)}
	r.Tool, r.Started, r.Machine = "gpurig "+Version(), started.UTC().Truncate(time.Second), doctor.Machine(ctx, made)
	r.TookMS, r.CI = float64(time.Since(started).Milliseconds()), ciJob(os.Getenv)
	keep.fill(&r)
	if opts.Quarantine != nil {
		notes = append(notes, opts.Quarantine.Notes()...)
	}
	maps.Copy(r.Machine.Versions, simulated(targets))
	r.Notes, r.Degraded, r.Allowed, r.Machine.GPUs = notes, stock.Degraded, f.degraded, stock.GPUs
	if r.Shard != "" {
		if err := f.selected(&r, variants, shard, targets, opts.Faults.Texts()); err != nil {
			return errors.Join(err, errors.Join(lost...))
		}
	}
	for _, file := range f.files {
		lost = append(lost, reports.Write(file, r))
	}
	if err := summary(s.Out, r, time.Since(started)); err != nil {
		return err
	}
	if err := errors.Join(lost...); err != nil {
		return broken(err)
	}
	return codeOf(r)
}

// fitDaemon refuses what is for daemons that are not asked for.
func (f runFlags) fitDaemon() error {
	lxdToo := slices.ContainsFunc(f.targets, func(t string) bool { return strings.HasPrefix(t, "lxd") })
	incusToo := slices.ContainsFunc(f.targets, func(t string) bool { return strings.HasPrefix(t, "incus") })
	switch {
	case f.lxd.Daemon != "" && !lxdToo:
		return hint(errors.New("--lxd-daemon without a target that has one"), "--target lxd or lxd-native")
	case f.lxd.Daemon != "" && f.lxd.Socket != "" && f.lxd.Socket != lxd.Private && !slices.Contains(f.targets, "lxd-native"):
		return hint(errors.New("--lxd-daemon with --lxd-socket: the daemon there is used, and no other program is run"), "leave one of them out")
	case f.lxd.Socket != "" && !lxdToo && !incusToo:
		return hint(errors.New("--lxd-socket without a target that has a daemon"), "--target lxd, lxd-native, incus or incus-native")
	}
	return nil
}

// cacheDir is where Specs are kept between runs; empty where there is no home
// folder: nothing is kept then.
func cacheDir() string {
	dir, err := cachedir.Dir()
	if err != nil {
		return ""
	}
	return dir
}

// codeOf turns a report into the command's outcome.
func codeOf(r reports.Report) error {
	switch t := r.Totals; {
	case !r.Complete:
		return broken(errors.New("the run was cut short"))
	case t.Fail > 0:
		return &exit{code: ExitFailed}
	case t.Broken > 0:
		return &exit{code: ExitBroken}
	case len(r.Degraded) > 0 && !r.Allowed:
		return broken(hint(fmt.Errorf("this machine is degraded: %s", strings.Join(r.Degraded, "; ")), "repair it, or accept what is left with --allow-degraded"))
	case t.Pass+t.Differ == 0 && t.Skip > 0:
		return broken(errors.New("every scenario was skipped: nothing was judged"))
	case t.All() == 0:
		return &exit{code: ExitUsage, err: errors.New("this shard has no scenario")}
	}
	return nil
}

// summary writes what a person wants to know at the end: what failed and why,
// what was skipped and why, and the totals.
func summary(w io.Writer, r reports.Report, took time.Duration) error {
	return show.WriteText(w, reports.Summary(r, took))
}
