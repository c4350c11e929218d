package capture

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
	"gpurig/fixtures/golden"
	"gpurig/fixtures/hosts"
)

func profile(t testing.TB, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func built(t testing.TB, m host.Model) *tree.Tree {
	t.Helper()
	fake, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	return fake
}

// nvmlOf returns the library of a host; nil where it does not start.
func nvmlOf(m host.Model) host.NVML {
	lib := nvmlfake.New(m, nvmlfake.Options{})
	if lib.Init() != nvml.SUCCESS {
		return nil
	}
	return nvidia.NVML(lib)
}

func record(t testing.TB, r host.Root, n host.NVML) hosts.File {
	t.Helper()
	f, err := Record(r, n, Options{Machine: "a fake", Date: "2025-11-21"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// again writes a recording, reads it, and replays what was read.
func again(t testing.TB, f hosts.File) (Machine, []byte) {
	t.Helper()
	text, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := hosts.Parse("host.txtar", text)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := read.Marshal(); err != nil || string(second) != string(text) {
		t.Fatalf("a recording that is read and written differs, %v:\n%s", err, cmp.Diff(string(text), string(second)))
	}
	m, err := Replay(read)
	if err != nil {
		t.Fatal(err)
	}
	return m, text
}

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// unnamed returns the JSON of a value with UUIDs numbered as they come.
func unnamed(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	return anyUUID.ReplaceAllStringFunc(string(data), func(u string) string {
		if seen[u] == "" {
			seen[u] = fmt.Sprintf("uuid-%d", len(seen)+1)
		}
		return seen[u]
	})
}

// The property that keeps recordings honest: what is discovered of a recorded
// host is what the host is.
func TestDiscoverOfReplayEqualsTheModel(t *testing.T) {
	for _, name := range append(profiles.Names(), "a driver in /opt") {
		t.Run(name, func(t *testing.T) {
			var m host.Model
			if p, other := strings.CutPrefix(name, "a driver in "); other {
				m = profile(t, "t4-server")
				m.Userspace.LibDir = p + "/nvidia[*]/lib64"
			} else {
				m = profile(t, name)
			}
			f := record(t, built(t, m), nvmlOf(m))
			replayed, text := again(t, f)
			got, err := replayed.Model()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(unnamed(t, m), unnamed(t, got)); diff != "" {
				t.Errorf("the recorded host differs (-profile +recorded):\n%s", diff)
			}
			f.Notes = slices.DeleteFunc(f.Notes, func(n string) bool { return strings.HasSuffix(n, "PCI functions that have nothing to do with GPUs") })
			if len(f.Notes) > 0 {
				t.Errorf("notes of a fake host, which has nothing to hide: %q", f.Notes)
			}
			f.Notes = nil
			for _, u := range anyUUID.FindAllString(unnamedNot(t, m), -1) {
				if strings.Contains(string(text), u) || strings.Contains(string(text), strings.ReplaceAll(u, "-", "")) {
					t.Errorf("%s is in the recording", u)
				}
			}
			second := record(t, replayed.Tree, replayed.NVML)
			// Stand-ins for libraries have sizes of their own.
			for _, x := range []*hosts.File{&f, &second} {
				for i, e := range x.Entries {
					if e.Kind == hosts.Library || e.Kind == hosts.Program {
						x.Entries[i].Size = 0
					}
				}
			}
			if diff := cmp.Diff(f, second); diff != "" {
				t.Errorf("a recording of the replay differs:\n%s", diff)
			}
		})
	}
}

func unnamedNot(t testing.TB, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What a recording is not meant to have: the chassis, and what of a function no program
// that looks for GPUs reads.
var chassis = regexp.MustCompile(`^/sys/(class|bus/pci/drivers)/(pci_bus|infiniband|pcieport|mlx5_core|dmi|iommu)|^/sys/devices/(system|virtual/(dmi|iommu))|^/sys/module/(mlx5|ib)|` +
	`^/(usr/)?lib/modules|^/boot|^/sys/class$|^/sys/devices/virtual$|^/proc/(cpuinfo|version|config.gz)$|` +
	`^/sys/devices/pci[0-9a-f:]*(/uevent)?$|^/sys/devices/platform/bus@0/[0-9a-f]*.pcie/pci[0-9a-f:]*(/uevent)?$|/(ari_enabled|broken_parity_status|msi_bus|d3cold_allowed|dma_mask_bits|consistent_dma_mask_bits|power|msi_irqs|pci_bus)(/|$)`)

// ofChassis reports whether a path is of a function, or of an IOMMU group, that the model
// has not.
func ofChassis(m host.Model, p string) bool {
	known := map[string]bool{}
	for _, f := range m.Functions() {
		known[f.BDF.String()] = true
	}
	last := ""
	for part := range strings.SplitSeq(p, "/") {
		if _, err := pci.ParseBDF(part); err == nil {
			last = part
		}
	}
	group, in := strings.CutPrefix(p, "/sys/kernel/iommu_groups/")
	return last != "" && !known[last] || in && len(group) >= 3 && group >= "512"
}

// What a fake host has and its recording lacks, listed, so that nothing falls
// out unseen.
func TestWhatIsLeftOutOfAFakeHost(t *testing.T) {
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := profile(t, name)
			fake := built(t, m)
			replayed, _ := again(t, record(t, fake, nvmlOf(m)))
			var missing []string
			_ = fake.Walk(func(p string, _ *tree.Entry) error {
				if _, err := replayed.Tree.Lstat(p); err != nil && path.Base(p) != "unique_id" && !chassis.MatchString(p) && !ofChassis(m, p) { // the first is a serial number
					missing = append(missing, p)
				}
				return nil
			})
			if len(missing) > 0 {
				t.Errorf("%d paths: %s", len(missing), strings.Join(missing[:min(40, len(missing))], "\n"))
			}
		})
	}
}

// The recording that is checked in pins the format. It is one of a profile: no
// real machine's.
func TestTheShippedRecordingIsFresh(t *testing.T) {
	const name = "a100-mig-2g-3g"
	m := profile(t, name)
	f, err := Record(built(t, m), nvmlOf(m), Options{Machine: "the profile " + name + ", no real machine", Date: "2025-11-21"})
	if err != nil {
		t.Fatal(err)
	}
	_, text := again(t, f)
	golden.Equal(t, "../../fixtures/hosts/"+name+"/host.txtar", text)
}

// Every recording that is checked in is a machine.
func TestShippedRecordingsReplay(t *testing.T) {
	names := hosts.Names()
	if len(names) == 0 {
		t.Fatal("no recording is checked in")
	}
	for _, name := range names {
		text, err := hosts.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := hosts.Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := again(t, f)
		if _, err := m.Model(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The machine that runs this test: a real /sys with all that has nothing to do
// with GPUs, read without privilege.
func TestThisMachine(t *testing.T) {
	root, err := osroot.New("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	want, err := host.Discover(root, nil)
	if err != nil {
		t.Skipf("this machine is none that a model can describe: %v", err)
	}
	f := record(t, root, nil)
	m, text := again(t, f)
	got, err := m.Model()
	if err != nil {
		t.Fatal(err)
	}
	got.Cmdline, want.Cmdline = "", "" // some words are kept to ourselves
	if diff := cmp.Diff(unnamed(t, want), unnamed(t, got)); diff != "" {
		t.Errorf("the recorded machine differs (-machine +recorded):\n%s", diff)
	}
	if len(want.GPUs) == 0 && len(f.Entries) > 400 {
		t.Errorf("%d entries of a machine without GPU:\n%s", len(f.Entries), text)
	}
}
