package live

import (
	"context"
	"errors"
	"path"
	"strconv"
	"sync"
	"syscall"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/nvmlfake"
)

// A Driver is NVIDIA's kernel driver of a host, for programs that ask it for
// changes by NVML and nvidia-smi: a control.Handler. It keeps what the driver
// keeps besides the host's model, such as a MIG mode that waits for a reset.
type Driver struct {
	h     *Host
	mu    sync.Mutex
	state driverctl.State // without a model: that is the host's
}

var _ driverctl.Handler = (*Driver)(nil)

// NewDriver returns the driver of h.
func NewDriver(h *Host) *Driver { return &Driver{h: h} }

// errRefused ends a change that the driver refuses.
var errRefused = errors.New("refused")

// Control carries out one command. Whoever shows the host to programs has been
// told of the change when it returns.
func (d *Driver) Control(_ context.Context, c driverctl.Command, from driverctl.Caller) (reply driverctl.Reply) {
	switch c.Verb {
	case driverctl.SetVFs:
		return d.setVFs(c, from)
	case driverctl.MakeNodes:
		return d.makeNodes(c.Group)
	}
	c, reply = d.h.asked(c)
	if reply.Code != nvml.SUCCESS {
		return reply
	}
	before := d.kept()
	err := d.h.Change(func(m host.Model) (host.Model, error) {
		before = d.kept()
		s := before
		s.Model = m
		on := driverctl.Conditions{Caller: from, InUse: func(node string) bool { return d.h.held(node, from.PID) }}
		next, r := driverctl.Apply(s, c, on)
		if reply = r; r.Code != nvml.SUCCESS {
			return m, errRefused
		}
		d.keep(next)
		return next.Model, nil
	})
	if err != nil && !errors.Is(err, errRefused) {
		d.keep(before)
		return driverctl.Refuse(nvml.ERROR_UNKNOWN, "%v", err)
	}
	return reply
}

func (d *Driver) kept() driverctl.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

func (d *Driver) keep(s driverctl.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Model = host.Model{}
	d.state = s
}

// NVML returns opts with what the driver keeps about the host's GPUs, and with
// the host's faults. M is the host's model.
func (d *Driver) NVML(m host.Model, opts nvmlfake.Options) nvmlfake.Options {
	s := d.kept()
	s.Model = m
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	return d.h.broken.NVML(s.NVML(opts))
}

// setVFs makes virtual functions as a write to the function's sriov_numvfs does.
func (d *Driver) setVFs(c driverctl.Command, from driverctl.Caller) driverctl.Reply {
	if from.UID != 0 {
		return driverctl.Refuse(nvml.ERROR_NO_PERMISSION, "only root makes virtual functions")
	}
	link := "/sys/bus/pci/devices/" + c.PF.String()
	d.h.mu.Lock()
	target, err := d.h.tree.Readlink(link)
	d.h.mu.Unlock()
	if err != nil {
		return driverctl.Refuse(nvml.ERROR_GPU_IS_LOST, "there is no %s", c.PF)
	}
	attr := path.Join(path.Dir(link), target, "sriov_numvfs")
	switch errno := d.h.Write(attr, []byte(strconv.Itoa(c.VFs)+"\n")); errno {
	case 0:
		return driverctl.OK()
	case syscall.EBUSY:
		return driverctl.Refuse(nvml.ERROR_IN_USE, "%s: %v", attr, errno)
	case syscall.ENOENT, syscall.EACCES, syscall.ENOTSUP:
		return driverctl.Refuse(nvml.ERROR_NOT_SUPPORTED, "%s: %v", attr, errno)
	default:
		return driverctl.Refuse(nvml.ERROR_INVALID_ARGUMENT, "%s: %v", attr, errno)
	}
}

// makeNodes makes the nodes of a group, as nvidia-modprobe does: those that
// nothing had asked for so far, and those that a program has removed. What another
// fault takes away stays away.
func (d *Driver) makeNodes(group string) driverctl.Reply {
	if d.h.Model().Driver == nil {
		return driverctl.Refuse(nvml.ERROR_DRIVER_NOT_LOADED, "the driver is not loaded")
	}
	if err := d.h.makeNodes(group); err != nil {
		return driverctl.Refuse(nvml.ERROR_UNKNOWN, "%v", err)
	}
	return driverctl.OK()
}
