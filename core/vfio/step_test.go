package vfio

import (
	"strings"
	"testing"

	"gpurig/core/pci"
)

func steps() []step {
	b := pci.BDF{Bus: 0x41}
	const uuid = "5f0cf6c6-4d2c-5b1e-9a57-0f6b1c5f3d10"
	return []step{
		{kind: unbind, bdf: b, name: "nvidia"}, {kind: bind, bdf: b, name: "snd_hda_intel"}, {kind: override, bdf: b, name: "vfio-pci"},
		{kind: override, bdf: b}, {kind: probe, bdf: b}, {kind: numVFs, bdf: b, n: 16}, {kind: vfProbe, bdf: b},
		{kind: create, bdf: b, name: "nvidia-558", uuid: uuid}, {kind: remove, uuid: uuid}, {kind: vgpu, bdf: b, n: 1147},
	}
}

// A plan is read back from a file: only the writes that this package makes are
// carried out, whatever the file says.
func TestParseStep(t *testing.T) {
	for _, s := range steps() {
		if got, err := parseStep(s.write()); err != nil || got != s {
			t.Errorf("parseStep(%+v) = %+v, %v; want %+v", s.write(), got, err, s)
		}
	}
	for name, w := range map[string]Write{
		"another file":               {"/etc/passwd", "x"},
		"another attribute":          {"/sys/bus/pci/devices/0000:41:00.0/remove", "1"},
		"another driver's directory": {"/sys/bus/pci/drivers/../../../../etc/unbind", "0000:41:00.0"},
		"a way out of the type":      {"/sys/bus/pci/devices/0000:41:00.0/mdev_supported_types/../create", "5f0cf6c6-4d2c-5b1e-9a57-0f6b1c5f3d10"},
		"a type of two parts":        {"/sys/bus/pci/devices/0000:41:00.0/mdev_supported_types/a/b/create", "5f0cf6c6-4d2c-5b1e-9a57-0f6b1c5f3d10"},
		"no address":                 {"/sys/bus/pci/drivers/nvidia/unbind", "nvidia"},
		"a short address":            {"/sys/bus/pci/drivers/nvidia/unbind", "41:00.0"},
		"an address and more":        {"/sys/bus/pci/drivers_probe", "0000:41:00.0\n0000:42:00.0"},
		"no UUID":                    {"/sys/bus/pci/devices/0000:41:00.0/mdev_supported_types/nvidia-558/create", "1"},
		"no number":                  {"/sys/bus/pci/devices/0000:41:00.0/sriov_numvfs", "many"},
		"a negative number":          {"/sys/bus/pci/devices/0000:41:00.0/sriov_numvfs", "-1"},
		"a driver that is no name":   {"/sys/bus/pci/devices/0000:41:00.0/driver_override", "a b"},
		"nothing":                    {},
	} {
		if got, err := parseStep(w); err == nil || got != (step{}) {
			t.Errorf("%s: parseStep(%+v) = %+v, %v; want BadPlan", name, w, got, err)
		}
	}
}

func TestTakesBack(t *testing.T) {
	for i, s := range steps() {
		n := 0
		for _, undo := range append(steps(), step{kind: vfProbe, bdf: s.bdf, n: 1}, step{kind: numVFs, bdf: s.bdf}, step{kind: vgpu, bdf: s.bdf},
			step{kind: bind, bdf: s.bdf, name: "nvidia"}, step{kind: unbind, bdf: s.bdf, name: "vfio-pci"}) {
			if s.takesBack(undo) {
				n++
			}
		}
		want := map[kind]int{unbind: 1, override: 1, probe: 1, numVFs: 1, vfProbe: 1, create: 1, vgpu: 1}[s.kind]
		if n != want {
			t.Errorf("step %d, %v: %d of the steps take it back; want %d", i, s, n, want)
		}
	}
}

func FuzzParseStep(f *testing.F) {
	for _, s := range steps() {
		w := s.write()
		f.Add(w.Path, w.Text)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		w := Write{path, text}
		s, err := parseStep(w)
		if err != nil {
			if s != (step{}) {
				t.Fatalf("parseStep(%q) returned %+v along with an error", w, s)
			}
			return
		}
		if s.write() != w {
			t.Fatalf("%q was understood as %q", w, s.write())
		}
		if !strings.HasPrefix(path, "/sys/bus/") || strings.Contains(path, "/../") || strings.Contains(path, "//") || strings.ContainsAny(path+text, "\n\x00 ") {
			t.Fatalf("%q is a write of a plan", w)
		}
	})
}
