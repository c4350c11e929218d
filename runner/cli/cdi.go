package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/cdi/drm"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/cdi/pgpu"
	"gpurig/core/host"
	"gpurig/core/passthrough"
	"gpurig/core/pci"
	"gpurig/core/show"
)

func newCDI(s Streams) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "cdi",
		Short: "Generate, list and validate CDI Specs",
	})
	cmd.AddCommand(newCDIGenerate(s), newCDIList(s), newCDIValidate(s))
	return cmd
}

func newCDIGenerate(s Streams) *cobra.Command {
	var hostName string
	var text specText
	var faults []string
	var quiet bool
	var driver passthrough.HostOptions
	var o nvidia.Options
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make the CDI Spec of a host with NVIDIA's own library",
		Long: `Generate makes the CDI Spec of the NVIDIA devices of a fake host or of this
machine, and writes it to standard output. What the library could not find is
named on standard error, and so are devices that are withheld from the Spec since
a node that makes them what they are is not there.

With --mode vfio it is the Spec of the GPUs that a VFIO driver holds for virtual
machines, nvidia.com/pgpu or amd.com/pgpu, as Kata Containers reads it.`,
		Example: "  gpurig cdi generate --host dgx-a100 --format json",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text.format != cdi.JSON && text.format != cdi.YAML {
				return fmt.Errorf("--format %q: want json or yaml", text.format)
			}
			h, closeIt, err := openProduct(hostName, driver, faults...)
			if err != nil {
				return err
			}
			defer closeIt()
			if o.Mode == modeVFIO {
				return generateVFIO(s, h, text, o, cmd.Flags().Changed)
			}
			for _, v := range drm.Vendors() {
				if o.Mode == modeOf(v) || o.Mode == "auto" && only(h, v) {
					return generateDRM(s, h, text, v)
				}
			}
			res, err := h.Generate(cmd.Context(), o)
			if err != nil {
				return generation(err)
			}
			warnWithheld(s.Err, res.Spec.Kind, res.Withheld) // also when quiet: somebody will miss them
			if !quiet {
				for _, w := range res.Warnings {
					show.Fprintf(s.Err, "warning: %s\n", w.String())
				}
			}
			return text.write(s, res.Spec)
		},
	}
	fl := cmd.Flags()
	addHost(cmd, &hostName)
	fl.StringVar((*string)(&text.format), "format", "yaml", "`FORMAT`: json or yaml")
	fl.StringVar(&text.version, "spec-version", "", "write it in the words of an older `VERSION` of CDI, such as 0.5.0 for Podman 4; what that cannot say is refused, or left out and named")
	fl.StringVar(&o.Mode, "mode", "auto", "`MODE` of the library: "+strings.Join(nvidia.Modes(), ", ")+"; amd and intel, also taken where all GPUs are that vendor's; or "+modeVFIO)
	addDriver(cmd, &driver)
	fl.StringVar(&o.Vendor, "vendor", "", "`VENDOR` of the Spec's kind")
	fl.StringVar(&o.Class, "class", "", "`CLASS` of the Spec's kind")
	fl.StringSliceVar(&o.DeviceIDs, "device-id", nil, "`ID,...` of the devices in the Spec: index or UUID (default all)")
	fl.StringSliceVar(&o.DisabledHooks, "disable-hook", nil, "`NAME,...` of hooks that the Spec does without; all: every hook")
	fl.BoolVarP(&quiet, "quiet", "q", false, "omit warnings")
	addFaults(cmd, &faults)
	return cmd
}

// modeOf is the mode of the Spec of a vendor's GPUs: "amd", "intel".
func modeOf(v drm.Vendor) string { return strings.ToLower(v.Name) }

// only reports whether a host has a vendor's GPUs and nothing of NVIDIA's. A host with
// AMD's beside Intel's has AMD's Spec, which comes first.
func only(h *passthrough.Host, v drm.Vendor) bool {
	m, err := h.Model()
	if err != nil || m.Driver != nil || m.Tegra != nil {
		return false // the generator says what is wrong
	}
	of := func(vendor uint16) bool {
		return slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return g.PCI != nil && g.PCI.ID.Vendor == vendor })
	}
	return of(v.ID) && !of(pci.NVIDIA)
}

// generateDRM writes the Spec of a vendor's GPUs.
func generateDRM(s Streams, h *passthrough.Host, text specText, v drm.Vendor) error {
	src, err := h.DRM(v)
	if err != nil {
		return err
	}
	if src.Spec == nil {
		return hint(fmt.Errorf("the host has no GPU of %s that %s drives", v.Name, strings.Join(v.Drivers, " or ")), "lspci -k shows the driver of each GPU")
	}
	warnWithheld(s.Err, src.Spec.Kind, src.Withheld)
	return text.write(s, src.Spec)
}

// modeVFIO is the mode of the Spec of GPUs for virtual machines, which NVIDIA's
// library does not make.
const modeVFIO = "vfio"

// generateVFIO writes that Spec.
func generateVFIO(s Streams, h *passthrough.Host, text specText, o nvidia.Options, given func(flag string) bool) error {
	for _, name := range slices.Concat(driverFlags, []string{"device-id", "disable-hook"}) {
		if given(name) {
			return hint(fmt.Errorf("--%s has no meaning with --mode vfio, whose Spec has only nodes", name), "take it out")
		}
	}
	m, err := h.Model()
	if err != nil {
		return err
	}
	res, err := pgpu.Generate(h.Root(), m, pgpu.Options{Vendor: o.Vendor, Class: o.Class})
	if err != nil {
		return err
	}
	for _, e := range res.Withheld {
		show.Fprintf(s.Err, "warning: %s\nhint: %s\n", e.Error(), e.Hint)
	}
	return text.write(s, res.Spec)
}

// generation sorts an error of Spec generation: a refusal is the user's, the
// lack of a private namespace is this machine's.
func generation(err error) error {
	if h := hintOf(err); h == "" {
		return hint(err, "gpurig doctor says what this machine can do")
	}
	return err
}

// A cdiLine is one device in a listing.
type cdiLine struct {
	Name  string `json:"name"`
	Where string `json:"where"`
}

func newCDIList(s Streams) *cobra.Command {
	var hostName string
	var faults []string
	var out output
	var driver passthrough.HostOptions
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the CDI devices of a host, of all kinds",
		Example: "  gpurig cdi list --host a100-mig-2g-3g",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, closeIt, err := openProduct(hostName, driver, faults...)
			if err != nil {
				return err
			}
			defer closeIt()
			sources, said, err := h.Specs(cmd.Context())
			warnings(s.Err, said)
			if err != nil {
				return generation(err)
			}
			lines := []cdiLine{}
			for _, src := range sources {
				for _, d := range src.Spec.Devices {
					lines = append(lines, cdiLine{Name: src.Spec.Kind + "=" + d.Name, Where: src.Where})
				}
			}
			slices.SortStableFunc(lines, func(a, b cdiLine) int { return strings.Compare(a.Name, b.Name) })
			return out.print(s.Out, lines, func(w io.Writer) error {
				for _, l := range lines {
					if _, err := show.Fprintln(w, l.Name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	addHost(cmd, &hostName)
	addDriver(cmd, &driver)
	addFaults(cmd, &faults)
	addOutput(cmd, &out)
	return cmd
}

var errNotRegular = errors.New("not a regular file")

// readRegular reads a regular file of at most limit bytes.
func readRegular(file string, limit int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", file, errNotRegular)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, limit)
	}
	return data, nil
}

// A specText is how a Spec is written.
type specText struct {
	format  cdi.Format
	version string // of CDI; empty: as it was made
}

// write writes a Spec to standard output, and what its version has no word for to
// standard error.
func (t specText) write(s Streams, spec *specs.Spec) error {
	if t.version != "" {
		restated, left, err := cdi.Restate(spec, t.version)
		if err != nil {
			return hint(fmt.Errorf("--spec-version: %w", err), "leave out --spec-version for consumers that read newer versions")
		}
		for _, what := range left {
			show.Fprintf(s.Err, "warning: left out, since CDI %s has no word for it: %s\n", t.version, what)
		}
		spec = restated
	}
	data, err := cdi.Marshal(spec, t.format)
	if err != nil {
		return broken(err)
	}
	_, err = s.Out.Write(data)
	return err
}
