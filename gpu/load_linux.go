//go:build gpu

package gpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The names that libcuda goes by.
var libraries = []string{"libcuda.so.1", "libcuda.so"}

// openDriver loads the driver.
func openDriver() (*driver, error) {
	var library uintptr
	var err error
	for _, name := range libraries {
		if library, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: NVIDIA's driver (%s) is not installed", ErrNoCard, libraries[0])
	}
	d, long := &driver{}, &longCalls{}
	functions := d.functions()
	functions["cuLaunchKernel"], functions["cuTensorMapEncodeTiled"] = &long.launch, &long.encode
	d.launch, d.encode = long.shortLaunch, long.shortEncode
	for name, function := range functions {
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
		"cuDevicePrimaryCtxRetain":     &d.cuDevicePrimaryCtxRetain,
		"cuDevicePrimaryCtxRelease_v2": &d.cuDevicePrimaryCtxRelease_v2,
		"cuCtxSetCurrent":              &d.cuCtxSetCurrent, "cuCtxSynchronize": &d.cuCtxSynchronize,
		"cuModuleLoadData": &d.cuModuleLoadData, "cuModuleUnload": &d.cuModuleUnload,
		"cuModuleGetFunction": &d.cuModuleGetFunction, "cuFuncSetAttribute": &d.cuFuncSetAttribute,
		"cuMemAlloc_v2": &d.cuMemAlloc_v2, "cuMemFree_v2": &d.cuMemFree_v2, "cuMemcpyHtoD_v2": &d.cuMemcpyHtoD_v2,
		"cuMemcpyDtoH_v2": &d.cuMemcpyDtoH_v2, "cuMemsetD8_v2": &d.cuMemsetD8_v2,
	}
}

// longCalls are those of many arguments.
type longCalls struct {
	launch func(function uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream uintptr,
		arguments, extra unsafe.Pointer) int32
	encode func(to unsafe.Pointer, kind, rank uint32, address uint64, sizes, strides *uint64, box, steps *uint32,
		interleave, swizzle, promotion, fill uint32) int32
}

func (c *longCalls) shortLaunch(l launching) int32 {
	code := c.launch(l.function, l.blocks, 1, 1, l.threads, 1, 1, l.shared, 0, unsafe.Pointer(&l.arguments[0]), nil)
	runtime.KeepAlive(l)
	return code
}

// Numbers of the driver's interface.
const (
	swizzle128 = 3
	promote256 = 3
)

func (c *longCalls) shortEncode(m mapping) int32 {
	sizes, strides := [2]uint64{uint64(m.dim), uint64(m.rows)}, [1]uint64{uint64(m.dim) * 2}
	box, steps := [2]uint32{m.boxOf, m.boxRows}, [2]uint32{1, 1}
	return c.encode(m.to, m.kind, 2, m.address, &sizes[0], &strides[0], &box[0], &steps[0], 0, swizzle128, promote256,
		0)
}
