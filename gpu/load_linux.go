//go:build gpu

package gpu

import (
	"fmt"

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
	d := &driver{}
	for name, function := range d.functions() {
		if _, err := purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("%w: NVIDIA's driver is too old: it has no %s; install version 525 or later",
				ErrNoCard, name)
		}
		purego.RegisterLibFunc(function, library, name)
	}
	d.shorten()
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
