package nvidia

import (
	"fmt"
	"path"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/core/refuse"
)

// csvDir is where L4T keeps the lists of what containers need.
const csvDir = "/etc/nvidia-container-runtime/host-files-for-container.d"

// defaultCSV are the lists that NVIDIA's runtime reads; others in that folder
// are for other uses.
var defaultCSV = [...]string{"devices.csv", "drivers.csv", "l4t.csv"}

// findCSV lists the CSV files that are there. Files that the caller named must
// be; of the default ones, one is enough (bug empty-tegra-spec).
func (g *generator) findCSV() error {
	for _, f := range g.opts.CSVFiles {
		if ok, err := host.Exists(g.root, f); err != nil || !ok {
			return refusal(ReasonNoCSV, f, "no such file").WithErr(err)
		}
	}
	g.csv = g.opts.CSVFiles
	if len(g.csv) == 0 {
		for _, name := range defaultCSV {
			f := path.Join(csvDir, name)
			ok, err := host.Exists(g.root, f)
			if err != nil {
				return refusal(ReasonNoCSV, f, "cannot look for it").WithErr(err)
			}
			if ok {
				g.csv = append(g.csv, f)
			}
		}
	}
	if len(g.csv) == 0 {
		return refusal(ReasonNoCSV, csvDir, "none of %s is there", strings.Join(defaultCSV[:], ", ")).
			WithHint("Install the package nvidia-container-csv or nvidia-l4t-init of the board's JetPack release.")
	}
	g.warnMIG()
	return g.checkCSV()
}

// checkCSV refuses files with lines that must not be carried out, and warns of
// those that are not (B43).
func (g *generator) checkCSV() error {
	g.csvAt = map[string]string{}
	var bad []*refuse.Error
	for _, f := range g.csv {
		data, err := g.root.ReadFile(f)
		if err != nil {
			return refusal(ReasonNoCSV, f, "cannot be read").WithErr(err)
		}
		lines, problems := parseCSV(data)
		for _, l := range lines {
			if g.csvAt[l.Path] == "" {
				g.csvAt[l.Path] = fmt.Sprintf("%s:%d", path.Base(f), l.Number)
			}
		}
		for _, p := range problems {
			where := fmt.Sprintf("%s:%d", f, p.Number)
			if p.Fatal {
				bad = append(bad, refusal(ReasonBadCSV, where, "this line %s", p.Msg))
				continue
			}
			g.log.all = append(g.log.all, Warning{Reason: ReasonBadCSV, Msg: where + ": left out: this line " + p.Msg})
		}
	}
	return refuse.Join(bad...)
}

// warnMIG names the GPUs whose MIG devices csv mode leaves out (bug
// mig-on-thor-csv). Without NVML there is nothing to warn of.
func (g *generator) warnMIG() {
	if g.lib.Init() != nvml.SUCCESS {
		return
	}
	defer g.lib.Shutdown()
	// An error here is no obstacle: nvcdi asks again where it needs the answer.
	_ = g.devices.VisitDevices(func(i int, d device.Device) error {
		if on, err := d.IsMigEnabled(); err == nil && on {
			g.log.all = append(g.log.all, Warning{Reason: ReasonMIGInCSV,
				Msg: fmt.Sprintf("GPU %d: MIG devices are not supported in csv mode and are not in the Spec", i)})
		}
		return nil
	})
}

// csvMounts returns the mounts of the CSV files themselves. nvcdi has none, and
// a container runtime inside the container needs them to pass the GPU on.
func (g *generator) csvMounts() []*specs.Mount {
	var out []*specs.Mount
	for _, f := range g.csv {
		out = append(out, &specs.Mount{HostPath: f, ContainerPath: f, Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}})
	}
	return out
}
