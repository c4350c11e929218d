// Lists NVIDIA's GPUs by NVML from a program that is linked with nothing: it opens
// the library by its name, as far as the C library in it can. go-nvml cannot, since
// the linker leaves its calls for the loader.
package main

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
// static int call(void *f) { return ((int (*)(void))f)(); }
// static int count(void *f, unsigned *n) { return ((int (*)(unsigned *))f)(n); }
// static int handle(void *f, unsigned i, void **d) { return ((int (*)(unsigned, void **))f)(i, d); }
// static int name(void *f, void *d, char *to, unsigned size) { return ((int (*)(void *, char *, unsigned))f)(d, to, size); }
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

func main() {
	runtime.LockOSThread() // dlerror(3) knows the errors of its own thread
	file := C.CString("libnvidia-ml.so.1")
	defer C.free(unsafe.Pointer(file))
	lib := C.dlopen(file, C.RTLD_NOW)
	if lib == nil {
		fmt.Println(C.GoString(C.dlerror()))
		os.Exit(1)
	}
	symbol := func(name string) unsafe.Pointer {
		s := C.CString(name)
		defer C.free(unsafe.Pointer(s))
		return C.dlsym(lib, s)
	}
	if code := C.call(symbol("nvmlInit_v2")); code != 0 {
		fmt.Println("nvmlInit_v2:", code)
		os.Exit(1)
	}
	var n C.uint
	C.count(symbol("nvmlDeviceGetCount_v2"), &n)
	for i := range n {
		var d unsafe.Pointer
		var text [96]C.char
		C.handle(symbol("nvmlDeviceGetHandleByIndex_v2"), i, &d)
		C.name(symbol("nvmlDeviceGetName"), d, &text[0], C.uint(len(text)))
		fmt.Println(i, C.GoString(&text[0]))
	}
}
