package vfio

import (
	"fmt"
	"strings"
)

// Script returns a shell script that does what Carry and Return do, for those who
// start machines by hand: with "start" it writes, and takes back what it did where
// a write fails; with "stop" it takes everything back. It does not look, as Return
// does, whether somebody else has a device by then.
func Script(p Plan) (string, error) {
	all, err := p.pairs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/sh")
	line("# As root: \"start\" before the machine starts, \"stop\" after it has ended.")
	line("n=0 # writes that were done")
	line("")
	line("back() {")
	for i := len(all) - 1; i >= 0; i-- {
		line("\t[ $n -lt %d ] || %s # %s", i+1, all[i].undo, all[i].undo.why())
	}
	line("\t:")
	line("}")
	line("")
	line("failed() {")
	line("\techo \"write $1 of %d failed; what was done is taken back\" >&2", len(all))
	line("\tback")
	line("\texit 1")
	line("}")
	line("")
	line("start() {")
	for i, x := range all {
		if x.do.kind == vgpu {
			line("\t[ \"$(cat %s)\" = 0 ] || failed %d # nobody has it", x.do.write().Path, i+1)
		}
		line("\t%s || failed %d # %s", x.do, i+1, x.do.why())
		line("\tn=%d", i+1)
		if x.do.kind == probe {
			line("\t[ -e %s%s/%s ] || failed %d # the kernel does not say so itself", busDrivers, x.undo.name, x.do.bdf, i+1)
		}
	}
	line("\t:")
	line("}")
	line("")
	line("case $1 in")
	line("start) start ;;")
	line("stop) n=%d; back ;;", len(all))
	line("*) echo \"usage: $0 start|stop\" >&2; exit 2 ;;")
	line("esac")
	return b.String(), nil
}

// why says what a step is for.
func (s step) why() string {
	switch s.kind {
	case unbind:
		return s.name + " lets " + s.bdf.String() + " go"
	case bind:
		return s.name + " has " + s.bdf.String() + " again"
	case override:
		if s.name == "" {
			return "any driver may have " + s.bdf.String()
		}
		return "only " + s.name + " may have " + s.bdf.String()
	case probe:
		return "the driver takes " + s.bdf.String()
	case numVFs:
		return fmt.Sprintf("%s has %d virtual functions", s.bdf, s.n)
	case vfProbe:
		if s.n == 0 {
			return "new virtual functions get no driver of the host"
		}
		return "new virtual functions get drivers again"
	case create:
		return "a vGPU of type " + s.name + " on " + s.bdf.String()
	case remove:
		return "without the vGPU"
	case vgpu:
		if s.n == 0 {
			return s.bdf.String() + " is no vGPU"
		}
		return fmt.Sprintf("%s is a vGPU of type %d", s.bdf, s.n)
	}
	return ""
}
