package programs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
)

// shown are the hosts that programs are shown.
var shown = []string{"dgx-a100", "a100-mig-2g-3g", "jetson-agx-orin", "igx-orin", "vgpu-a40", "vgpu-l40s", "workstation"}

// functions are the PCI functions of a host that have to do with GPUs, by BDF.
func functions(m host.Model) map[string]host.PCIFunction {
	out := map[string]host.PCIFunction{}
	for _, g := range m.GPUs {
		if g.PCI != nil {
			out[g.PCI.BDF.String()] = *g.PCI
		}
	}
	for _, f := range slices.Concat(m.NVSwitches, m.Companions) {
		out[f.BDF.String()] = f
	}
	return out
}

// paragraphs splits what lspci -D prints into what it says of each function.
func paragraphs(text string) map[string]string {
	out, at := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && strings.TrimSpace(line) != "" {
			at, _, _ = strings.Cut(line, " ")
		}
		out[at] += line
	}
	return out
}

// size is how lspci prints the size of a region.
func size(n uint64) string {
	unit := 0
	for n%1024 == 0 && unit < 4 {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprintf("[size=%d%s]", n, []string{"", "K", "M", "G", "T"}[unit])
}

func TestLspciNamesEveryFunctionAndItsDriver(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	compared := 0
	for _, name := range shown {
		t.Run(name, func(t *testing.T) {
			said := paragraphs(says(t, name, "lspci", "-D", "-nnk"))
			for bdf, f := range functions(model(t, name)) {
				compared++
				text, ok := said[bdf]
				if !ok {
					t.Errorf("%s is not there", bdf)
					continue
				}
				if id := fmt.Sprintf("[%04x:%04x]", f.ID.Vendor, f.ID.Device); !strings.Contains(text, id) {
					t.Errorf("%s: no %s in %q", bdf, id, text)
				}
				if rev := fmt.Sprintf("(rev %02x)", f.Revision); f.Revision != 0 && !strings.Contains(text, rev) {
					t.Errorf("%s: no %s in %q", bdf, rev, text)
				}
				if in := strings.Contains(text, "Kernel driver in use: "+f.Driver+"\n"); in != (f.Driver != "") {
					t.Errorf("%s: the driver is %q, lspci says %q", bdf, f.Driver, text)
				}
			}
			// The machine's own GPUs, if it has any, are not to be seen.
			for bdf, text := range said {
				if _, ours := functions(model(t, name))[bdf]; !ours && strings.Contains(text, "[03") {
					t.Errorf("a display controller that is not the host's: %q", text)
				}
			}
		})
	}
	if compared == 0 && !t.Failed() {
		t.Error("no function was compared")
	}
}

// The product names are lspci's own, from its list.
func TestLspciPrintsTheProductsNames(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	for name, want := range map[string][]string{
		"dgx-a100":    {"NVIDIA Corporation GA100 [A100 SXM4 40GB]", "Bridge [0680]: NVIDIA Corporation"},
		"igx-orin":    {"NVIDIA Corporation GA102GL [RTX A6000]"},
		"workstation": {"NVIDIA Corporation AD102 [GeForce RTX 4090]", "[AMD/ATI]", "Audio device [0403]: NVIDIA Corporation AD102 High Definition Audio"},
	} {
		said := says(t, name, "lspci", "-D", "-nn")
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("%s: lspci does not say %q:\n%s", name, w, said)
			}
		}
	}
}

var region = regexp.MustCompile(`Region (\d+): .*(\[size=\w+\])`)

// What lspci reads of the config space: regions with their sizes, and lists of
// capabilities that it can follow to their ends.
func TestLspciFollowsTheConfigSpace(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	for _, name := range shown {
		t.Run(name, func(t *testing.T) {
			said := paragraphs(says(t, name, "lspci", "-D", "-vv"))
			for bdf, f := range functions(model(t, name)) {
				text := said[bdf]
				got, want := map[string]string{}, map[string]string{}
				for _, m := range region.FindAllStringSubmatch(text, -1) {
					got[m[1]] = m[2]
				}
				for _, b := range f.BARs {
					if b.Index < 6 {
						want[fmt.Sprint(b.Index)] = size(b.Size)
					}
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: regions %v, want %v:\n%s", bdf, got, want, text)
				}
				for _, bad := range []string{"<chain", "<access denied>", "] #", "Unknown header type", "[virtual]", "!!!"} {
					if strings.Contains(text, bad) {
						t.Errorf("%s: lspci says %q:\n%s", bdf, bad, text)
					}
				}
				for _, c := range []string{"Power Management version", "MSI(-X)?: ", "Express ", "\\[100 v"} {
					if f.ID.Vendor == 0x10de && !regexp.MustCompile(c).MatchString(text) {
						t.Errorf("%s: no capability %q:\n%s", bdf, c, text)
					}
				}
				if g := fmt.Sprintf("IOMMU group: %d\n", f.IOMMUGroup); f.IOMMUGroup >= 0 && !strings.Contains(text, g) {
					t.Errorf("%s: no %q", bdf, g)
				}
			}
		})
	}
}

// A card that carries a large window is one that Kata's guide checks for.
func TestLspciPrintsTheRegionsOfTheGuide(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	m := model(t, "dgx-a100")
	said := says(t, "dgx-a100", "sh", "-c", "lspci -s "+m.GPUs[0].PCI.BDF.String()+" -vv | grep Region")
	want := regexp.MustCompile(`^\tRegion 0: Memory at [0-9a-f]+ \(32-bit, non-prefetchable\) \[size=16M\]
\tRegion 1: Memory at [0-9a-f]+ \(64-bit, prefetchable\) \[size=64G\]
\tRegion 3: Memory at [0-9a-f]+ \(64-bit, prefetchable\) \[size=32M\]
$`)
	if !want.MatchString(said) {
		t.Errorf("lspci -vv | grep Region:\n%s", said)
	}
}

// A board that can have virtual functions says so, and which there are; the ids and
// windows of those are not in their own space. A public listing of the board of
// vgpu-a40 has the same place and numbers.
func TestLspciShowsVirtualFunctions(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	for num, want := range map[string]string{"0": "Enable- Migration- Interrupt- MSE- ARIHierarchy+", "32": "Enable+ Migration- Interrupt- MSE+ ARIHierarchy+"} {
		said := paragraphs(says(t, "vgpu-a40", "sh", "-c", "echo "+num+" > /sys/bus/pci/devices/0000:e8:00.0/sriov_numvfs; lspci -D -vv"))
		pf := said["0000:e8:00.0"]
		for _, line := range []string{
			"Capabilities: [bcc v1] Single Root I/O Virtualization (SR-IOV)", want,
			"Initial VFs: 32, Total VFs: 32, Number of VFs: " + num + ",", "VF offset: 4, stride: 1,", "Capabilities: [c14 v1] Alternative Routing-ID",
		} {
			if !strings.Contains(pf, line) {
				t.Errorf("with %s functions lspci does not say %q:\n%s", num, line, pf)
			}
		}
		vf, ok := said["0000:e8:00.4"]
		if ok != (num != "0") || ok && (!strings.Contains(vf, "GA102GL [A40]") || !strings.Contains(vf, "[virtual] [size=2G]")) {
			t.Errorf("with %s functions the first is %v:\n%s", num, ok, vf)
		}
	}
}

// Where a process may read the whole config space it has 4096 bytes.
func TestLspciReadsTheExtendedConfigSpace(t *testing.T) {
	requireProgram(t, "lspci", "pciutils")
	bdf := model(t, "dgx-a100").GPUs[0].PCI.BDF.String()
	for flag, rows := range map[string]int{"-x": 4, "-xxx": 16, "-xxxx": 256} {
		said := says(t, "dgx-a100", "lspci", "-s", bdf, flag)
		if n := len(regexp.MustCompile(`(?m)^[0-9a-f]+: ([0-9a-f]{2} ?){16}$`).FindAllString(said, -1)); n != rows {
			t.Errorf("lspci %s prints %d rows of 16 bytes, want %d:\n%.600s", flag, n, rows, said)
		}
	}
}
