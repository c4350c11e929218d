package workload

import (
	_ "embed"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"gpurig/runner/smoke"
)

// ptx is for any GPU since Maxwell, and for any driver since CUDA 9.
//
//go:embed kernels.ptx
var ptx []byte

// Elements of each vector: no multiple of a block, so that the last one is not full.
const (
	elements = 2051
	block    = 256
	blocks   = (elements + block - 1) / block
)

// kernels runs all kernels on one device.
func (l *library) kernels(i int, r *smoke.Result) *smoke.Failure {
	dev, ctx, module := new(int32), new(uintptr), new(uintptr)
	call := func(name string, args ...any) *smoke.Failure {
		if code := l.call(name, args...); code != 0 {
			return l.failed(smoke.Kernels, fmt.Sprintf("%s on device %d", name, i), code)
		}
		return nil
	}
	if f := call("cuDeviceGet", at(dev), i); f != nil {
		return f
	}
	if f := call("cuDevicePrimaryCtxRetain", at(ctx), *dev); f != nil {
		return f
	}
	defer l.call("cuDevicePrimaryCtxRelease_v2", *dev)
	if f := call("cuCtxSetCurrent", *ctx); f != nil {
		return f
	}
	image := append(ptx[:len(ptx):len(ptx)], 0)
	if f := call("cuModuleLoadData", at(module), at(&image[0])); f != nil {
		return f
	}
	defer l.call("cuModuleUnload", *module)
	for _, k := range workloads() {
		g := gpu{library: l, device: i, module: *module}
		got := g.run(k)
		if g.failure != nil {
			return g.failure
		}
		result := k.check(got)
		r.Kernels = append(r.Kernels, smoke.Kernel{Device: i, Name: k.name, Elements: elements, Result: result})
		if result != smoke.Pass {
			return &smoke.Failure{Step: smoke.Kernels, Cause: smoke.WrongResult, Reason: fmt.Sprintf("%s on device %d: %s", k.name, i, result)}
		}
	}
	return nil
}

// A kernel is an entry of the PTX text: its parameters, and what the CPU says of it.
// All vectors are of 32-bit words.
type kernel struct {
	name   string
	out    []uint32   // first parameter; before the launch
	in     [][]uint32 // the next ones
	scalar []uint32   // the last ones
	want   []uint32   // out after the launch
}

func (k *kernel) check(got []uint32) string {
	for i, w := range k.want {
		if got[i] != w {
			return fmt.Sprintf("element %d of %d is %#08x; want %#08x", i, len(k.want), got[i], w)
		}
	}
	return smoke.Pass
}

// workloads returns the kernels with their input. The products and sums of saxpy are
// exact, fused or not, so that one answer is right.
func workloads() []kernel {
	a, b, x, y := make([]uint32, elements), make([]uint32, elements), make([]uint32, elements), make([]uint32, elements)
	sum, fused, total := make([]uint32, elements), make([]uint32, elements), make([]uint32, blocks)
	numbers := make([]uint32, elements)
	const factor = float32(2.5)
	for i := range elements {
		p, q := float32(i)*0.1, float32(elements-i)/3
		a[i], b[i], sum[i] = math.Float32bits(p), math.Float32bits(q), math.Float32bits(p+q)
		u, v := float32(i%1021)/4, float32(i%509)-254
		x[i], y[i], fused[i] = math.Float32bits(u), math.Float32bits(v), math.Float32bits(factor*u+v)
		numbers[i] = uint32(i)*2654435761 + 12345
		total[i/block] += numbers[i]
	}
	n := uint32(elements)
	return []kernel{
		{name: "vadd", out: make([]uint32, elements), in: [][]uint32{a, b}, scalar: []uint32{n}, want: sum},
		{name: "saxpy", out: y, in: [][]uint32{x}, scalar: []uint32{math.Float32bits(factor), n}, want: fused},
		{name: "reduce", out: make([]uint32, blocks), in: [][]uint32{numbers}, scalar: []uint32{n}, want: total},
	}
}

// A gpu runs one kernel and keeps the first failure.
type gpu struct {
	*library
	device  int
	module  uintptr
	memory  []uint64 // to be freed
	failure *smoke.Failure
}

func (g *gpu) do(name string, args ...any) {
	if g.failure != nil {
		return
	}
	if code := g.call(name, args...); code != 0 {
		g.failure = g.failed(smoke.Kernels, fmt.Sprintf("%s on device %d", name, g.device), code)
	}
}

// upload puts words into memory of the device.
func (g *gpu) upload(words []uint32) uint64 {
	addr := new(uint64)
	g.do("cuMemAlloc_v2", at(addr), 4*len(words))
	if g.failure == nil {
		g.memory = append(g.memory, *addr)
	}
	g.do("cuMemcpyHtoD_v2", *addr, at(&words[0]), 4*len(words))
	return *addr
}

func (g *gpu) run(k kernel) []uint32 {
	defer func() {
		for _, addr := range g.memory {
			g.call("cuMemFree_v2", addr)
		}
	}()
	function := new(uintptr)
	name := append([]byte(k.name), 0)
	g.do("cuModuleGetFunction", at(function), g.module, at(&name[0]))
	params := []uint64{g.upload(k.out)}
	for _, v := range k.in {
		params = append(params, g.upload(v))
	}
	for _, s := range k.scalar {
		params = append(params, uint64(s)) // the driver takes as many bytes as the parameter has
	}
	g.launch(*function, params)
	g.do("cuCtxSynchronize")
	got := make([]uint32, len(k.out))
	g.do("cuMemcpyDtoH_v2", at(&got[0]), params[0], 4*len(got))
	return got
}

// launch hands over an array with the address of each parameter.
func (g *gpu) launch(function uintptr, params []uint64) {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&params[0])
	list := make([]unsafe.Pointer, len(params))
	for i := range params {
		list[i] = unsafe.Pointer(&params[i])
	}
	pinned.Pin(&list[0])
	g.do("cuLaunchKernel", function, blocks, 1, 1, block, 1, 1, 0, 0, at(&list[0]), 0)
}
