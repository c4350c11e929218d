package fakehw

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
)

// usualMisc are drivers that every host has, by minor.
var usualMisc = map[uint32]string{
	237: "loop-control", 236: "device-mapper", 232: "kvm", 231: "snapshot", 229: "fuse", 223: "uinput", 200: "tun", 144: "nvram", 227: "mcelog", 183: "hw_random",
}

// misc makes /proc/misc: a driver registers under the name of its node (kernel,
// drivers/char/misc.c, which lists the last registered first; here by minor).
func (b *builder) misc() {
	names := map[uint32]string{}
	for minor, name := range usualMisc {
		names[minor] = name
	}
	for _, n := range b.m.Nodes {
		// A node under another driver's number is that driver's, whatever its name.
		if n.Type == device.Char && n.Num.Major == majorMisc && usualMisc[n.Num.Minor] == "" {
			names[n.Num.Minor] = path.Base(n.Path)
		}
	}
	minors := make([]uint32, 0, len(names))
	for m := range names {
		minors = append(minors, m)
	}
	slices.SortFunc(minors, func(x, y uint32) int { return cmp.Compare(y, x) })
	var text strings.Builder
	for _, m := range minors {
		fmt.Fprintf(&text, "%3d %s\n", m, names[m])
	}
	b.attr("/proc/misc", text.String())
}
