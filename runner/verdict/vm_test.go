package verdict_test

import (
	"strings"
	"testing"

	"gpurig/core/pci"
	"gpurig/core/vfio"
	"gpurig/runner/observe"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// What a machine sees is the plan's, at the plan's place and with its window above 4 GiB.
func TestWhatAMachineSees(t *testing.T) {
	high := observe.Window{Index: 1, Size: 32 << 30, Flags: 0x14220c, Start: 0xe0_0000_0000}
	low := high
	low.Start = 0x9000_0000
	at := func(port int, function uint8, w ...observe.Window) observe.GuestFunction {
		return observe.GuestFunction{Port: port, BDF: pci.BDF{Bus: 1, Function: function}, ID: pci.ID{Vendor: pci.NVIDIA, Device: 0x20b9}, Windows: w}
	}
	for name, tc := range map[string]struct {
		sees []observe.GuestFunction
		want string // empty: all is well
	}{
		"the GPU where it is to be":       {[]observe.GuestFunction{at(0, 0, high)}, ""},
		"nothing":                         {nil, "a function at port 0.0"},
		"below another port":              {[]observe.GuestFunction{at(1, 0, high)}, "a function at port 0.0"},
		"one that nobody gave it":         {[]observe.GuestFunction{at(0, 0, high), at(0, 1)}, "port 0.1"},
		"a window below 4 GiB":            {[]observe.GuestFunction{at(0, 0, low)}, "windows above 4 GiB"},
		"a window that found no place":    {[]observe.GuestFunction{at(0, 0)}, "windows above 4 GiB"},
		"more windows than were reserved": {[]observe.GuestFunction{at(0, 0, high, high, high)}, "windows above 4 GiB"},
	} {
		ev := verdict.Evidence{Container: "vm1", VM: true, Running: true,
			VFIOPlan: &vfio.Plan{Devices: []vfio.Device{{Name: "gpu0", BDF: pci.BDF{Bus: 0xd0}, Role: vfio.GPU, Window: 64 << 30}}},
			Seen:     &observe.Observation{Nodes: []observe.Node{{Path: "/dev/vfio/192", Open: observe.Allowed}}, Functions: tc.sees}}
		found := verdict.Always(scenarios.Expect{}, ev)
		text := ""
		for _, f := range found {
			text += f.What + ": " + f.Want + "\n"
		}
		if (tc.want == "") != (len(found) == 0) || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %q; want %q", name, text, tc.want)
		}
	}
}
