package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/spf13/cobra"

	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/passthrough"
	"gpurig/core/plan"
	"gpurig/core/request"
	"gpurig/core/show"
	"gpurig/fakehw/cachedir"
	"gpurig/reports"
)

type translateFlags struct {
	host, to, cgroup    string
	driver              passthrough.HostOptions
	ids                 []string
	options             request.Options
	strict, mapGroups   bool
	rootfs              string
	idmap               string
	name                string
	hookPath, hookFile  string
	nodesDir            string
	applyIn, lxcVersion string
	writeHook           bool
	named               bool // --name is given
	policy              string
	faults              []string
	out                 output
}

func newTranslate(s Streams) *cobra.Command {
	var f translateFlags
	cmd := &cobra.Command{
		Use:   "translate",
		Short: "Write the configuration that gives GPUs to a container or a virtual machine",
		Long: `Translate turns the options of GPU devices, as LXD names them, into the
configuration of a container manager, for a fake host or for this machine.

The configuration goes to standard output. What cdi-hook has to do inside the
container's root goes into the file of --hook-file, written only when
--write-hook is given; --output json shows all of it.

For an OCI runtime the output is the part of config.json that is to be added.

If cdi-hook has nothing to do, as for device nodes only, no line starts it. If it
ran for an earlier configuration of the same container, the manager then runs it
once with --stage clean while the container is stopped: the output says how.

With --to qemu the output is a shell script for a virtual machine: "start" gives
the GPUs to a VFIO driver, or makes the vGPUs, and "stop" undoes that. QEMU's
arguments are in it as comments. See docs/vm.md.`,
		Example: `  gpurig translate --host workstation --to lxc --cgroup v2 --id nvidia.com/gpu=0
  gpurig translate --to lxc --id nvidia.com/gpu=all --name c1 --write-hook
  gpurig translate --host workstation --to qemu --pci 0a:00.0 --name vm1`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.named = cmd.Flags().Changed("name")
			if f.to == "qemu" {
				return runTranslateVM(cmd.Context(), s, f, cmd.Flags().Changed)
			}
			if err := f.fits(cmd.Flags().Changed); err != nil {
				return err
			}
			return runTranslate(cmd.Context(), s, f)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	addHost(cmd, &f.host)
	addDriver(cmd, &f.driver)
	fl.StringVar(&f.to, "to", "lxc", "container `MANAGER`: lxc; lxd or incus: YAML for \"lxc config edit\"; oci: an OCI runtime; pve: Proxmox VE; qemu: a virtual machine")
	fl.StringVar(&f.cgroup, "cgroup", "", "for --to lxc: device rules for cgroup `VERSION` v1, v2 or both (default both, and v2 from LXC 7 on, which has no other)")
	fl.StringArrayVar(&f.ids, "id", nil, "CDI device `NAME`, or number of a DRM card; repeat for more devices")
	o := &f.options
	for _, x := range []struct {
		name, usage string
		p           *string
	}{
		{"gputype", "`TYPE`: physical, mig, mdev or sriov", &o.GPUType}, {"pci", "PCI `ADDRESS`", &o.PCI},
		{"vendorid", "PCI `VENDOR`, four hex digits", &o.VendorID}, {"productid", "PCI `PRODUCT`, four hex digits", &o.ProductID},
		{"mig.gi", "`ID` of a GPU instance", &o.MIGGI}, {"mig.ci", "`ID` of a compute instance", &o.MIGCI}, {"mig.uuid", "`UUID` of a MIG device", &o.MIGUUID},
		{"mdev", "`TYPE` of a mediated device", &o.MDev},
		{"uid", "`UID` of the nodes inside the container", &o.UID}, {"gid", "`GID` of the nodes", &o.GID}, {"mode", "permission bits of the nodes, `OCTAL`", &o.Mode},
	} {
		fl.StringVar(x.p, x.name, "", x.usage)
	}
	fl.BoolVar(&f.strict, "strict", false, "refuse what is otherwise a warning")
	fl.StringVar(&f.idmap, "idmap", "none", "none (privileged), default (0 to 100000, 65536 ids) or `FIRST:COUNT`")
	fl.StringVar(&f.rootfs, "rootfs", "", "`DIR` of the container's root, whose /etc/group is compared with the host's")
	fl.BoolVar(&f.mapGroups, "map-groups", false, "give nodes and the first process the groups of the same name in --rootfs")
	fl.StringVar(&f.name, "name", "container", "`NAME` of the container, as its manager knows it; cdi-hook refuses to run for another one. Of a virtual machine: its vGPUs' UUIDs are made of it")
	fl.StringVar(&f.hookPath, "hook-path", "", "`PROGRAM` to run as cdi-hook (default the one beside gpurig)")
	fl.StringVar(&f.hookFile, "hook-file", "", "`FILE` that the hook reads (default /var/lib/lxc/NAME/cdi-hook.json)")
	fl.StringVar(&f.nodesDir, "nodes-dir", "", "`DIR` where the container's own nodes are made (default /var/lib/lxc/NAME/devices)")
	fl.StringVar(&f.applyIn, "apply-in", "start-host", "for --to lxc, lxd and incus: LXC `HOOK` that makes links and library cache: start-host or mount")
	fl.StringVar(&f.lxcVersion, "lxc-version", "", "`VERSION` of LXC that reads the configuration (default on this machine the one installed, for lxd and incus that of the daemon that runs, else 5 or 6)")
	fl.BoolVar(&f.writeHook, "write-hook", false, "write the hook's file")
	completeFlag(cmd, "to", fixed("lxc", "lxd", "incus", "oci", "pve", "qemu"))
	completeFlag(cmd, "gputype", fixed("physical", "mig", "mdev", "sriov"))
	completeFlag(cmd, "cgroup", fixed("v1", "v2", "both"))
	addPolicy(cmd, &f.policy)
	addFaults(cmd, &f.faults)
	addOutput(cmd, &f.out)
	return cmd
}

// A translation is what translate makes, all of it.
type translation struct {
	Configuration []string      `json:"configuration,omitempty"`
	LXC           string        `json:"lxc,omitempty"` // version that Configuration is for; empty: 5 or 6
	OCI           *rspec.Spec   `json:"oci,omitempty"` // what is added to config.json, in place of Configuration
	HookFile      string        `json:"hookFile,omitempty"`
	Hook          hookspec.File `json:"hook"`
	// Clean is what takes back the work of an earlier configuration, where this
	// one does not run cdi-hook; ROOTFS stands for the container's root.
	Clean []string    `json:"clean,omitempty"`
	Make  []plan.Node `json:"make,omitempty"` // nodes to be made with mknod first
	Notes []plan.Note `json:"notes,omitempty"`
	Plan  plan.Plan   `json:"plan"`

	managed bool // the container manager denies all other devices itself
}

func runTranslate(ctx context.Context, s Streams, f translateFlags) error {
	t, err := f.translate(ctx, s)
	if err != nil {
		return err
	}
	if f.writeHook {
		if f.to != "oci" && !f.named {
			return hint(errors.New("--write-hook without --name"), "give the container's name as its manager knows it: cdi-hook refuses to run for another one")
		}
		data, err := t.Hook.Marshal()
		if err != nil {
			return broken(err)
		}
		if info, err := os.Lstat(t.HookFile); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %w", t.HookFile, errNotRegular)
		}
		if err := reports.WriteFile(t.HookFile, data); err != nil {
			return err
		}
	}
	return f.out.print(s.Out, t, func(w io.Writer) error { return t.text(w) })
}

func (f translateFlags) translate(ctx context.Context, s Streams) (translation, error) {
	if !slices.Contains([]string{"lxc", "lxd", "incus", "oci", "pve"}, f.to) {
		return translation{}, fmt.Errorf("--to %q: want lxc, lxd, incus, oci, pve or qemu", f.to)
	}
	idmap, err := parseIDMap(f.idmap)
	if err != nil {
		return translation{}, err
	}
	version, err := f.liblxc(ctx)
	if err != nil {
		return translation{}, err
	}
	if err := f.defaults(); err != nil {
		return translation{}, err
	}
	h, closeIt, err := openProduct(f.host, f.driver, f.faults...)
	if err != nil {
		return translation{}, err
	}
	defer closeIt()
	o := passthrough.Options{IDMap: idmap, MapGroups: f.mapGroups}
	if o.Groups, err = readGroups(f.rootfs, f.mapGroups); err != nil {
		return translation{}, err
	}
	if o.Policy, err = readPolicy(f.policy, h.Root()); err != nil {
		return translation{}, err
	}
	made, err := f.plan(ctx, s, h, o)
	if err != nil {
		return translation{}, err
	}
	p := *made.Plan
	if f.host == "" { // a fake host is somewhere else
		if why := cannotRun(f.hookPath); why != "" {
			show.Fprintf(s.Err, "warning: %s: a container that runs it as its hook does not start\n", why)
		}
	}
	switch f.to {
	case "oci":
		return f.emitOCI(p, idmap)
	case "pve":
		return f.emitPVE(p, idmap, version)
	case "lxd", "incus":
		return f.emitLXD(p, idmap, version)
	}
	c, err := lxc.Emit(p, lxc.Options{Cgroup: f.cgroup, IDMap: idmap, NodesDir: f.nodesDir, HookPath: f.hookPath, HookFile: f.hookFile,
		ApplyIn: f.applyIn, Container: f.name, LXCVersion: version})
	if err != nil {
		return translation{}, err
	}
	t := translation{LXC: known(version), Configuration: c.Entries.Lines(), HookFile: f.hookFile, Hook: c.Hook, Make: c.Make, Notes: append(p.Notes, c.Notes...), Plan: p}
	if !c.Hooked {
		t.Clean = []string{f.hookPath, "--stage", "clean", "--root", "ROOTFS", f.hookFile}
	}
	return t, nil
}

func (f *translateFlags) defaults() error {
	if f.hookPath == "" {
		var err error
		if f.hookPath, err = cachedir.Beside("cdi-hook"); err != nil && !errors.Is(err, fs.ErrNotExist) { // which cannotRun says
			return err
		}
	}
	dir := "/var/lib/lxc/" + f.name
	if f.to == "lxd" || f.to == "incus" {
		dir = "/var/lib/" + f.to + "/cdi-hook/" + f.name
	}
	if f.hookFile == "" {
		f.hookFile = dir + "/cdi-hook.json"
	}
	if f.nodesDir == "" {
		f.nodesDir = dir + "/devices"
	}
	if len(f.ids) == 0 {
		f.ids = []string{""}
	}
	if len(f.ids) == 1 && f.ids[0] == "" && f.options == (request.Options{}) {
		what := "--id, --pci, --vendorid or --mig.uuid"
		if f.to == "qemu" {
			what = "--id, --pci or --vendorid, or --gputype with --mdev"
		}
		return hint(fmt.Errorf("no device is asked for"), "give %s", what)
	}
	return nil
}

// plan asks the product, and writes its warnings.
func (f translateFlags) plan(ctx context.Context, s Streams, h *passthrough.Host, o passthrough.Options) (passthrough.Result, error) {
	o.Strict = f.strict
	devices := map[string]request.Options{}
	for i, id := range f.ids {
		d := f.options
		d.ID = id
		devices[fmt.Sprintf("gpu%d", i)] = d
	}
	out, err := passthrough.Plan(ctx, h, devices, o)
	warnings(s.Err, out.Warnings)
	if err != nil && out.Refused == nil {
		err = generation(err)
	}
	return out, err
}

func (t translation) text(w io.Writer) error {
	if t.OCI != nil {
		return t.ociText(w)
	}
	var b strings.Builder
	show.Fprintf(&b, "# For LXC %s; --lxc-version has it written for another.\n", cmp.Or(t.LXC, "5 or 6"))
	if !t.managed {
		b.WriteString("# The container's own configuration brings lxc.rootfs.path = dir:/... and denies\n# all devices first (lxc.cgroup2.devices.deny = a), else the rules here restrict\n# nothing.\n")
	}
	if t.Clean == nil {
		show.Fprintf(&b, "# cdi-hook reads %s.\n", t.HookFile)
	} else {
		show.Fprintf(&b, "# cdi-hook has nothing to do, and no line starts it. Where an earlier\n# configuration of this container did, take its work back once, before the next\n# start: %s\n", strings.Join(t.Clean, " "))
	}
	for _, n := range t.Make {
		show.Fprintf(&b, "# First: mknod %s %s %d %d; chown %d:%d; chmod %04o\n", n.Path, n.Type, n.Num.Major, n.Num.Minor, n.UID, n.GID, n.Mode)
	}
	for _, n := range t.Notes {
		show.Fprintf(&b, "# Not applied: %s: %s\n", n.What, n.Detail)
	}
	for _, l := range t.Configuration {
		show.Fprintln(&b, l)
	}
	return show.WriteText(w, b.String())
}

// parseIDMap reads the value of --idmap.
func parseIDMap(s string) ([]plan.IDMap, error) {
	switch s {
	case "none":
		return nil, nil
	case "default":
		return []plan.IDMap{{Container: 0, Host: 100_000, Count: 65_536}}, nil
	}
	var m plan.IDMap
	var rest string
	if n, _ := fmt.Sscanf(s+" .", "%d:%d %s", &m.Host, &m.Count, &rest); n != 3 || m.Count == 0 || uint64(m.Host)+uint64(m.Count) > 1<<32-1 {
		return nil, fmt.Errorf("--idmap %q: want none, default or FIRST:COUNT, such as 100000:65536", s)
	}
	return []plan.IDMap{m}, nil
}
