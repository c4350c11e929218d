package nvmllib_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
)

// library builds the C library, or skips where there is no compiler.
func library(t testing.TB) string {
	t.Helper()
	lib, err := nvmllib.Build(t.Context(), "")
	if errors.Is(err, nvmllib.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// onHost makes the state file of a host the one that the library reads.
func onHost(t testing.TB, state []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "nvml.state")
	replace(t, file, state)
	t.Setenv(nvmllib.StateEnv, file)
	return file
}

// replace writes a file in one step, as whoever keeps it up to date must.
func replace(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func profile(t testing.TB, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The C library, loaded by go-nvml as by any program, answers each call as
// nvmlfake does in process, on every shipped host.
func TestAnswersLikeNvmlfakeCallByCall(t *testing.T) {
	lib := library(t)
	calls := 0
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := profile(t, name)
			onHost(t, nvmllib.State(m))
			d := differ{t: t, seen: map[string]bool{}}
			d.libraries(nvml.New(nvml.WithLibraryPath(lib)), nvmlfake.New(m, nvmlfake.Options{}))
			calls += d.calls
		})
	}
	if calls < 20000 && !t.Failed() {
		t.Errorf("compared only %d calls; the walk no longer reaches what it should", calls)
	}
}

// Old MIG names, a pending mode and faults reach the C library too.
func TestAnswersLikeNvmlfakeWithOptions(t *testing.T) {
	lib := library(t)
	m := profile(t, "a100-mig-2g-3g")
	for _, tc := range []struct {
		name string
		opts nvmlfake.Options
	}{
		{"old MIG names", nvmlfake.Options{OldMIGNames: true}},
		{"a mode that changes with the next reset", nvmlfake.Options{PendingMIG: []int{0}}},
		{"one call fails", nvmlfake.Options{Fail: map[string]nvml.Return{"DeviceGetUUID": nvml.ERROR_UNKNOWN}}},
		{"one call fails on one GPU", nvmlfake.Options{Fail: map[string]nvml.Return{"DeviceGetName:0": nvml.ERROR_GPU_IS_LOST}}},
		{"every call fails on one GPU", nvmlfake.Options{Fail: map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST}}},
		{"every call fails on one GPU, one in its own way", nvmlfake.Options{Fail: map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST, "DeviceGetUUID:0": nvml.ERROR_TIMEOUT}}},
		{"the second form of a call does not have the fault of the first", nvmlfake.Options{Fail: map[string]nvml.Return{"DeviceGetMemoryInfo": nvml.ERROR_UNKNOWN}}},
		{"what is not modelled fails too", nvmlfake.Options{Fail: map[string]nvml.Return{"DeviceGetTemperature": nvml.ERROR_NO_PERMISSION}}},
		{"the library does not start", nvmlfake.Options{Fail: map[string]nvml.Return{"Init": nvml.ERROR_DRIVER_NOT_LOADED}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onHost(t, nvmllib.StateWith(m, tc.opts))
			d := differ{t: t, seen: map[string]bool{}}
			d.libraries(nvml.New(nvml.WithLibraryPath(lib)), nvmlfake.New(m, tc.opts))
		})
	}
}

// A differ calls everything on two libraries and follows the handles that come
// back.
type differ struct {
	t     *testing.T
	seen  map[string]bool
	calls int
}

func (d *differ) libraries(got, want nvml.Interface) {
	if g, w := got.Init(), want.Init(); g != w {
		d.t.Fatalf("Init() = %d, nvmlfake says %d", g, w)
	} else if w != nvml.SUCCESS {
		return
	}
	d.walk("nvml", got, want, reflect.TypeFor[nvml.Interface]())
	for _, call := range lookups(d.t, want) {
		d.compare(call.name, call.do(got), call.do(want))
	}
	if g, w := got.Shutdown(), want.Shutdown(); g != w {
		d.t.Errorf("Shutdown() = %d, nvmlfake says %d", g, w)
	}
}

// skipped are methods of nvml.Interface that start or stop the library, and
// those whose answer is not a matter of the host. Event sets are only of the C library.
var skipped = map[string]bool{"EventSetCreate": true, "Init": true, "InitWithFlags": true, "Shutdown": true, "ErrorString": true, "Extensions": true}

// walk calls every method that takes only numbers.
func (d *differ) walk(path string, got, want any, iface reflect.Type) {
	for m := range iface.Methods() {
		if skipped[m.Name] || !returns(m.Type) {
			continue
		}
		for _, args := range arguments(m.Type) {
			name := fmt.Sprintf("%s.%s%v", path, m.Name, args)
			d.compare(name, call(got, m.Name, args), call(want, m.Name, args))
		}
	}
}

func call(on any, method string, args []int) []reflect.Value {
	m := reflect.ValueOf(on).MethodByName(method)
	var in []reflect.Value
	for i, a := range args {
		in = append(in, reflect.ValueOf(a).Convert(m.Type().In(i)))
	}
	return m.Call(in)
}

// returns tells calls with a code from those that return a handler, which is
// not an answer yet.
func returns(m reflect.Type) bool {
	return m.NumOut() > 0 && m.Out(m.NumOut()-1) == reflect.TypeFor[nvml.Return]()
}

// arguments returns numbers to call a method with; none if it takes others.
func arguments(m reflect.Type) [][]int {
	for in := range m.Ins() {
		switch in.Kind() {
		case reflect.Int, reflect.Int32, reflect.Uint32, reflect.Uint:
		default:
			return nil
		}
	}
	switch m.NumIn() {
	case 0:
		return [][]int{nil}
	case 1:
		var out [][]int
		for n := range 20 {
			out = append(out, []int{n})
		}
		return append(out, []int{99})
	case 2:
		var out [][]int
		for n := range 10 {
			out = append(out, []int{n, 0}, []int{n, 1})
		}
		return out
	}
	return [][]int{make([]int, m.NumIn())}
}

// compare looks at the results of one call, and walks the handles among them.
func (d *differ) compare(name string, got, want []reflect.Value) {
	d.calls++
	last := len(want) - 1
	if g, w := got[last].Interface().(nvml.Return), want[last].Interface().(nvml.Return); g != w {
		d.t.Errorf("%s = %d, nvmlfake says %d", name, g, w)
		return
	} else if w != nvml.SUCCESS {
		return
	}
	for i := range last {
		d.value(fmt.Sprintf("%s[%d]", name, i), got[i], want[i])
	}
}

var handles = []reflect.Type{reflect.TypeFor[nvml.Device](), reflect.TypeFor[nvml.GpuInstance](), reflect.TypeFor[nvml.ComputeInstance]()}

func (d *differ) value(name string, got, want reflect.Value) {
	for _, h := range handles {
		if want.Type() == h {
			d.handle(name, got, want, h)
			return
		}
	}
	switch want.Kind() {
	case reflect.Slice:
		if got.Len() != want.Len() {
			d.t.Errorf("%s has %d elements, nvmlfake says %d", name, got.Len(), want.Len())
			return
		}
		for i := range want.Len() {
			d.value(fmt.Sprintf("%s[%d]", name, i), got.Index(i), want.Index(i))
		}
	case reflect.Struct:
		for i := range want.NumField() {
			if want.Type().Field(i).Name != "Version" { // which form was asked for, not a fact
				d.value(name+"."+want.Type().Field(i).Name, got.Field(i), want.Field(i))
			}
		}
	default:
		if !reflect.DeepEqual(got.Interface(), want.Interface()) {
			d.t.Errorf("%s = %v, nvmlfake says %v", name, got.Interface(), want.Interface())
		}
	}
}

// handle walks a handle the first time that it comes up.
func (d *differ) handle(name string, got, want reflect.Value, iface reflect.Type) {
	key := fmt.Sprintf("%p", want.Interface())
	if d.seen[key] {
		return
	}
	d.seen[key] = true
	d.walk(name, got.Interface(), want.Interface(), iface)
	for _, c := range ofHandle(want.Interface()) {
		d.compare(name+"."+c.name, c.do(got.Interface()), c.do(want.Interface()))
	}
}
