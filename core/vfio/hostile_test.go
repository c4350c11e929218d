package vfio_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/core/vfio"
)

// A liar is a host some of whose files, links and folders say what they like.
type liar struct {
	*rig
	links   map[string]string
	folders map[string][]string
}

func (l liar) Readlink(p string) (string, error) {
	if target, ok := l.links[p]; ok {
		return target, nil
	}
	return l.rig.Readlink(p)
}

func (l liar) ReadDir(p string) ([]string, error) {
	names, err := l.rig.ReadDir(p)
	return slices.Concat(names, l.folders[p]), err
}

const devices = "/sys/bus/pci/devices/"

// lie has texts of sysfs say what is given.
func lie(r *rig, driver, override, entry, kind, table, count string) liar {
	const vf = devices + "0000:e8:00.4"
	r.texts = map[string]string{
		devices + "0000:3b:00.0/driver_override":                      override,
		vf + "/mdev_supported_types/nvidia-558/available_instances":   count,
		vf + "/mdev_supported_types/" + kind + "/available_instances": count,
		vf + "/mdev_supported_types/" + kind + "/name":                table,
		devices + "0000:e8:00.5/nvidia/current_vgpu_type":             count,
		devices + "0000:e8:00.5/nvidia/creatable_vgpu_types":          table,
		"/proc/sys/kernel/random/boot_id":                             override,
	}
	return liar{rig: r,
		links:   map[string]string{devices + "0000:3b:00.0/driver": "../../../bus/pci/drivers/" + driver, devices + "0000:3b:00.0/iommu_group": "../" + count},
		folders: map[string][]string{"/sys/kernel/iommu_groups/42/devices": {entry}, vf + "/mdev_supported_types": {kind}, devices + "0000:3b:00.0/vfio-dev": {entry}},
	}
}

// What sysfs says is data: a text that the kernel would not write there is refused,
// and none of it gets into a write (A35).
func TestTextsOfSysfsAreData(t *testing.T) {
	m := load(t, "vgpu-a40")
	for _, tc := range []struct {
		name                                        string
		driver, override, entry, kind, table, count string
		ask                                         string
	}{
		{name: "a driver's name that leads elsewhere", driver: "..", ask: "pci=3b:00.0"},
		{name: "a driver's name of two words", driver: "a b", ask: "pci=3b:00.0"},
		{name: "an override of two lines", override: "x\ny\n", ask: "pci=3b:00.0"},
		{name: "an override with a path", override: "../../etc", ask: "pci=3b:00.0"},
		{name: "a member of a group that is no address", entry: "0000:3b:00.0 ", ask: "pci=3b:00.0"},
		{name: "a member of a group in the short form", entry: "3b:00.1", ask: "pci=3b:00.0"},
		{name: "a type that leads elsewhere", kind: "..", ask: "gputype=mdev mdev=nvidia-558"},
		{name: "a type of two words", kind: "nvidia 1", ask: "gputype=mdev mdev=nvidia-558"},
		{name: "a number that is none", count: "many", ask: "gputype=mdev mdev=nvidia-558"},
		{name: "a negative number", count: "-1", ask: "gputype=mdev mdev=nvidia-558"},
		{name: "a boot that is no UUID", override: "../x", ask: "gputype=mdev mdev=nvidia-558"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			or := func(s, otherwise string) string {
				if s == "" {
					return otherwise
				}
				return s
			}
			r := start(t, m)
			a40VFs(r)
			l := lie(r, or(tc.driver, "nvidia"), or(tc.override, "(null)"), or(tc.entry, "0000:3b:00.0"), or(tc.kind, "nvidia-558"), "x", or(tc.count, "1"))
			if tc.override == "" {
				delete(r.texts, "/proc/sys/kernel/random/boot_id")
			}
			p, err := vfio.Make(l, r.Model(), asks(t, tc.ask), vfio.Options{})
			if es := refuse.As(err); len(es) == 0 || es[0].Reason != vfio.ReasonBadHost || len(p.Writes) > 0 {
				t.Errorf("Make = %+v, %v; want a refusal for %s", p, err, vfio.ReasonBadHost)
			}
		})
	}
}

// Whatever sysfs says, a plan has only writes that a plan can have.
func FuzzTextsOfSysfs(f *testing.F) {
	f.Add("nvidia", "(null)\n", "0000:3b:00.0", "nvidia-558", "NVIDIA A40-2Q\n", "1\n")
	f.Add("vfio-pci", "vfio-pci\n", "0000:3b:00.1", "nvidia-1", "ID : vGPU Name\n7 : A\n", "0\n")
	f.Add("..", "../x", "x", "..", "7 :", "-1")
	r := start(f, load(f, "vgpu-a40"))
	a40VFs(r)
	m := r.Model()
	wanted := asks(f, "pci=3b:00.0", "gputype=mdev mdev=A40-2Q", "gputype=mdev mdev=7", "gputype=mdev mdev=nvidia-558", "gputype=sriov")
	f.Fuzz(func(t *testing.T, driver, override, entry, kind, table, count string) {
		l := lie(&rig{t: t, Host: r.Host}, driver, override, entry, kind, table, count)
		for _, a := range wanted {
			p, err := vfio.Make(l, m, []vfio.Ask{a}, vfio.Options{})
			if err != nil {
				if len(p.Writes)+len(p.Devices) > 0 {
					t.Fatalf("a plan beside %v: %+v", err, p)
				}
				continue
			}
			if _, err := vfio.Script(p); err != nil {
				t.Fatal(err)
			}
			for _, w := range append(p.Writes, p.Undo...) {
				if path.Clean(w.Path) != w.Path || !strings.HasPrefix(w.Path, "/sys/bus/") || strings.ContainsAny(w.Path+w.Text, " \n\x00'\"$`;") {
					t.Fatalf("a plan writes %q to %q", w.Text, w.Path)
				}
			}
			for _, d := range p.Devices {
				_, _ = d.Nodes(l)
				_, _ = d.Expected(l)
				_ = vfio.Viable(l, d.Group)
			}
		}
	})
}

var _ host.Root = liar{}
