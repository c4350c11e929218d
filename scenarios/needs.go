package scenarios

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/strictdoc"
)

// Needs say what a host must have for a scenario that does not care which host it
// is. A host that lacks something is no fault of anybody: the scenario is skipped
// there. With needs a scenario can also run on the machine at hand.
type Needs struct {
	GPUs   string `yaml:"gpus,omitempty" json:"gpus,omitempty"`     // how many, of that vendor: "2", ">=2", "<=1"
	MIG    bool   `yaml:"mig,omitempty" json:"mig,omitempty"`       // a MIG device is there
	VFIO   bool   `yaml:"vfio,omitempty" json:"vfio,omitempty"`     // GPUs can be handed to virtual machines: an IOMMU, and vfio-pci is loaded
	Vendor string `yaml:"vendor,omitempty" json:"vendor,omitempty"` // "nvidia", "amd", "intel"; empty: any
}

// VendorList are the vendors that a scenario can need.
var VendorList = []string{"nvidia", "amd", "intel"}

var vendorIDs = map[string]uint16{"nvidia": pci.NVIDIA, "amd": pci.AMD, "intel": pci.Intel}

var gpusForm = regexp.MustCompile(`^(>=|<=)?([0-9]{1,2})$`)

// A Supply is what a host has of what can be needed, by vendor where it is of GPUs.
type Supply struct {
	GPUs    map[string]int `json:"gpus"`              // that somebody can be given; "": of other vendors
	Grouped map[string]int `json:"grouped,omitempty"` // of those: in an IOMMU group
	MIG     int            `json:"mig,omitempty"`     // MIG devices
	VFIOPCI bool           `json:"vfioPci,omitempty"` // vfio-pci is loaded
	// NoDriver: there are NVIDIA's GPUs, and its driver is not loaded.
	NoDriver bool `json:"noDriver,omitempty"`
}

// SupplyOf returns what a host has.
func SupplyOf(m host.Model) Supply {
	s := Supply{GPUs: map[string]int{}, Grouped: map[string]int{}}
	there := slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return vendorOf(g) == "nvidia" })
	s.NoDriver = there && m.Driver == nil && m.Tegra == nil
	gpus := Needs{}.gpus(m)
	for _, g := range gpus {
		s.GPUs[vendorOf(g)]++
		if g.PCI != nil && g.PCI.IOMMUGroup >= 0 {
			s.Grouped[vendorOf(g)]++
		}
	}
	s.MIG = len(migDevices(gpus))
	s.VFIOPCI = slices.Contains(m.Drivers, "vfio-pci") || slices.ContainsFunc(m.Functions(), func(f *host.PCIFunction) bool { return f.Driver == "vfio-pci" })
	return s
}

// String is what a supply has, in words.
func (s Supply) String() string {
	var out []string
	for _, v := range slices.Sorted(maps.Keys(s.GPUs)) {
		out = append(out, fmt.Sprintf("%d GPUs of %s", s.GPUs[v], cmp.Or(v, "other vendors")))
	}
	if s.MIG > 0 {
		out = append(out, fmt.Sprintf("%d MIG devices", s.MIG))
	}
	if s.VFIOPCI {
		out = append(out, "vfio-pci")
	}
	if s.NoDriver {
		out = append(out, "no driver for NVIDIA's")
	}
	return strings.Join(out, ", ")
}

// of is a number by vendor, of one or of all.
func of(numbers map[string]int, vendor string) (n int) {
	if vendor != "" {
		return numbers[vendor]
	}
	for _, more := range numbers {
		n += more
	}
	return n
}

// Name names the needs as a label or a tag of machines that have them:
// "nvidia-2-or-more-mig".
func (n Needs) Name() string {
	out := []string{cmp.Or(n.Vendor, "gpu")}
	if parts := gpusForm.FindStringSubmatch(n.GPUs); parts != nil {
		out = append(out, parts[2]+map[string]string{">=": "-or-more", "<=": "-or-fewer"}[parts[1]])
	}
	if n.MIG {
		out = append(out, "mig")
	}
	if n.VFIO {
		out = append(out, "vfio")
	}
	return strings.Join(out, "-")
}

// Missing says what of the needs a host lacks, in words for a reader; empty:
// nothing.
func (n Needs) Missing(s Supply) string {
	if n.Vendor == "nvidia" && s.NoDriver {
		return "needs NVIDIA's driver, and it is not loaded"
	}
	gpus := of(s.GPUs, n.Vendor)
	if why := count(n.GPUs, gpus, n.Vendor); why != "" {
		return why
	}
	switch {
	case n.Vendor != "" && gpus == 0:
		return "needs a GPU of " + n.Vendor + ", and the host has none"
	case n.MIG && (s.MIG == 0 || n.Vendor != "" && n.Vendor != "nvidia"):
		return "needs a MIG device, and the host has none"
	case n.VFIO && of(s.Grouped, n.Vendor) == 0:
		return "needs a GPU in an IOMMU group, and the host has none"
	case n.VFIO && !s.VFIOPCI:
		return "needs vfio-pci, and it is not loaded"
	}
	return ""
}

// count compares a number with what GPUs says of it.
func count(want string, have int, vendor string) string {
	parts := gpusForm.FindStringSubmatch(want)
	if parts == nil {
		return ""
	}
	n, _ := strconv.Atoi(parts[2]) // the form has two digits at most
	if parts[1] == "" && have == n || parts[1] == ">=" && have >= n || parts[1] == "<=" && have <= n {
		return ""
	}
	of := ""
	if vendor != "" {
		of = " of " + vendor
	}
	return fmt.Sprintf("needs %s GPUs%s, and the host has %d", want, of, have)
}

// gpus are those of the vendor, in the order of NVML's index, then of the list.
// One on PCI that NVML does not name is lost, or another driver's: nobody can be
// given it.
func (n Needs) gpus(m host.Model) []host.GPU {
	out := slices.DeleteFunc(slices.Clone(m.GPUs), func(g host.GPU) bool {
		of := vendorOf(g)
		return n.Vendor != "" && of != n.Vendor || of == "nvidia" && g.PCI != nil && g.Index < 0
	})
	slices.SortStableFunc(out, func(a, b host.GPU) int {
		if a.Index < 0 || b.Index < 0 {
			return 0
		}
		return a.Index - b.Index
	})
	return out
}

// vendorOf names the vendor of a GPU; one without PCI is Tegra's.
func vendorOf(g host.GPU) string {
	if g.PCI == nil {
		return "nvidia"
	}
	for name, id := range vendorIDs {
		if g.PCI.ID.Vendor == id {
			return name
		}
	}
	return ""
}

func (c *checker) needs(n *Needs, w strictdoc.Path) {
	if n == nil {
		return
	}
	if n.GPUs != "" && !gpusForm.MatchString(n.GPUs) {
		c.At(w.Key("gpus"), "", `%q: want a number of GPUs such as "2", ">=2" or "<=1"`, n.GPUs)
	}
	c.oneOf("vendor", list(n.Vendor), VendorList, w.Key("vendor"))
	if *n == (Needs{}) {
		c.At(w, `Say how many: needs: {gpus: ">=1"}.`, "needs nothing")
	}
}
