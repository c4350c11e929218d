package workload

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"gpurig/runner/smoke"
)

// SONAMEs of the driver's libraries.
const (
	cudaName = "libcuda.so.1"
	nvmlName = "libnvidia-ml.so.1"
)

// A library is a loaded shared object.
type library struct {
	handle uintptr
	calls  map[string]uintptr
}

func open(soname string) (*library, error) {
	h, err := purego.Dlopen(soname, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	return &library{handle: h, calls: map[string]uintptr{}}, nil
}

// has finds calls, and names the first that the library lacks.
func (l *library) has(names ...string) error {
	for _, n := range names {
		p, err := purego.Dlsym(l.handle, n)
		if err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		l.calls[n] = p
	}
	return nil
}

// call calls a function that has found. Arguments are numbers and unsafe.Pointers to
// what C reads or writes, which stays where it is until the call returns.
func (l *library) call(name string, args ...any) int {
	var pins runtime.Pinner
	defer pins.Unpin()
	words := make([]uintptr, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case unsafe.Pointer:
			pins.Pin(a)
			words[i] = uintptr(a)
		case int:
			words[i] = uintptr(a)
		case int32:
			words[i] = uintptr(a)
		case uint64:
			words[i] = uintptr(a)
		case uintptr:
			words[i] = a
		default:
			panic(fmt.Sprintf("%s: argument %d is a %T", name, i, a))
		}
	}
	r, _, _ := purego.SyscallN(l.calls[name], words...)
	return int(int32(r))
}

// at is a value's address as an argument.
func at[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }

// text reads the C string in a buffer.
func text(buffer []byte) string {
	s, _, _ := strings.Cut(string(buffer), "\x00")
	return s
}

// cudaCalls are the driver API that the workload uses: nothing newer than CUDA 11.4.
var cudaCalls = []string{
	"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
	"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDeviceGetPCIBusId",
	"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent", "cuCtxSynchronize",
	"cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload", "cuLaunchKernel",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
}

// openCUDA loads libcuda.so.1 and returns the file that the loader took.
func openCUDA() (*library, string, *smoke.Failure) {
	l, err := open(cudaName)
	if err != nil {
		f := &smoke.Failure{Step: smoke.Library, Cause: smoke.NotLoadable, Reason: err.Error()}
		if notFound(err.Error()) {
			f.Cause = smoke.NotFound
		}
		return nil, "", f
	}
	if err := l.has(cudaCalls...); err != nil {
		return nil, "", &smoke.Failure{Step: smoke.Library, Cause: smoke.NotLoadable, Reason: mapped("libcuda.so") + ": " + err.Error()}
	}
	return l, mapped("libcuda.so"), nil
}

// notFound tells a library that is not there from one that is no good, by the words
// of glibc's loader and of musl's. What a library needs and is not there is named in
// its own place.
func notFound(said string) bool {
	return strings.HasPrefix(said, cudaName+": cannot open shared object file: No such file") ||
		said == "Error loading shared library "+cudaName+": No such file or directory"
}

// mapped returns the file with that stem that is mapped into this process.
func mapped(stem string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.Contains(line[i:], "/"+stem) {
			return strings.TrimSpace(line[i:])
		}
	}
	return ""
}

// errorText asks the library for the name and the text of a code.
func (l *library) errorText(code int) string {
	words := fmt.Sprint(code)
	for _, call := range []string{"cuGetErrorName", "cuGetErrorString"} {
		p := new(*byte)
		if l.call(call, code, at(p)) == 0 && *p != nil {
			words += " " + cString(*p)
		}
	}
	return words
}

func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// failed is a call that gave a code. Two codes say that library and kernel module, or
// library and GPU, do not go together.
func (l *library) failed(step smoke.Step, call string, code int) *smoke.Failure {
	f := &smoke.Failure{Step: step, Cause: smoke.CUDAError, Code: code, Reason: call + ": " + l.errorText(code)}
	switch code {
	case 100:
		f.Cause = smoke.NoDevice
	case 803, 804:
		f.Cause = smoke.WrongVersion
	}
	return f
}
