package vfio

import (
	"path"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// A step is a Write that was understood: one of the few that a Plan can have. No
// other is ever carried out, whoever wrote the plan.
type step struct {
	kind kind
	bdf  pci.BDF // of the function; of remove none
	name string  // a driver; of create a type
	uuid string  // of a mediated device
	n    int     // of numVFs, vfProbe and vgpu
}

// A kind is what a step does.
type kind int

const (
	_        kind = iota
	unbind        // takes its driver from a function
	bind          // gives a function to a driver
	override      // says which driver alone may have a function; no name: any
	probe         // has the drivers look at a function
	numVFs        // makes so many virtual functions
	vfProbe       // says whether drivers get virtual functions that appear
	create        // makes a mediated device
	remove        // removes one
	vgpu          // makes a virtual function a vGPU of a type; 0: none
)

// write returns the Write that the step is.
func (s step) write() Write {
	switch s.kind {
	case unbind:
		return Write{busDrivers + s.name + "/unbind", s.bdf.String()}
	case bind:
		return Write{busDrivers + s.name + "/bind", s.bdf.String()}
	case override:
		return Write{at(s.bdf) + "/driver_override", s.name}
	case probe:
		return Write{drivers, s.bdf.String()}
	case numVFs:
		return Write{at(s.bdf) + "/sriov_numvfs", strconv.Itoa(s.n)}
	case vfProbe:
		return Write{at(s.bdf) + "/sriov_drivers_autoprobe", strconv.Itoa(s.n)}
	case create:
		return Write{at(s.bdf) + "/mdev_supported_types/" + s.name + "/create", s.uuid}
	case remove:
		return Write{mdevs + s.uuid + "/remove", "1"}
	case vgpu:
		return Write{at(s.bdf) + "/nvidia/current_vgpu_type", strconv.Itoa(s.n)}
	}
	return Write{}
}

// parseStep reads a Write in the very form in which step.write makes it.
func parseStep(w Write) (step, error) {
	s := understood(w)
	if s.kind == 0 || s.write() != w || s.name != "" && !isName(s.name) || s.uuid != "" && !isUUID(s.uuid) || s.n < 0 {
		return step{}, refuse.New(ReasonBadPlan, "", "%s to %s is no write of such a plan", strconv.QuoteToASCII(w.Text), strconv.QuoteToASCII(w.Path)).
			WithHint("Make the plan again.")
	}
	return s, nil
}

// understood takes a Write apart, without a look at the parts.
func understood(w Write) step {
	var s step
	if w.Path == drivers {
		s.kind = probe
	} else if rest, ok := strings.CutPrefix(w.Path, busDrivers); ok {
		s.name = path.Dir(rest)
		s.kind = map[string]kind{"bind": bind, "unbind": unbind}[path.Base(rest)]
	} else if rest, ok := strings.CutPrefix(w.Path, mdevs); ok {
		return step{kind: remove, uuid: path.Dir(rest)}
	}
	if s.kind != 0 {
		s.bdf, _ = pci.ParseBDF(w.Text)
		return s
	}
	rest, _ := strings.CutPrefix(w.Path, busDevices)
	name, attr, _ := strings.Cut(rest, "/")
	s.bdf, _ = pci.ParseBDF(name)
	switch attr {
	case "driver_override":
		s.kind, s.name = override, w.Text
		return s
	case "sriov_numvfs":
		s.kind = numVFs
	case "sriov_drivers_autoprobe":
		s.kind = vfProbe
	case "nvidia/current_vgpu_type":
		s.kind = vgpu
	default:
		s.kind, s.uuid, s.name = create, w.Text, path.Base(path.Dir(attr))
		return s
	}
	s.n, _ = strconv.Atoi(w.Text)
	return s
}

// holds reports whether the host is as the step leaves it. Of what is not there
// nothing holds, but that it is removed.
func (s step) holds(r host.Root) (bool, error) {
	switch s.kind {
	case unbind, bind, probe:
		driver, there, err := driverOf(r, s.bdf)
		switch {
		case err != nil || !there:
			return false, err
		case s.kind == unbind:
			return driver != s.name, nil
		case s.kind == bind:
			return driver == s.name, nil
		}
		return IsDriver(driver), nil
	case override:
		there, err := host.Exists(r, at(s.bdf))
		if err != nil || !there {
			return false, err
		}
		name, err := overrideOf(r, s.bdf)
		return name == s.name, err
	case create, remove:
		there, err := host.Exists(r, mdevs+s.uuid)
		return there == (s.kind == create), err
	}
	n, there, err := number(r, s.write().Path)
	return there && n == s.n, err
}

// takesBack reports whether undo is what takes the step back.
func (s step) takesBack(undo step) bool {
	switch s.kind {
	case unbind:
		return undo == step{kind: bind, bdf: s.bdf, name: s.name}
	case probe:
		return undo.kind == unbind && undo.bdf == s.bdf && IsDriver(undo.name)
	case override:
		return undo.kind == override && undo.bdf == s.bdf && undo.name != s.name && (s.name == "" || IsDriver(s.name))
	case create:
		return undo == step{kind: remove, uuid: s.uuid}
	case numVFs, vgpu:
		return s.n > 0 && undo == step{kind: s.kind, bdf: s.bdf}
	case vfProbe:
		return s.n == 0 && undo == step{kind: s.kind, bdf: s.bdf, n: 1}
	}
	return false
}
