package vfio

import (
	"fmt"
	"slices"
	"strings"
)

// Script returns a shell script that does what Carry and Return do, for those who
// start machines by hand: "start" writes, each only where the host is as it was, and
// takes back what it did where that fails; "stop" takes back what is still so.
func Script(p Plan) (string, error) {
	all, err := p.pairs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/sh")
	line("# As root: \"start\" before the machine starts, \"stop\" after it has ended.")
	line("n=0   # the last write that was done or is being done")
	line("bad=0 # whether something was not given back")
	line("")
	b.WriteString(looks)
	if slices.ContainsFunc(all, func(x pair) bool { return x.do.kind == numVFs }) {
		b.WriteString(looksAtVFs)
	}
	line("lost() {")
	line("\techo \"write $1 of %d could not be taken back\" >&2", len(all))
	line("\tbad=1")
	line("}")
	line("")
	line("back() {")
	for i, x := range slices.Backward(all) {
		so := x.does()
		switch {
		case x.do.kind == numVFs:
			so += " && unused " + x.do.bdf.String()
		case x.do.kind == override && x.do.name != "":
			so += " && loose " + x.do.bdf.String()
		}
		line("\tif [ $n -ge %d ] && %s; then %s || lost %d; fi # %s", i+1, so, x.undo, i+1, x.undo.why())
	}
	line("\t:")
	line("}")
	line("")
	line("failed() {")
	line("\ttrap '' HUP INT TERM")
	line("\techo \"write $1 of %d failed: $2; what was done is taken back\" >&2", len(all))
	line("\tback")
	line("\texit 1")
	line("}")
	line("")
	line("start() {")
	line("\ttrap 'failed $n interrupted' HUP INT TERM")
	for i, x := range all {
		line("\t%s || failed %d 'the host is not as it was'", x.was(), i+1)
		line("\tn=%d", i+1)
		line("\t%s || { n=%d; failed %d 'the kernel refused it'; }", x.do, i, i+1)
		line("\t%s || failed %d 'it had no effect' # %s", x.does(), i+1, x.do.why())
	}
	line("\t:")
	line("}")
	line("")
	line("over() { # the host was rebooted")
	if p.Boot == "" {
		line("\tfalse")
	} else {
		line("\tboot=$(cat /proc/sys/kernel/random/boot_id) && [ \"$boot\" != %s ]", p.Boot)
	}
	line("}")
	line("")
	line("alone() { # of such scripts, till its end")
	line("\tif command -v flock > /dev/null; then exec 9>> /run/gpurig-vfio.lock && flock 9 || exit 1; fi")
	line("}")
	line("")
	line("case $1 in")
	line("start)")
	line("\tif over; then echo 'the host was rebooted since: make the script again' >&2; exit 1; fi")
	line("\talone")
	line("\tstart ;;")
	line("stop)")
	line("\tif over; then exit 0; fi # nothing of it is left")
	line("\talone")
	line("\tn=%d", len(all))
	line("\tback")
	line("\texit $bad ;;")
	line("*) echo \"usage: $0 start|stop\" >&2; exit 2 ;;")
	line("esac")
	return b.String(), nil
}

// looks are how a script sees what the host is like.
const looks = `bound() { [ -e "/sys/bus/pci/drivers/$1/$2" ]; } # driver, function
free() { [ -e "/sys/bus/pci/devices/$2" ] && ! bound "$1" "$2"; }
text() { [ "$(cat "$2" 2>/dev/null)" = "$1" ]; }
only() { text "$1" "/sys/bus/pci/devices/$2/driver_override"; } # driver, function
loose() { # no driver of the host has it
	case $(readlink "/sys/bus/pci/devices/$1/driver") in "" | *vfio-pci | *vfio_pci) ;; *) return 1 ;; esac
}
any() { [ -e "/sys/bus/pci/devices/$1" ] && { only '(null)' "$1" || only '' "$1"; }; }

`

const looksAtVFs = `unused() { # nobody has a virtual function of this one
	for v in "/sys/bus/pci/devices/$1"/virtfn*; do
		case $(readlink "$v/driver") in *vfio-pci | *vfio_pci) return 1 ;; esac
		if [ -e "$v/nvidia/current_vgpu_type" ] && ! text 0 "$v/nvidia/current_vgpu_type"; then return 1; fi
		for m in "$v"/????????-????-????-????-????????????; do
			if [ -e "$m" ]; then return 1; fi
		done
	done
}

`

// does is the shell's question whether the host is as the step leaves it, and was
// whether it is as taking it back leaves it: the answers of step.holds.
func (x pair) does() string {
	if x.do.kind == probe {
		return x.undo.question(true)
	}
	return x.do.question(false)
}

func (x pair) was() string { return x.undo.question(false) }

// question asks whether a step's effect holds, or of an unbind whether there is
// something to do.
func (s step) question(before bool) string {
	switch {
	case s.kind == bind, s.kind == unbind && before:
		return fmt.Sprintf("bound %s %s", s.name, s.bdf)
	case s.kind == unbind:
		return fmt.Sprintf("free %s %s", s.name, s.bdf)
	case s.kind == override && s.name == "":
		return fmt.Sprintf("any %s", s.bdf)
	case s.kind == override:
		return fmt.Sprintf("only %s %s", s.name, s.bdf)
	case s.kind == create:
		return fmt.Sprintf("[ -e %s%s ]", mdevs, s.uuid)
	case s.kind == remove:
		return fmt.Sprintf("[ ! -e %s%s ]", mdevs, s.uuid)
	}
	return fmt.Sprintf("text %d %s", s.n, s.write().Path)
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
