package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/vfio"
	"gpurig/runner/observe"
)

// deviceName is what a device of a virtual machine is called in expectations.
func deviceName(d vfio.Device) string {
	if d.MDev != "" {
		return d.Type + " of " + d.BDF.String()
	}
	return d.BDF.String()
}

// writeText is a write as expectations have it.
func writeText(w vfio.Write) string { return w.Text + " > " + w.Path }

// plannedMachine judges the plan of a virtual machine.
func (j *judge) plannedMachine() {
	want, p := j.want.Plan, j.ev.VFIOPlan
	if p == nil {
		if len(want.Ports)+len(want.Writes) > 0 {
			j.add(Plan, "plan of a virtual machine", "one", "none was made")
		}
		return
	}
	var devices, writes []string
	ports := map[string]string{}
	for _, d := range p.Devices {
		devices = append(devices, deviceName(d))
		ports[deviceName(d)] = fmt.Sprintf("%d.%d", d.Port, d.Slot)
	}
	for _, w := range p.Writes {
		writes = append(writes, writeText(w))
	}
	if want.Devices != nil && !sameSet(want.Devices, devices) {
		j.add(Plan, "devices", listed(want.Devices), listed(devices))
	}
	for _, dev := range slices.Sorted(maps.Keys(want.Ports)) {
		if ports[dev] != want.Ports[dev] {
			j.add(Plan, dev, "port "+want.Ports[dev], "port "+ports[dev])
		}
	}
	left := writes
	for _, pattern := range want.Writes {
		i := slices.IndexFunc(left, func(w string) bool { return MatchLine(pattern, w) })
		if i < 0 {
			j.add(Plan, "write "+pattern, "one, in this order", strings.Join(writes, ", "))
			break
		}
		left = left[i+1:]
	}
	for _, pattern := range want.NoWrites {
		for _, w := range writes {
			if MatchLine(pattern, w) {
				j.add(Plan, "write "+pattern, "none", w)
			}
		}
	}
}

// soundMachine judges what must be true of every plan: no two functions at one place,
// those of a group below one port, and one at function 0 of each port, since without it
// a machine finds none of the others.
func (j *judge) soundMachine() {
	type place struct{ port, slot int }
	at, ports, zero := map[place]string{}, map[int]int{}, map[int]bool{}
	for _, d := range j.ev.VFIOPlan.Devices {
		name := deviceName(d)
		if other, taken := at[place{d.Port, d.Slot}]; taken {
			j.add(Plan, name, "a place of its own", fmt.Sprintf("port %d.%d, as %s", d.Port, d.Slot, other))
		}
		at[place{d.Port, d.Slot}] = name
		if port, ok := ports[d.Group]; ok && d.Group >= 0 && port != d.Port {
			j.add(Plan, name, fmt.Sprintf("port %d, as the rest of IOMMU group %d", port, d.Group), fmt.Sprintf("port %d", d.Port))
		}
		ports[d.Group] = d.Port
		zero[d.Port] = zero[d.Port] || d.Slot == 0
	}
	for _, port := range slices.Sorted(maps.Keys(zero)) {
		if !zero[port] {
			j.add(Plan, fmt.Sprintf("port %d", port), "a function 0", "none")
		}
	}
}

// carriedMachine judges that the host is in the state that the machine needs, and that
// its monitor has all nodes open.
func (j *judge) carriedMachine() {
	for _, n := range j.ev.Seen.Nodes {
		if n.Open != observe.Allowed {
			j.add(Inside, n.Path, "open is allowed, for the monitor", "open is "+string(n.Open))
		}
		if vfio.KindOf(n.Path) == vfio.NoVFIO {
			j.add(Inside, n.Path, "no node but VFIO's", nodeWords(n.Type, n.Num))
		}
	}
	if len(j.ev.VFIOPlan.Devices) > 0 && len(j.ev.Seen.Nodes) == 0 {
		j.add(Inside, "monitor", "nodes of the devices", "none")
	}
	j.guest()
	if j.ev.Host == nil {
		return
	}
	for _, d := range j.ev.VFIOPlan.Devices {
		switch f := j.ev.Host.Function(d.BDF); {
		case f == nil:
			j.add(Host, deviceName(d), "a PCI function", "nothing")
		case d.MDev != "":
			if !slices.ContainsFunc(j.ev.Host.MDevs, func(m observe.MDev) bool { return m.UUID == d.MDev && m.Parent == d.BDF && m.Type == d.Type }) {
				j.add(Host, d.MDev, "mediated device "+deviceName(d), "none")
			}
		case f.VGPU == 0 && !strings.HasSuffix(f.Driver, "vfio-pci"):
			j.add(Host, deviceName(d), "a driver of VFIO", "driver "+f.Driver)
		}
	}
}

// guest judges what the machine has below its root ports: the functions of the plan, each
// where the plan has it, no others, and a place above 4 GiB within what the port reserves.
func (j *judge) guest() {
	planned := map[string]bool{}
	at := func(port, function int) string { return fmt.Sprintf("port %d.%d", port, function) }
	for _, d := range j.ev.VFIOPlan.Devices {
		if d.Type != "" {
			continue // whatever its driver makes of it
		}
		place := at(d.Port, d.Slot)
		planned[place] = true
		var there bool
		var high uint64 // bytes
		for _, f := range j.ev.Seen.Functions {
			there = there || f.Port == d.Port && int(f.BDF.Function) == d.Slot
			for _, w := range f.Windows {
				if f.Port == d.Port && w.Prefetchable64() && w.Start >= observe.Above4G {
					high += w.Size
				}
			}
		}
		if !there {
			j.add(Inside, deviceName(d), "a function at "+place, "nothing")
		} else if d.Window > 0 && (high == 0 || high > d.Window) { // what their port reserves
			j.add(Inside, deviceName(d), fmt.Sprintf("up to %d bytes of windows above 4 GiB", d.Window), fmt.Sprint(high))
		}
	}
	for _, f := range j.ev.Seen.Functions {
		if place := at(f.Port, int(f.BDF.Function)); !planned[place] {
			j.add(Inside, place, "nothing", f.ID.String())
		}
	}
}
