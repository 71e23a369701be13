package gpu

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ErrNoCard: there is no card that can be used.
var ErrNoCard = errors.New("no graphics card")

// driver is what is used of NVIDIA's driver, libcuda: a function per call, so that tests can stand in for it. All return
// a code that is 0 where nothing went wrong.
type driver struct {
	cuInit                       func(flags uint32) int32
	cuGetErrorString             func(code int32, text *uintptr) int32
	cuDriverGetVersion           func(version *int32) int32
	cuDeviceGetCount             func(count *int32) int32
	cuDeviceGet                  func(device *int32, ordinal int32) int32
	cuDeviceGetName              func(name *byte, size int32, device int32) int32
	cuDeviceGetAttribute         func(value *int32, attribute, device int32) int32
	cuDeviceTotalMem_v2          func(bytes *uint64, device int32) int32
	cuMemGetInfo_v2              func(free, total *uint64) int32
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
	cuLaunchKernel               func(function uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32,
		stream uintptr, arguments, extra unsafe.Pointer) int32
	cuTensorMapEncodeTiled func(to unsafe.Pointer, kind, rank uint32, address uint64, sizes, strides *uint64, box,
		steps *uint32, interleave, swizzle, promotion, fill uint32) int32
}

// The names that libcuda goes by.
var libraries = map[string][]string{"linux": {"libcuda.so.1", "libcuda.so"}}

// openDriver loads the driver.
func openDriver() (*driver, error) {
	names := libraries[runtime.GOOS]
	if names == nil {
		return nil, fmt.Errorf("%w: on %s none can be used; leave the device to the processor", ErrNoCard, runtime.GOOS)
	}
	var library uintptr
	var err error
	for _, name := range names {
		if library, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: NVIDIA's driver (%s) is not installed", ErrNoCard, names[0])
	}
	d := &driver{}
	for name, function := range d.functions() {
		if _, err := purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("%w: NVIDIA's driver is too old: it has no %s; install version 525 or later",
				ErrNoCard, name)
		}
		purego.RegisterLibFunc(function, library, name)
	}
	if code := d.cuInit(0); code != 0 {
		return nil, fmt.Errorf("%w: NVIDIA's driver does not start: %w", ErrNoCard, d.failure("cuInit", code))
	}
	return d, nil
}

// functions lists what is loaded, by name.
func (d *driver) functions() map[string]any {
	return map[string]any{
		"cuInit": &d.cuInit, "cuGetErrorString": &d.cuGetErrorString, "cuDriverGetVersion": &d.cuDriverGetVersion,
		"cuDeviceGetCount": &d.cuDeviceGetCount, "cuDeviceGet": &d.cuDeviceGet, "cuDeviceGetName": &d.cuDeviceGetName,
		"cuDeviceGetAttribute": &d.cuDeviceGetAttribute, "cuDeviceTotalMem_v2": &d.cuDeviceTotalMem_v2,
		"cuMemGetInfo_v2":              &d.cuMemGetInfo_v2,
		"cuDevicePrimaryCtxRetain":     &d.cuDevicePrimaryCtxRetain,
		"cuDevicePrimaryCtxRelease_v2": &d.cuDevicePrimaryCtxRelease_v2,
		"cuCtxSetCurrent":              &d.cuCtxSetCurrent, "cuCtxSynchronize": &d.cuCtxSynchronize,
		"cuModuleLoadData": &d.cuModuleLoadData, "cuModuleUnload": &d.cuModuleUnload,
		"cuModuleGetFunction": &d.cuModuleGetFunction, "cuFuncSetAttribute": &d.cuFuncSetAttribute,
		"cuMemAlloc_v2": &d.cuMemAlloc_v2, "cuMemFree_v2": &d.cuMemFree_v2, "cuMemcpyHtoD_v2": &d.cuMemcpyHtoD_v2,
		"cuMemcpyDtoH_v2": &d.cuMemcpyDtoH_v2, "cuMemsetD8_v2": &d.cuMemsetD8_v2, "cuLaunchKernel": &d.cuLaunchKernel,
		"cuTensorMapEncodeTiled": &d.cuTensorMapEncodeTiled,
	}
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
