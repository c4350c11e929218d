package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/strictdoc"
	"gpurig/fakehw/profiles"
	"gpurig/runner"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/oci"
	"gpurig/runner/target/podman"
	"gpurig/runner/target/qemu"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/vfio"
	"gpurig/scenarios"
)

// A selection is which scenarios a command is about.
type selection struct {
	label string
	hosts []string
	shard string
	named []string // faults that the scenarios were named with: "mig/x[faults=no-uvm]"
	// instead has the recording that --host names, by the hosts it stands for.
	instead map[string]string
}

func (x *selection) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&x.label, "label", "", "only scenarios whose labels match `EXPRESSION`, such as 'mig && !slow'")
	x.hostFlag(cmd)
	fl.StringVar(&x.shard, "shard", "", "only part `K/N` of them, in which no other part has a scenario; K/N@REPORT.json: parts that take equally long, by what the report measured")
	completeFlag(cmd, "label", labelNames)
}

func (x *selection) hostFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&x.hosts, "host", nil, "only scenarios on these hosts (`HOST,...`); a recording, which ends in .txtar: those on hosts that it matches, run on it")
	completeFlag(cmd, "host", hostNames)
}

// variants returns the selected variants: of what the
// arguments name, or of the shipped scenarios.
func (x *selection) variants(paths []string) ([]scenarios.Variant, runner.Shard, error) {
	shard, err := parseShard(x.shard)
	if err != nil {
		return nil, shard, err
	}
	fits, err := scenarios.ParseLabels(x.label)
	if err != nil {
		return nil, shard, err
	}
	all, variants, faults, err := load(paths)
	if err != nil {
		return nil, shard, err
	}
	x.named = faults
	names, recording, err := x.splitHosts()
	if err != nil {
		return nil, shard, err
	}
	for _, h := range names {
		if !slices.Contains(profiles.Names(), h) {
			return nil, shard, noSuchHost(h)
		}
	}
	var out []scenarios.Variant
	for _, v := range variants {
		if fits(v.AllLabels()) && (len(names) == 0 || slices.Contains(names, v.Host)) {
			out = append(out, v)
		}
	}
	if recording != "" {
		if out, x.instead, err = onRecording(out, recording); err != nil {
			return nil, shard, err
		}
	}
	if len(out) == 0 {
		return nil, shard, x.none(all, fits)
	}
	return out, shard, nil
}

// parseShard reads "2/5" or "2/5@report.json".
func parseShard(text string) (shard runner.Shard, err error) {
	if text == "" {
		return shard, nil
	}
	text, file, measured := strings.Cut(text, "@")
	if shard, err = runner.ParseShard(text); err == nil && measured {
		shard.Took, err = durations(file)
	}
	return shard, err
}

// durations are those of a report.
func durations(file string) (map[string]float64, error) {
	r, err := readReport(file)
	return runner.Durations(r), err
}

// measured refuses a report that has none of what was selected: it is of something else.
func measured(took map[string]float64, all []scenarios.Variant) error {
	if took == nil || slices.ContainsFunc(all, func(v scenarios.Variant) bool { return took[v.ID()] > 0 }) {
		return nil
	}
	return hint(errors.New("the report whose durations are to be used has none of the scenarios that are selected"), "give one of the same scenarios, or leave @REPORT.json out")
}

// noSuchHost says what --host does not take here.
func noSuchHost(name string) error {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") {
		return hint(fmt.Errorf("--host %q: a profile file cannot replace another host", name), "write host: ./NAME.yaml in a scenario beside it; a recording (.txtar) can replace the host that it matches")
	}
	return hint(fmt.Errorf("--host %q: no such host%s", name, strictdoc.Meant(name, profiles.Names())), "gpurig host list lists the shipped profiles")
}

// none says why no scenario is selected.
func (x *selection) none(all []scenarios.Scenario, fits func([]string) bool) error {
	const where = "gpurig list shows all of them and their labels"
	var labels []string
	fit := 0
	for _, s := range all {
		if labels = append(labels, s.AllLabels()...); fits(s.AllLabels()) {
			fit++
		}
	}
	switch {
	case x.label != "" && fit == 0:
		meant := ""
		if !slices.Contains(labels, x.label) {
			meant = strictdoc.Meant(x.label, labels)
		}
		return hint(fmt.Errorf("no scenario is selected: none of %d has labels that fit --label %q%s", len(all), x.label, meant), "%s; expressions are as 'mig && !slow'", where)
	case x.label != "":
		return hint(fmt.Errorf("no scenario is selected: none of the %d that fit --label %q is on a host %s", fit, x.label, strings.Join(x.hosts, ", ")), where)
	}
	return hint(fmt.Errorf("no scenario is selected: none of %d is on a host %s", len(all), strings.Join(x.hosts, ", ")), where)
}

// shippedNames are those of the shipped scenarios and their folders.
func shippedNames() []string {
	var out []string
	_ = fs.WalkDir(scenarios.Files, ".", func(p string, e fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(p, ".yaml"); ok || err == nil && e.IsDir() && p != "." {
			out = append(out, name)
		}
		return nil
	})
	return out
}

// A targetMaker opens one target; the error is why it cannot be had here.
type targetMaker func(ctx context.Context, o lxd.Options) (target.Target, error)

// targetMakers are the targets by name, in the order of reports.
var targetMakers = []struct {
	name string
	make targetMaker
}{
	{"sim", func(context.Context, lxd.Options) (target.Target, error) { return sim.New(nil) }},
	{"lxc", func(context.Context, lxd.Options) (target.Target, error) { return lxc.Open(lxc.Options{}) }},
	{"sim-lxd", func(context.Context, lxd.Options) (target.Target, error) { return sim.NewLXD(nil) }},
	{"lxd", func(ctx context.Context, o lxd.Options) (target.Target, error) { return lxd.Open(ctx, o) }},
	{"lxd-native", func(_ context.Context, o lxd.Options) (target.Target, error) { return lxd.OpenNative(o) }},
	{"incus", func(ctx context.Context, o lxd.Options) (target.Target, error) {
		o.Flavour, o.Daemon = lxdapi.Incus, "" // it names one of LXD
		return lxd.Open(ctx, o)
	}},
	{"incus-native", func(_ context.Context, o lxd.Options) (target.Target, error) {
		o.Flavour, o.Daemon = lxdapi.Incus, "" // it names one of LXD
		return lxd.OpenNative(o)
	}},
	{"sim-oci", func(context.Context, lxd.Options) (target.Target, error) { return sim.NewOCI(nil, oci.Runtimes[0]) }},
	{"oci", func(context.Context, lxd.Options) (target.Target, error) { return oci.Open(oci.Options{}) }},
	{"sim-docker", func(context.Context, lxd.Options) (target.Target, error) { return sim.NewEngine(nil, observe.Docker) }},
	{"docker", func(context.Context, lxd.Options) (target.Target, error) { return openDocker(false) }},
	{"docker-cdi", func(context.Context, lxd.Options) (target.Target, error) { return openDocker(true) }},
	{"sim-podman", func(context.Context, lxd.Options) (target.Target, error) { return sim.NewEngine(nil, observe.Podman) }},
	{"podman", func(context.Context, lxd.Options) (target.Target, error) { return podman.Open(podman.Options{}) }},
	{"vfio", func(context.Context, lxd.Options) (target.Target, error) { return vfio.Open() }},
	{"qemu", func(ctx context.Context, _ lxd.Options) (target.Target, error) { return qemu.Open(ctx) }},
}

func targetNames() []string {
	var out []string
	for _, m := range targetMakers {
		out = append(out, m.name)
	}
	return out
}

// byName are targets that "auto" leaves out: a daemon makes each container in half
// a second, and a virtual machine boots in five, which all scenarios together wait
// minutes for.
var byName = []string{"sim-lxd", "lxd", "lxd-native", "incus", "incus-native", "sim-docker", "docker", "docker-cdi", "sim-podman", "podman", "qemu"}

// openTargets opens the targets of --target. "auto" is the simulation and every
// other target that this machine can make containers on, those byName left out.
func openTargets(ctx context.Context, names []string, o lxd.Options, lxcVersion string, note func(string)) ([]target.Target, error) {
	var out []target.Target
	auto := slices.Contains(names, "auto")
	for _, n := range names {
		if n != "auto" && !slices.Contains(targetNames(), n) {
			return nil, fmt.Errorf("--target %q: want %s or auto", n, strings.Join(targetNames(), ", "))
		}
	}
	for _, m := range targetMakers {
		if !slices.Contains(names, m.name) && (!auto || slices.Contains(byName, m.name)) {
			continue
		}
		t, err := m.make(ctx, o)
		if err != nil {
			var cannot *target.CannotError
			if auto && errors.As(err, &cannot) {
				note(fmt.Sprintf("target %s is left out: %s", m.name, cannot.Why))
				continue
			}
			closeTargets(out)
			if errors.As(err, &cannot) {
				return nil, broken(hint(err, "%s", cannot.Hint))
			}
			return nil, broken(err)
		}
		out = append(out, t)
	}
	if err := stand(out, lxcVersion); err != nil {
		return nil, errors.Join(err, closeTargets(out))
	}
	return out, nil
}

func closeTargets(ts []target.Target) error {
	var errs []error
	for _, t := range ts {
		errs = append(errs, t.Close(context.Background()))
	}
	return errors.Join(errs...)
}
