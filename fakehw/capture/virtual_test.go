package capture

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/tree"
)

const mdevUUID = "aa618089-8b16-4d01-a136-25a0f3c73123"

// divided returns a host whose boards have virtual functions, held by NVIDIA's
// driver, but the last by vfio-pci, with a vGPU on the first.
func divided(t *testing.T, name, pf string) host.Model {
	t.Helper()
	m := profile(t, name)
	a, err := pci.ParseBDF(pf)
	if err != nil {
		t.Fatal(err)
	}
	next := func(changed host.Model, err error) {
		if err != nil {
			t.Fatal(err)
		}
		m = changed
	}
	next(fakehw.WithVFs(m, a, 12))
	for i, v := range m.VFs {
		driver := "nvidia"
		if i == len(m.VFs)-1 {
			driver = "vfio-pci"
		}
		next(fakehw.Bound(m, v.BDF, driver, nil))
	}
	if m.Driver.VGPU == host.VGPUMDev {
		next(fakehw.WithMDev(m, mdevUUID, m.VFs[0].BDF, "nvidia-558"))
	} else {
		next(fakehw.WithVGPU(m, m.VFs[0].BDF, 1148))
		m.VFs[0].Params = "frame_rate_limiter=0"
	}
	return m
}

// A recording has virtual functions and vGPUs of both kinds, with all that shows
// of them, and says as little of their UUIDs as of others.
func TestVirtualFunctionsAndVGPUsAreRecorded(t *testing.T) {
	for profile, pf := range map[string]string{"vgpu-a40": "0000:e8:00.0", "vgpu-l40s": "0000:61:00.0"} {
		t.Run(profile, func(t *testing.T) {
			m := divided(t, profile, pf)
			fake := built(t, m)
			replayed, text := again(t, record(t, fake, nvmlOf(m)))
			got, err := replayed.Model()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(unnamed(t, m), unnamed(t, got)); diff != "" {
				t.Errorf("the recorded host differs (-host +recorded):\n%s", diff)
			}
			if strings.Contains(string(text), mdevUUID) {
				t.Error("the UUID of a mediated device is in the recording")
			}
			_ = fake.Walk(func(p string, _ *tree.Entry) error {
				if _, err := replayed.Tree.Lstat(p); err != nil && !strings.Contains(p, mdevUUID) && !chassis.MatchString(p) && !ofChassis(m, p) {
					t.Errorf("not recorded: %s", p)
				}
				return nil
			})
			if len(got.MDevs) == 1 {
				if _, err := replayed.Tree.Lstat("/sys/bus/mdev/devices/" + got.MDevs[0].UUID + "/nvidia"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What became different is said, down to the vGPU.
func TestCompareSaysWhatVirtualFunctionsAndVGPUsThereAre(t *testing.T) {
	for profileName, x := range map[string]struct{ pf, want string }{
		"vgpu-a40":  {"0000:e8:00.0", "mediated devices|" + mdevUUID},
		"vgpu-l40s": {"0000:61:00.0", "virtual functions|0000:61:00.4"},
	} {
		found := false
		for _, d := range CompareModels(profile(t, profileName), divided(t, profileName, x.pf)) {
			found = found || d.Area+"|"+d.What == x.want
		}
		if !found {
			t.Errorf("%s: %s is not told: %+v", profileName, x.want, CompareModels(profile(t, profileName), divided(t, profileName, x.pf)))
		}
	}
	a := divided(t, "vgpu-l40s", "0000:61:00.0")
	b := a.Clone()
	b.VFs[0].VGPU, b.GPUs[1].PCI.Override, b.NoProbe, b.Driver.VGPU, b.Drivers = 1149, "vfio-pci", true, "", nil
	var what []string
	for _, d := range CompareModels(a, b) {
		what = append(what, d.What)
	}
	want := []string{"drivers_autoprobe", "vGPUs", "0000:c1:00.0: driver_override", "0000:61:00.4: vGPU type"}
	for _, w := range want {
		if !strings.Contains("|"+strings.Join(what, "|")+"|", "|"+w+"|") {
			t.Errorf("%q is not told, only %q", w, what)
		}
	}
}
