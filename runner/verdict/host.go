package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gpurig/core/pci"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// AsksHost reports whether an expectation is about the host.
func AsksHost(want scenarios.Expect) bool {
	h := want.Host
	return h.Unchanged || len(h.Functions) > 0 || len(h.MDevs) > 0
}

// hosted judges the host.
func (j *judge) hosted() {
	want := j.want.Host
	if !AsksHost(j.want) {
		return
	}
	if j.ev.Host == nil {
		j.add(Host, "host", "looked at", "it was not")
		return
	}
	for _, a := range slices.Sorted(maps.Keys(want.Functions)) {
		j.function(a, want.Functions[a])
	}
	for _, typ := range slices.Sorted(maps.Keys(want.MDevs)) {
		j.mdevs(typ, want.MDevs[typ])
	}
	if !want.Unchanged {
		return
	}
	if j.ev.Before == nil {
		j.add(Host, "host", "looked at before the first step", "it was not")
		return
	}
	diffs, _ := observe.CompareHosts(*j.ev.Before, *j.ev.Host)
	for _, d := range diffs {
		j.add(Host, d.Part+" "+d.What, cmp.Or(d.A, "nothing")+", as before the first step", cmp.Or(d.B, "nothing"))
	}
}

func (j *judge) function(address string, want scenarios.FunctionExpect) {
	a, err := pci.ParseBDF(address) // the loader lets nothing else through
	got := j.ev.Host.Function(a)
	if err != nil || got == nil {
		if want.Driver != "absent" {
			j.add(Host, address, "a PCI function", "nothing")
		}
		return
	}
	text := func(what, want, got string) {
		if got = cmp.Or(got, "none"); want != "" && want != got {
			j.add(Host, address, what+" "+want, what+" "+got)
		}
	}
	number := func(what string, want *int, got int) {
		if want != nil && *want != got {
			j.add(Host, address, fmt.Sprintf("%s %d", what, *want), fmt.Sprintf("%s %d", what, got))
		}
	}
	text("driver", want.Driver, got.Driver)
	text("override", want.Override, got.Override)
	number("IOMMU group", want.Group, got.Group)
	number("virtual functions:", want.VFs, got.VFs)
	number("vGPU type", want.VGPU, got.VGPU)
}

func (j *judge) mdevs(typ string, want scenarios.MDevExpect) {
	made, left, known := j.ev.Host.MDevsOf(typ)
	if !known && made == 0 {
		j.add(Host, typ, "a type of mediated device", "no function can have one")
		return
	}
	if want.Made != nil && *want.Made != made {
		j.add(Host, typ, fmt.Sprintf("%d made", *want.Made), fmt.Sprintf("%d made", made))
	}
	if want.Left != nil && *want.Left != left {
		j.add(Host, typ, fmt.Sprintf("%d left", *want.Left), fmt.Sprintf("%d left", left))
	}
}
