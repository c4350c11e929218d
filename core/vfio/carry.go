package vfio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// A Sys is a host whose sysfs can be written to.
type Sys interface {
	host.Root
	// Write is one write(2) of data to the file at path, links followed. The error
	// wraps the syscall.Errno.
	Write(path string, data []byte) error
}

// A pair is a step and what takes it back.
type pair struct{ do, undo step }

// pairs reads a plan's writes with what takes each of them back.
func (p Plan) pairs() ([]pair, error) {
	if len(p.Writes) != len(p.Undo) {
		return nil, refuse.New(ReasonBadPlan, "", "the plan has %d writes and %d that undo them", len(p.Writes), len(p.Undo)).WithHint("Make the plan again.")
	}
	if p.Boot != "" && !isUUID(p.Boot) {
		return nil, refuse.New(ReasonBadPlan, "", "%s is the name of no boot", strconv.QuoteToASCII(p.Boot)).WithHint("Make the plan again.")
	}
	for _, d := range p.Devices {
		if d.MDev != "" && !isUUID(d.MDev) {
			return nil, refuse.New(ReasonBadPlan, "", "%s is no UUID of a mediated device", strconv.QuoteToASCII(d.MDev)).WithHint("Make the plan again.")
		}
	}
	var out []pair
	for i, w := range p.Writes {
		do, err := parseStep(w)
		if err != nil {
			return nil, err
		}
		undo, err := parseStep(p.Undo[len(p.Undo)-1-i])
		if err != nil {
			return nil, err
		}
		if !do.takesBack(undo) {
			return nil, refuse.New(ReasonBadPlan, "", "%s is not taken back by %s", do, undo).WithHint("Make the plan again.")
		}
		out = append(out, pair{do, undo})
	}
	return out, nil
}

// String is the step as a shell has it.
func (s step) String() string {
	w := s.write()
	return fmt.Sprintf("echo %s > %s", w.Text, w.Path)
}

// Carry carries a plan out: it writes in order, each only where the host is as it
// was when the plan was made, and looks whether the write had its effect. Where
// one fails, or ctx ends, what was done is taken back, and the error says which
// write it was, why, and what to do. Writing waits while a program of the host has
// the device open, and then ctx does not end it: see Options.Busy.
func Carry(ctx context.Context, sys Sys, p Plan) error {
	all, err := p.pairs()
	if err != nil {
		return err
	}
	if over, err := p.over(sys); err != nil {
		return err
	} else if over {
		return refuse.New(ReasonHostChanged, "", "the host was rebooted since the plan was made").WithHint("Make the plan again.")
	}
	done := 0
	for i, x := range all {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var wrote bool
		if wrote, err = x.carry(sys); wrote {
			done = i + 1
		}
		if err != nil {
			err = numbered(err, fmt.Sprintf("write %d of %d", i+1, len(all)))
			break
		}
	}
	if err == nil {
		err = p.viable(sys)
	}
	if err != nil {
		err = errors.Join(err, takeBack(context.WithoutCancel(ctx), sys, all[:done]))
	}
	return err
}

// carry does one step; wrote says that the kernel took the write.
func (x pair) carry(sys Sys) (wrote bool, err error) {
	before, err := x.undo.holds(sys)
	if err != nil {
		return false, err
	}
	if !before {
		return false, refuse.New(ReasonHostChanged, "", "%s: the host is not as it was when the plan was made", x.do).
			WithHint("Something else took or changed the device: make the plan again.")
	}
	if err := put(sys, x.do); err != nil {
		return false, err
	}
	after, err := x.do.holds(sys)
	if err == nil && !after {
		err = refuse.New(ReasonNotTaken, "", "%s: the kernel took the write, and it had no effect", x.do).
			WithHint("The kernel's log says why, with dmesg.")
	}
	return true, err
}

// put writes a step.
func put(sys Sys, s step) error {
	w := s.write()
	err := sys.Write(w.Path, []byte(w.Text+"\n"))
	if err == nil {
		return nil
	}
	reason := ReasonWriteFailed
	if s.kind == create && errors.Is(err, syscall.ENOSPC) || s.kind == vgpu && s.n > 0 && errors.Is(err, syscall.ENOSPC) {
		reason = ReasonNoInstances
	}
	return refuse.New(reason, "", "%s", s).WithErr(err).WithHint("%s", advice(s, err))
}

// advice says what to do about a write that the kernel refused.
func advice(s step, err error) string {
	is := func(all ...syscall.Errno) bool {
		return slices.ContainsFunc(all, func(e syscall.Errno) bool { return errors.Is(err, e) })
	}
	switch {
	case is(syscall.EPERM, syscall.EBUSY) && s.kind == vgpu && s.n == 0:
		return "The machine still has the vGPU: return it when its monitor has ended."
	case is(syscall.EACCES, syscall.EPERM, syscall.EROFS):
		return "Run as root on the host itself; in a container sysfs is read-only."
	case is(syscall.ENOSPC):
		return "End a virtual machine that has a vGPU of this board, or ask for a smaller type."
	case is(syscall.ENOENT, syscall.ENODEV) && s.kind == bind:
		return "Load the driver " + s.name + " again, and look whether driver_override of " + s.bdf.String() + " is for another; then return the devices once more."
	case is(syscall.ENOENT, syscall.ENODEV):
		return "The device or its driver is gone: make the plan again."
	case is(syscall.EBUSY):
		return "Something else has the device: end it, or make the plan again."
	}
	return "The kernel's log says why, with dmesg."
}

// numbered gives a refusal, or another error, its place.
func numbered(err error, where string) error {
	if e, ok := err.(*refuse.Error); ok {
		c := *e
		c.Where = where
		return &c
	}
	return fmt.Errorf("%s: %w", where, err)
}

// viable checks the groups of the devices that go as functions.
func (p Plan) viable(r host.Root) error {
	seen := map[int]bool{}
	for _, d := range p.Devices {
		if d.MDev != "" {
			continue
		}
		group, err := groupOf(r, at(d.BDF))
		if err != nil {
			return err
		}
		if group < 0 || seen[group] {
			continue
		}
		seen[group] = true
		if err := Viable(r, group); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether the host was rebooted since the plan was made. Then nothing of
// it is left, and what looks like it is somebody else's.
func (p Plan) over(r host.Root) (bool, error) {
	boot, err := bootOf(r)
	return p.Boot != "" && boot != "" && boot != p.Boot, err
}

// Return gives back what Carry took, in whatever state it finds it: what is no longer
// as Carry left it is left alone, so that it can be called again; after a reboot,
// all is. It goes on where something cannot be
// given back, and reports all of that.
//
// Drop the plan when it was returned. By a plan that is used again, a device that
// another machine was given meanwhile would be taken from it.
func Return(ctx context.Context, sys Sys, p Plan) error {
	all, err := p.pairs()
	if err != nil {
		return err
	}
	if over, err := p.over(sys); err != nil || over {
		return err
	}
	return takeBack(ctx, sys, all)
}

// takeBack undoes steps, the last first.
func takeBack(ctx context.Context, sys Sys, done []pair) error {
	var errs []error
	for i, x := range slices.Backward(done) {
		if err := context.Cause(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := x.takeBack(sys); err != nil {
			errs = append(errs, numbered(err, "undo write "+strconv.Itoa(i+1)))
		}
	}
	return errors.Join(errs...)
}

func (x pair) takeBack(sys Sys) error {
	mine, err := x.do.holds(sys)
	if err != nil || !mine {
		return err
	}
	if x.do.kind == override && IsDriver(x.do.name) {
		// Of what the host's driver has, it is somebody else's for later.
		if driver, _, err := driverOf(sys, x.do.bdf); err != nil || driver != "" && !IsDriver(driver) {
			return err
		}
	}
	if x.do.kind == numVFs {
		if used, err := anyUsed(sys, x.do.bdf, x.do.n); err != nil || used {
			return err
		}
	}
	if err := put(sys, x.undo); err != nil {
		return err
	}
	was, err := x.undo.holds(sys)
	if err == nil && !was {
		err = refuse.New(ReasonNotTaken, "", "%s: the kernel took the write, and it had no effect", x.undo).WithHint("The kernel's log says why, with dmesg.")
	}
	return err
}

// anyUsed reports whether one of a function's virtual functions is in use by
// somebody: then they all stay.
func anyUsed(r host.Root, pf pci.BDF, n int) (bool, error) {
	for k := range n {
		name, ok, err := linkName(r, fmt.Sprintf("%s/virtfn%d", at(pf), k))
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		b, err := pci.ParseBDF(name)
		if err != nil {
			return false, badText(fmt.Sprintf("%s/virtfn%d", at(pf), k), name)
		}
		used, err := vfUsed(r, b)
		if err != nil || used {
			return used, err
		}
	}
	return false, nil
}

// vfUsed reports whether a virtual function is given to somebody: held by a VFIO
// driver, or a vGPU, or the parent of one.
func vfUsed(r host.Root, b pci.BDF) (bool, error) {
	driver, _, err := driverOf(r, b)
	if err != nil || IsDriver(driver) {
		return IsDriver(driver), err
	}
	kind, _, err := number(r, at(b)+"/nvidia/current_vgpu_type")
	if err != nil || kind > 0 {
		return kind > 0, err
	}
	names, err := list(r, at(b))
	return slices.ContainsFunc(names, isUUID), err
}
