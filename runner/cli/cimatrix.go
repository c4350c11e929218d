package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/doctor"
	"gpurig/runner/pipeline"
	"gpurig/scenarios"
)

type matrixFlags struct {
	settings
	lab       labFlags
	engine    string
	targets   []string
	n         int
	durations string
	nodes     string
	into      string
	p         pipeline.Pipeline
}

func newCIMatrix(s Streams) *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:   "ci-matrix [SCENARIO...]",
		Short: "Write the files that run scenarios on many machines",
		Long: `Ci-matrix writes the files by which GitHub, GitLab, Slurm, Kubernetes, Testflinger or
LAVA runs scenarios in shards on many machines and joins their reports. The scenarios,
and the flags of run, are those of the run.

With --durations shards take equally long. With --hardware, scenarios that need
different machines are in different shards: each goes to machines that have a label,
tag, feature or queue of that name, as docs/many-machines.md says. --nodes names a folder
with NODE.json for each machine, what gpurig doctor --output json says there: needs that
no machine has are reported, and for Slurm and Kubernetes the machines get their
features by the file features.sh.

A file that is there is replaced only if ci-matrix has made it.`,
		Example: `  gpurig ci-matrix --for github --shards 4 --durations last.json --into .
  gpurig ci-matrix --for slurm --shards 12 --hardware --target sim,lxc --nodes nodes --into lab hardware`,
		RunE: func(_ *cobra.Command, args []string) error { return ciMatrix(s, f, args) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.engine, "for", "", "`ENGINE` that runs them: "+strings.Join(pipeline.Engines, ", "))
	fl.IntVar(&f.n, "shards", 4, "make `N` shards")
	fl.StringVar(&f.durations, "durations", "", "`REPORT.json` whose durations make shards take equally long")
	fl.StringVar(&f.nodes, "nodes", "", "`FOLDER` with NODE.json of each machine, from gpurig doctor --output json")
	fl.StringVar(&f.into, "into", ".", "write to `FOLDER`")
	fl.StringVar(&f.p.Program, "program", "", "`COMMAND` that is gpurig there (default by engine)")
	fl.StringVar(&f.p.Setup, "setup", "", "shell `COMMAND` that makes it available there (default by engine)")
	fl.StringVar(&f.p.Image, "image", "", "container `IMAGE` of shards, for gitlab and kubernetes: with a shell, and gzip")
	fl.StringVar(&f.p.Queue, "queue", "gpurig", "`QUEUE` of testflinger, or device type of lava")
	fl.StringVar(&f.label, "label", "", "only scenarios whose labels match `EXPRESSION`, such as 'mig && !slow'")
	f.hostFlag(cmd)
	fl.StringSliceVar(&f.targets, "target", []string{"sim"}, "`TARGET,...` where containers are made")
	f.settings.flags(cmd)
	f.lab.flags(fl)
	completeFlag(cmd, "for", fixed(pipeline.Engines...))
	completeFlag(cmd, "label", labelNames)
	completeFlag(cmd, "target", targetNames)
	cmd.ValidArgsFunction = complete(shippedNames)
	return cmd
}

// ownProgram is how gpurig is called where nothing is said, and how it comes there.
var ownProgram = map[string]struct{ program, setup string }{
	"github": {"bin/gpurig", "make build"},
	"gitlab": {"bin/gpurig", "make build"},
	// The kit's programs find each other by their folder, and runc by the path.
	"testflinger": {`sudo env "PATH=$PWD/bin:$PATH" bin/gpurig`, ""},
}

func ciMatrix(s Streams, f matrixFlags, args []string) error {
	if !slices.Contains(pipeline.Engines, f.engine) {
		return fmt.Errorf("--for %q: want %s", f.engine, strings.Join(pipeline.Engines, ", "))
	}
	switch {
	case f.n < 1 || f.n > 1000:
		return fmt.Errorf("--shards %d: want 1 to 1000", f.n)
	case f.engine == "kubernetes" && f.hardware:
		return hint(errors.New("--hardware with --for kubernetes: a pod sees neither the driver's files of its node nor its daemons"), "use another engine for hardware")
	case f.engine == "kubernetes" && f.p.Image == "":
		return hint(errors.New("--for kubernetes without --image"), "it needs gpurig, a shell and gzip: an image of Debian with gpurig's package")
	case f.p.Image != "" && f.engine != "kubernetes" && f.engine != "gitlab":
		return fmt.Errorf("--image with --for %s: its shards run in no container", f.engine)
	}
	for _, t := range f.targets {
		if t != "auto" && !slices.Contains(targetNames(), t) {
			return fmt.Errorf("--target %q: want %s or auto", t, strings.Join(targetNames(), ", "))
		}
	}
	variants, _, err := f.variants(args)
	if err != nil {
		return err
	}
	if err := f.portable(args); err != nil {
		return err
	}
	if f.hardware {
		variants = runner.OnHardware(variants)
	}
	shard := runner.Shard{K: 1, N: f.n}
	if f.durations != "" {
		r, err := readReport(f.durations)
		if err != nil {
			return err
		}
		shard.Took = runner.Durations(r)
		if err := measured(shard.Took, variants); err != nil {
			return err
		}
		if f.p.Measured, err = onlyDurations(r); err != nil {
			return err
		}
	}
	nodes, err := readNodes(f.nodes)
	if err != nil {
		return err
	}
	f.p.N, f.p.Scenarios, f.p.Hardware = f.n, len(variants), f.hardware
	f.p.Arguments = f.arguments(args)
	f.p.Root = slices.ContainsFunc(f.targets, func(t string) bool { return !strings.HasPrefix(t, "sim") })
	own := ownProgram[f.engine]
	if f.p.Program == "" {
		if f.p.Program = "gpurig"; own.program != "" {
			f.p.Program = own.program
		}
		if f.p.Setup == "" {
			f.p.Setup = own.setup
		}
		if f.p.Root && f.engine == "github" {
			f.p.Program = "sudo " + f.p.Program
		}
	}
	if f.p.Image == "" && f.engine == "gitlab" && f.p.Setup == own.setup {
		f.p.Image = "golang:1.26"
	}
	var programs []string
	for _, t := range f.targets {
		if p := programOf[t]; p != "" && !slices.Contains(programs, p) {
			programs = append(programs, p)
		}
	}
	features := map[string]func(node) bool{}
	for _, p := range programs {
		features[p] = func(n node) bool { return n.can[p] }
	}
	for _, c := range shard.Classes(variants) {
		g := pipeline.Group{Name: "any", First: c.First, Last: c.Last, Minutes: 60, Features: programs}
		if c.TookMS > 0 {
			g.Minutes = max(10, int(3*time.Duration(c.TookMS*1e6)/time.Minute))
		}
		if c.Needs != nil {
			g.Name, g.Needy = c.Needs.Name(), true
			has := func(n node) bool { return n.has != nil && c.Needs.Missing(*n.has) == "" }
			if len(nodes) > 0 && !slices.ContainsFunc(nodes, has) {
				show.Fprintf(s.Err, "note: no machine has what %d scenarios need (%s): any machine may skip them, with the reason\n", c.Variants, g.Name)
				g.Needy = false
			} else {
				g.Features = append(slices.Clone(programs), g.Name)
				features[g.Name] = has
			}
		}
		f.p.Groups = append(f.p.Groups, g)
	}
	if f.hardware && len(f.p.Groups) == 1 && !f.p.Groups[0].Needy && slices.ContainsFunc(variants, func(v scenarios.Variant) bool { return v.Needs != nil }) && f.n > 1 {
		show.Fprintf(s.Err, "note: %d shards are too few to send scenarios to machines that have what they need: any machine runs any\n", f.n)
	}
	files, err := f.p.Files(f.engine)
	if err != nil {
		return broken(err)
	}
	if text := featuresFile(f.engine, nodes, features); text != "" {
		files = append(files, pipeline.File{Name: "features.sh", Data: []byte(text), Exec: true})
	}
	return writeFiles(s, f.into, files)
}

// programOf is the check of gpurig doctor that a target takes.
var programOf = map[string]string{"lxc": "lxc", "lxd": "lxd", "lxd-native": "lxd", "incus": "incus", "incus-native": "incus",
	"oci": "runc", "docker": "docker", "docker-cdi": "docker", "podman": "podman", "vfio": "machine", "qemu": "qemu"}

// portable refuses what is of this machine alone, or would be something else in a file.
func (f *matrixFlags) portable(args []string) error {
	for _, a := range slices.Concat(args, f.hosts, []string{f.lxd.Daemon, f.lxd.Socket, f.label, f.lab.quarantine}) {
		switch {
		case strings.ContainsFunc(a, unicode.IsControl) || strings.Contains(a, "${{"):
			return fmt.Errorf("%q: files for %s cannot carry it", a, f.engine)
		case filepath.IsAbs(a):
			return hint(fmt.Errorf("%s: other machines may not have this path", a), "name files by their paths below the folder that the pipeline starts in")
		}
	}
	return nil
}

// arguments are those of gpurig run in every shard.
func (f *matrixFlags) arguments(args []string) []string {
	out := []string{"--target", strings.Join(f.targets, ",")}
	if f.label != "" {
		out = append(out, "--label", f.label)
	}
	again := f.again()
	if len(f.hosts) > 0 && !slices.Contains(again, "--host") {
		out = append(out, "--host", strings.Join(f.hosts, ","))
	}
	for _, x := range f.faults {
		out = append(out, "--fault", x)
	}
	return slices.Concat(out, again, f.lab.again(), args)
}

// onlyDurations is a report with nothing but what shards are balanced by.
func onlyDurations(r reports.Report) ([]byte, error) {
	small := reports.Report{Tool: r.Tool, Started: r.Started}
	for _, res := range r.Results {
		small.Results = append(small.Results, reports.Result{Scenario: res.Scenario, Variant: res.Variant, Target: res.Target, Host: res.Host, Verdict: reports.Skip, DurationMS: res.DurationMS})
	}
	small.Finish(true)
	data, err := json.Marshal(small)
	return append(data, '\n'), err
}

// A node is a machine, as its gpurig doctor describes it.
type node struct {
	name string
	can  map[string]bool
	has  *scenarios.Supply
}

// readNodes reads the NODE.json of a folder; "" has none.
func readNodes(dir string) ([]node, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, hint(fmt.Errorf("--nodes %s: it has no file NODE.json", dir), "on each machine: gpurig doctor --output json >NODE.json")
	}
	var out []node
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var checks []doctor.Check
		if err := json.Unmarshal(data, &checks); err != nil || len(checks) == 0 {
			return nil, hint(fmt.Errorf("%s: not what gpurig doctor says", file), "gpurig doctor --output json writes it")
		}
		n := node{name: strings.TrimSuffix(filepath.Base(file), ".json"), can: map[string]bool{}}
		if strings.Trim(n.name, "-_.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" || strings.HasPrefix(n.name, "-") {
			return nil, fmt.Errorf("%s: %q is not the name of a machine", file, n.name)
		}
		for _, c := range checks {
			n.can[c.Name] = c.State == doctor.Yes
			if c.Has != nil {
				n.has = c.Has
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// featuresFile gives the machines of Slurm or Kubernetes what shards are sent by; empty:
// there is nothing to give.
func featuresFile(engine string, nodes []node, features map[string]func(node) bool) string {
	format := map[string]string{
		"slurm":      "scontrol update NodeName=%s AvailableFeatures=%s ActiveFeatures=%[2]s\n",
		"kubernetes": "kubectl label --overwrite node %s %s\n",
	}[engine]
	if format == "" || len(nodes) == 0 || len(features) == 0 {
		return ""
	}
	var b strings.Builder
	show.Fprintf(&b, "#!/bin/sh\n# %s --for %s: what each machine has of what shards want. For Slurm, put it into\n# slurm.conf too; a node keeps what it has of other features only there.\nset -eu\n", pipeline.Mark, engine)
	for _, n := range nodes {
		var has []string
		for name, fits := range features {
			if fits(n) && engine == "kubernetes" {
				has = append(has, "gpurig/"+name+"=yes")
			} else if fits(n) {
				has = append(has, name)
			}
		}
		slices.Sort(has)
		if len(has) > 0 {
			sep := ","
			if engine == "kubernetes" {
				sep = " "
			}
			show.Fprintf(&b, format, n.name, strings.Join(has, sep))
		}
	}
	return b.String()
}

// writeFiles writes all or none: not over what somebody else has made.
func writeFiles(s Streams, dir string, files []pipeline.File) error {
	for _, f := range files {
		p := filepath.Join(dir, f.Name)
		old, err := os.ReadFile(p)
		if err == nil && f.Name != pipeline.Durations && !bytes.Contains(old, []byte(pipeline.Mark)) {
			return hint(fmt.Errorf("%s: it is there, and ci-matrix has not made it", p), "move it away, or name another folder with --into")
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, f := range files {
		p := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			return err
		}
		mode := os.FileMode(0o666)
		if f.Exec {
			mode = 0o777
		}
		if err := os.WriteFile(p, f.Data, mode); err != nil {
			return err
		}
		show.Fprintln(s.Out, p)
	}
	return nil
}
