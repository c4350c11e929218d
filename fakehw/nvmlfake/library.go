// Package nvmlfake is NVIDIA's management library, NVML, for a host model: an
// nvml.Interface that answers in this process from the model, so that
// programs written against go-nvml, nvcdi above all, run without a driver.
//
// It models the identity of GPUs, MIG devices and their instances, and what
// Spec generation asks. Every other call exists and returns
// nvml.ERROR_NOT_SUPPORTED. A few calls of go-nvml return a handler for further
// calls (DeviceGetGpuFabricInfoV); such a handler always calls the real library,
// so Extensions reports their symbols as missing: check it first,
// as go-nvlib does. The C library for unmodified programs is package nvmllib.
//
// Reference: https://docs.nvidia.com/deploy/nvml-api
package nvmlfake

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/core/pci"
)

//go:generate go run ./internal/gen zz_stubs.go

// Options make a Library differ from what the model says. The zero value makes
// a library that works.
type Options struct {
	// Fail makes calls return something else than they would. The key is a call
	// of nvml.Interface, "Init" or "DeviceGetUUID", and may end in the NVML
	// index of one GPU: "DeviceGetUUID:1". Methods of a handle count as the call
	// that is the same: d.GetUUID() is DeviceGetUUID. "*:1" is every call about
	// GPU 1, where no other key names the call.
	Fail map[string]nvml.Return `json:"fail,omitempty"`
	// OldMIGNames makes MIG UUIDs read "MIG-GPU-<uuid>/<gi>/<ci>", as drivers
	// before 470 write them.
	OldMIGNames bool `json:"oldMIGNames,omitempty"`
	// PendingMIG lists GPUs, by NVML index, whose MIG mode changes with the next
	// reset.
	PendingMIG []int `json:"pendingMIG,omitempty"`
	// OffBus lists GPUs, by NVML index, that fell off the bus, for CUDA beside this
	// library; what this one says of them is in Fail.
	OffBus []int `json:"offBus,omitempty"`
	// Xids are what the driver has reported of GPUs, for event sets of the C library:
	// nothing happens to a host in this process.
	Xids []Xid `json:"xids,omitempty"`
	// Persistence has the persistence modes that were set, by NVML index. Other
	// GPUs have theirs from the daemon of the model.
	Persistence map[int]bool `json:"persistence,omitempty"`
}

// An Xid is an error that the driver reports, by its number.
type Xid struct {
	GPU  int `json:"gpu"` // NVML index
	Code int `json:"code"`
}

// MaxXid is the highest number that an event set can tell.
const MaxXid = 255

// ErrUnknownCall marks a key of Options.Fail that names no call.
var ErrUnknownCall = errors.New("no such NVML call")

// Validate reports every key of Fail that would never match.
func (o Options) Validate() error {
	var errs []error
	for key := range o.Fail {
		call, index, has := strings.Cut(key, ":")
		if !IsCall(call) && !(call == "*" && has) {
			errs = append(errs, fmt.Errorf("NVML fault %q: %w", key, ErrUnknownCall))
		} else if _, err := strconv.ParseUint(index, 10, 31); has && err != nil {
			errs = append(errs, fmt.Errorf("NVML fault %q: want an NVML index after the colon", key))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// IsCall reports whether nvml.Interface has a call of this name, "DeviceGetUUID".
func IsCall(name string) bool {
	_, known := slices.BinarySearch(calls, name)
	return known
}

// A Library is one loaded NVML. It may be used by several goroutines.
type Library struct {
	model host.Model
	opts  Options
	gpus  []*gpu   // by NVML index
	gone  []string // calls that the driver has given up

	mu   sync.Mutex
	refs int // Init without Shutdown yet
}

var _ nvml.Interface = (*Library)(nil)

// New returns the NVML of the host m, not initialised yet. It keeps m, which
// must not change afterwards.
func New(m host.Model, opts Options) *Library {
	l := &Library{model: m, opts: opts, gone: Deprecated(m)}
	for _, g := range m.NVIDIAGPUs() {
		l.gpus = append(l.gpus, newGPU(l, g))
	}
	return l
}

// Init starts the library, or counts one more user of it. As on a real host it
// fails where no driver is loaded, where no libraries are installed, and where
// the two are of different versions.
func (l *Library) Init() nvml.Return { return l.start("Init") }

// InitWithFlags is Init; the flags change nothing here.
func (l *Library) InitWithFlags(uint32) nvml.Return { return l.start("InitWithFlags") }

func (l *Library) start(call string) nvml.Return {
	if r, ok := l.opts.Fail[call]; ok {
		return r
	}
	if r := l.loads(); r != nvml.SUCCESS {
		return r
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refs++
	return nvml.SUCCESS
}

// loads says what nvmlInit meets on the host.
func (l *Library) loads() nvml.Return {
	switch m := l.model; {
	case m.Userspace == nil:
		return nvml.ERROR_LIBRARY_NOT_FOUND
	case m.Driver == nil:
		return nvml.ERROR_DRIVER_NOT_LOADED
	case m.Driver.Version != m.Userspace.Version:
		return nvml.ERROR_LIB_RM_VERSION_MISMATCH
	}
	return nvml.SUCCESS
}

// Shutdown ends one use of the library.
func (l *Library) Shutdown() nvml.Return {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.opts.Fail["Shutdown"]; ok {
		return r
	}
	if l.refs == 0 {
		return nvml.ERROR_UNINITIALIZED
	}
	l.refs--
	return nvml.SUCCESS
}

// Users returns how many Inits had no Shutdown yet.
func (l *Library) Users() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refs
}

// check returns SUCCESS if call may be answered: the library is initialised and
// no fault was asked for.
func (l *Library) check(call string) nvml.Return {
	if l.Users() == 0 {
		return nvml.ERROR_UNINITIALIZED
	}
	if r, ok := l.opts.Fail[call]; ok {
		return r
	}
	if slices.Contains(l.gone, call) {
		return nvml.ERROR_DEPRECATED
	}
	return nvml.SUCCESS
}

// unsupported is the answer of a call that is not modelled.
func (l *Library) unsupported(call string) nvml.Return {
	if r := l.check(call); r != nvml.SUCCESS {
		return r
	}
	return nvml.ERROR_NOT_SUPPORTED
}

// ErrorString names r. It works before Init.
func (l *Library) ErrorString(r nvml.Return) string { return r.Error() }

// SystemGetDriverVersion returns the kernel driver's version, "550.163.01".
func (l *Library) SystemGetDriverVersion() (string, nvml.Return) {
	if r := l.check("SystemGetDriverVersion"); r != nvml.SUCCESS {
		return "", r
	}
	return l.model.Driver.Version, nvml.SUCCESS
}

// SystemGetNVMLVersion returns the library's version after CUDA's major:
// "12.550.163.01". It works before Init, and beside a driver of another version.
func (l *Library) SystemGetNVMLVersion() (string, nvml.Return) {
	if r, ok := l.opts.Fail["SystemGetNVMLVersion"]; ok {
		return "", r
	}
	if l.model.Userspace == nil || l.model.Driver == nil {
		return "", nvml.ERROR_NOT_SUPPORTED
	}
	major, _, ok := parseDotted(l.model.Driver.CUDA)
	if !ok {
		return "", nvml.ERROR_NOT_SUPPORTED
	}
	return fmt.Sprintf("%d.%s", major, l.model.Userspace.Version), nvml.SUCCESS
}

// SystemGetCudaDriverVersion returns 1000 times CUDA's major plus 10 times its
// minor: 12040. Where there is no libcuda it is what the driver knows (nvml.h).
func (l *Library) SystemGetCudaDriverVersion() (int, nvml.Return) {
	return l.cuda("SystemGetCudaDriverVersion")
}

// SystemGetCudaDriverVersion_v2 is SystemGetCudaDriverVersion, asked of the
// loaded libcuda, which the package of the vGPU manager does not have.
func (l *Library) SystemGetCudaDriverVersion_v2() (int, nvml.Return) {
	v, r := l.cuda("SystemGetCudaDriverVersion_v2")
	if r == nvml.SUCCESS && l.model.Userspace.VGPU {
		return 0, nvml.ERROR_LIBRARY_NOT_FOUND
	}
	return v, r
}

func (l *Library) cuda(call string) (int, nvml.Return) {
	if r := l.check(call); r != nvml.SUCCESS {
		return 0, r
	}
	major, minor, ok := parseDotted(l.model.Driver.CUDA)
	if !ok {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	return major*1000 + minor*10, nvml.SUCCESS
}

// UnitGetCount returns 0: S-class systems are not modelled.
func (l *Library) UnitGetCount() (int, nvml.Return) { return 0, l.check("UnitGetCount") }

// DeviceGetCount returns the number of full GPUs.
func (l *Library) DeviceGetCount() (int, nvml.Return) {
	if r := l.check("DeviceGetCount"); r != nvml.SUCCESS {
		return 0, r
	}
	return len(l.gpus), nvml.SUCCESS
}

// DeviceGetHandleByIndex returns the full GPU of an index, from 0.
func (l *Library) DeviceGetHandleByIndex(index int) (nvml.Device, nvml.Return) {
	if index < 0 || index >= len(l.gpus) {
		return l.handle("DeviceGetHandleByIndex", nil, nvml.ERROR_INVALID_ARGUMENT)
	}
	return l.handle("DeviceGetHandleByIndex", l.gpus[index], nvml.SUCCESS)
}

// DeviceGetHandleByPciBusId takes any form of the address that pci.ParseBDF reads.
func (l *Library) DeviceGetHandleByPciBusId(id string) (nvml.Device, nvml.Return) {
	const call = "DeviceGetHandleByPciBusId"
	bdf, err := pci.ParseBDF(id)
	if err != nil {
		return l.handle(call, nil, nvml.ERROR_INVALID_ARGUMENT)
	}
	return l.find(call, func(g *gpu) bool { return g.PCI != nil && g.PCI.BDF == bdf })
}

// DeviceGetHandleBySerial finds a GPU by its board's serial number.
func (l *Library) DeviceGetHandleBySerial(serial string) (nvml.Device, nvml.Return) {
	return l.find("DeviceGetHandleBySerial", func(g *gpu) bool { return serial != "" && g.serial() == serial })
}

// DeviceGetHandleByUUID finds a full GPU or a MIG device.
func (l *Library) DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return) {
	const call = "DeviceGetHandleByUUID"
	for _, g := range l.gpus {
		for _, m := range g.migs {
			if m.uuid() == uuid {
				if r := m.check(call); r != nvml.SUCCESS {
					return nil, r
				}
				return m, nvml.SUCCESS
			}
		}
	}
	return l.find(call, func(g *gpu) bool { return g.UUID == uuid })
}

// DeviceGetHandleByUUIDV takes the UUID as text in a structure.
func (l *Library) DeviceGetHandleByUUIDV(uuid *nvml.UUID) (nvml.Device, nvml.Return) {
	if uuid == nil || uuid.Type != uint32(nvml.UUID_TYPE_ASCII) {
		return l.handle("DeviceGetHandleByUUIDV", nil, nvml.ERROR_INVALID_ARGUMENT)
	}
	if r := l.check("DeviceGetHandleByUUIDV"); r != nvml.SUCCESS {
		return nil, r
	}
	text, _, _ := strings.Cut(string(uuid.Value[:]), "\x00")
	return l.DeviceGetHandleByUUID(text)
}

func (l *Library) find(call string, is func(*gpu) bool) (nvml.Device, nvml.Return) {
	if i := slices.IndexFunc(l.gpus, is); i >= 0 {
		return l.handle(call, l.gpus[i], nvml.SUCCESS)
	}
	return l.handle(call, nil, nvml.ERROR_NOT_FOUND)
}

// handle answers a look-up: with a fault if there is one, else with g, or r
// where there is no g. It never wraps a nil g in an interface.
func (l *Library) handle(call string, g *gpu, r nvml.Return) (nvml.Device, nvml.Return) {
	if bad := l.check(call); bad != nvml.SUCCESS {
		return nil, bad
	}
	if g == nil {
		return nil, r
	}
	if bad := g.check(call); bad != nvml.SUCCESS {
		return nil, bad
	}
	return g, nvml.SUCCESS
}

// parseDotted reads "12.4".
func parseDotted(s string) (major, minor int, ok bool) {
	a, b, ok := strings.Cut(s, ".")
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, ok && err1 == nil && err2 == nil
}
