package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/host"
	"gpurig/core/show"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/profiles"
	"gpurig/runner/specgen"
)

func newHost(s Streams) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "host",
		Short: "List, show, build, record, compare, mount, enter and break hosts",
	})
	cmd.AddCommand(newHostList(s), newHostShow(s), newHostBuild(s), newHostCapture(s), newHostDiff(s))
	cmd.AddCommand(newHostEnter(s), newHostMount(s), newHostFault(s))
	return cmd
}

// A hostLine is one profile in a listing.
type hostLine struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Arch        string `json:"arch"`
	OS          string `json:"os"`
	Driver      string `json:"driver,omitempty"`
	GPUs        int    `json:"gpus"`
	MIGDevices  int    `json:"migDevices,omitempty"`
}

func newHostList(s Streams) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the fake hosts that are shipped",
		Example: "  gpurig host list --output json",
		Args:    takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			var lines []hostLine
			for _, name := range profiles.Names() {
				p, m, err := loadHost(name)
				if err != nil {
					return broken(err)
				}
				l := hostLine{Name: name, Description: p.Description, Arch: m.Arch, OS: m.OS.ID + " " + m.OS.VersionID, GPUs: len(m.GPUs)}
				if m.Driver != nil {
					l.Driver = m.Driver.Version
				}
				for _, g := range m.GPUs {
					l.MIGDevices += migDevices(g)
				}
				lines = append(lines, l)
			}
			return out.print(s.Out, lines, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				show.Fprintf(t, "HOST\tGPUS\tMIG\tDRIVER\tOS\tARCH\tDESCRIPTION\n")
				for _, l := range lines {
					show.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.GPUs, dash(l.MIGDevices), dashText(l.Driver), l.OS, l.Arch, l.Description)
				}
				return t.Flush()
			})
		},
	}
	addOutput(cmd, &out)
	return cmd
}

func dash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func dashText(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func migDevices(g host.GPU) int {
	n := 0
	if g.MIG != nil {
		for _, gi := range g.MIG.Instances {
			n += len(gi.Compute)
		}
	}
	return n
}

// loadHost reads a profile, by name or file, and expands it.
func loadHost(name string) (profiles.Profile, host.Model, error) {
	p, err := profiles.Load(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			if info, statErr := os.Stat(name); statErr == nil && info.Mode().IsRegular() && !strings.Contains(name, "/") {
				return p, host.Model{}, hint(err, "the file of that name in this folder is ./%s", name)
			}
			return p, host.Model{}, hint(err, "gpurig host list lists the shipped profiles")
		}
		return p, host.Model{}, err
	}
	m, err := p.Model()
	return p, m, err
}

func newHostShow(s Streams) *cobra.Command {
	var out output
	var faults []string
	var byRecord bool
	cmd := &cobra.Command{
		Use:   "show HOST",
		Short: "Show what a fake host has",
		Long: `Show prints what a fake host has. With --records it prints what programs see of
its boards and its machine, and marks each fact: recorded (a real machine said
the same), differs (it said something else, for a reason), wrong (to be fixed),
derived (it follows from other facts) or unverified (no record is known).`,
		Example: "  gpurig host show jetson-agx-orin --output json\n  gpurig host show t4-server --records",
		Args:    takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := openHost(args[0], faults...)
			if err != nil {
				return err
			}
			if byRecord {
				return showRecords(s.Out, &out, h)
			}
			return out.print(s.Out, h.model, func(w io.Writer) error { return showHost(w, h) })
		},
	}
	addOutput(cmd, &out)
	addFaults(cmd, &faults)
	cmd.Flags().BoolVar(&byRecord, "records", false, "print each fact with the record of a real machine that it is compared with")
	cmd.ValidArgsFunction = complete(hostNames, fixed())
	return cmd
}

func showHost(w io.Writer, h fakeHost) error {
	m := h.model
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, format string, args ...any) { show.Fprintf(t, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
	row("host", "%s", h.name)
	row("is", "%s", h.description)
	for _, f := range h.request.Faults {
		row("fault", "%s", f)
	}
	row("system", "%s %s, Linux %s, %s", m.OS.ID, m.OS.VersionID, m.Kernel, m.Arch)
	if m.Driver != nil {
		row("driver", "NVIDIA %s, CUDA %s, modules %s", m.Driver.Version, dashText(m.Driver.CUDA), strings.Join(m.Driver.Modules, " "))
	} else {
		row("driver", "no NVIDIA driver is loaded")
	}
	if m.Userspace != nil {
		row("libraries", "%s in %s%s", m.Userspace.Version, m.Userspace.DriverRoot, m.Userspace.LibDir)
	}
	if m.Tegra != nil {
		row("tegra", "%s, %s, L4T %s.%s", m.Tegra.Model, m.Tegra.Chip, strings.TrimPrefix(m.Tegra.Release, "R"), m.Tegra.Revision)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(m.GPUs) > 0 {
		show.Fprintln(w)
		show.Fprintf(t, "INDEX\tMINOR\tCARD\tRENDER\tADDRESS\tDRIVER\tNAME\tUUID\n")
		for _, g := range m.GPUs {
			at, driver := g.Platform, "-"
			if g.PCI != nil {
				at, driver = g.PCI.BDF.String(), dashText(g.PCI.Driver)
			}
			show.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", number(g.Index), number(g.Minor), number(g.Card), number(g.Render), at, driver, dashText(gpuName(g)), dashText(g.UUID))
			if g.MIG != nil && len(g.MIG.Instances) == 0 {
				show.Fprintf(t, "\t\t\t\t\t\tMIG mode is on, no instance is made\t\n")
			}
			if g.MIG != nil {
				for _, gi := range g.MIG.Instances {
					for _, ci := range gi.Compute {
						show.Fprintf(t, "%s\t\t\t\t\t\tMIG %s, GI %d, CI %d, placement %d:%d\t%s\n", fmt.Sprintf("%d:%d", g.Index, ci.Index), ci.Profile, gi.ID, ci.ID, gi.Start, gi.Size, ci.UUID)
					}
				}
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	show.Fprintln(w)
	show.Fprintf(t, "NODE\tNUMBER\tMODE\tOWNER\n")
	for _, n := range m.Nodes {
		show.Fprintf(t, "%s\t%s\t%04o\t%d:%d\n", n.Path, n.Num, n.Mode, n.UID, n.GID)
	}
	return t.Flush()
}

func gpuName(g host.GPU) string {
	if g.Name == "" && g.PCI != nil {
		return g.PCI.ID.String()
	}
	return g.Name
}

func number(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func newHostBuild(s Streams) *cobra.Command {
	var faults []string
	cmd := &cobra.Command{
		Use:   "build HOST DIR",
		Short: "Write the files of a fake host into a new folder",
		Long: `Build writes /sys, /proc, /dev, the driver's files and everything else of a fake
host into the folder DIR, which must be empty or not exist. Device nodes and
owners need root; otherwise they are left out, and standard error says how many
and why.`,
		Example: "  gpurig host build dgx-a100 ./dgx",
		Args:    takes(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := openHost(args[0], faults...)
			if err != nil {
				return err
			}
			return buildHost(cmd.Context(), s, h.request, args[1])
		},
	}
	addFaults(cmd, &faults)
	cmd.ValidArgsFunction = complete(hostNames, fixed())
	return cmd
}

func buildHost(ctx context.Context, s Streams, h specgen.Request, dir string) error {
	if dir == "" {
		return errors.New("a folder with an empty name")
	}
	entries, err := os.ReadDir(dir)
	was := err == nil
	switch {
	case err == nil && len(entries) > 0:
		return hint(fmt.Errorf("folder %s is not empty", dir), "name a new folder: nothing is ever overwritten")
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	t, err := h.Tree()
	if err != nil {
		return broken(err)
	}
	missing, err := disk.Write(ctx, t, dir, disk.Options{Mknod: os.Geteuid() == 0})
	for _, line := range leftOut(missing) {
		show.Fprintf(s.Err, "left out: %s\n", line)
	}
	if err != nil {
		return broken(errors.Join(fmt.Errorf("%s: %w", dir, err), unmake(dir, was)))
	}
	return nil
}

// leftOut says what of a tree could not be made: a line for each reason, with how
// many and the first of them, since without root it is every node and owner there is.
func leftOut(missing []disk.Missing) []string {
	type reason struct {
		of, why string
		n       int
		first   disk.Missing
	}
	var found []*reason
	for _, m := range missing {
		of, why := "device nodes", m.Err.Error()
		if strings.HasPrefix(m.What, "owner ") {
			of = "owners"
		}
		if errors.Is(m.Err, disk.ErrNotAsked) || errors.Is(m.Err, os.ErrPermission) {
			why = "that takes root"
		}
		i := slices.IndexFunc(found, func(r *reason) bool { return r.of == of && r.why == why })
		if i < 0 {
			i, found = len(found), append(found, &reason{of: of, why: why, first: m})
		}
		found[i].n++
	}
	var out []string
	for _, r := range found {
		if r.n == 1 {
			out = append(out, fmt.Sprintf("%s: %s: %s", r.first.Path, r.first.What, r.why))
			continue
		}
		out = append(out, fmt.Sprintf("%d %s, such as %s (%s): %s", r.n, r.of, r.first.Path, r.first.What, r.why))
	}
	return out
}

// unmake takes back what was written into a folder that was empty, or was not there.
func unmake(dir string, keep bool) error {
	if !keep {
		return os.RemoveAll(dir)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
