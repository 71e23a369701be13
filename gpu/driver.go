package gpu

import (
	"errors"
	"fmt"
	"unsafe"
)

// Errors of this package wrap one of these, or one of package engine.
var (
	ErrNoCard = errors.New("no graphics card")
	ErrClosed = errors.New("the card is closed")
)

// driver is what is used of NVIDIA's driver, libcuda: a function per call, so that tests can stand in for it. All
// return a code that is 0 where nothing went wrong.
type driver struct {
	cuInit                       func(flags uint32) int32
	cuGetErrorString             func(code int32, text *uintptr) int32
	cuDriverGetVersion           func(version *int32) int32
	cuDeviceGetCount             func(count *int32) int32
	cuDeviceGet                  func(device *int32, ordinal int32) int32
	cuDeviceGetName              func(name *byte, size int32, device int32) int32
	cuDeviceGetAttribute         func(value *int32, attribute, device int32) int32
	cuDeviceTotalMem_v2          func(bytes *uint64, device int32) int32
	cuDevicePrimaryCtxRetain     func(context *uintptr, device int32) int32
	cuDevicePrimaryCtxRelease_v2 func(device int32) int32
	cuCtxSetCurrent              func(context uintptr) int32
	cuCtxSynchronize             func() int32
	cuModuleLoadData             func(module *uintptr, image unsafe.Pointer) int32
	cuModuleUnload               func(module uintptr) int32
	cuModuleGetFunction          func(function *uintptr, module uintptr, name *byte) int32
	cuFuncSetAttribute           func(function uintptr, attribute, value int32) int32
	cuMemAlloc_v2                func(address *uint64, bytes uint64) int32
	cuMemFree_v2                 func(address uint64) int32
	cuMemcpyHtoD_v2              func(to uint64, from unsafe.Pointer, bytes uint64) int32
	cuMemcpyDtoH_v2              func(to unsafe.Pointer, from uint64, bytes uint64) int32
	cuMemsetD8_v2                func(to uint64, value uint8, bytes uint64) int32
	// cuLaunchKernel and cuTensorMapEncodeTiled, which take many arguments
	launch func(l launching) int32
	encode func(m mapping) int32
}

// launching is what a kernel is started with.
type launching struct {
	function                uintptr
	blocks, threads, shared uint32
	arguments               []unsafe.Pointer
}

// mapping describes rows of 16 bits to the copy engine, to be fetched in boxes.
type mapping struct {
	to             unsafe.Pointer
	kind           uint32
	address        uint64
	rows, dim      uint32
	boxRows, boxOf uint32
}

// failure is the driver's word for a code.
func (d *driver) failure(call string, code int32) error {
	var text uintptr
	if d.cuGetErrorString(code, &text) != 0 || text == 0 {
		return fmt.Errorf("%s: error %d", call, code)
	}
	return fmt.Errorf("%s: %s (error %d)", call, textAt(text), code)
}

// textAt reads a text of C's.
func textAt(address uintptr) string {
	start := *(*unsafe.Pointer)(unsafe.Pointer(&address)) // the driver's memory, not Go's
	return string(unsafe.Slice((*byte)(start), lengthAt(start)))
}

func lengthAt(start unsafe.Pointer) (n int) {
	const most = 1000
	for n < most && *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return n
}
