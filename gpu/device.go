package gpu

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// Device is a graphics card. It may be used by many goroutines, which take turns.
type Device struct {
	// Name is what the maker calls it.
	Name string
	// Capability is its generation, such as 90 for Hopper.
	Capability int
	// Memory is how many bytes it has.
	Memory uint64
	// Driver is the version of CUDA that the driver knows, such as 13.0.
	Driver string

	driver     *driver
	number     int32
	context    uintptr
	processors int // multiprocessors
	mu         sync.Mutex
	modules    []uintptr
	kernels    map[kernelName]uintptr
	spare      []*array // memory that was given back and is kept for the next that needs as much
	closed     bool
}

// hopper is the generation with kernels of its own.
const hopper = 90

// Numbers of the driver's interface.
const (
	attributeProcessors   = 16
	attributeMajor        = 75
	attributeMinor        = 76
	functionDynamicShared = 8
	codeFull              = 2
)

// errFull is of a card that has no room left.
var errFull = errors.New("the card's memory is full")

// Open opens a card by its number, from 0 on.
func Open(ordinal int) (*Device, error) {
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	return open(d, ordinal)
}

func open(d *driver, ordinal int) (*Device, error) {
	var count, version, major, minor, processors int32
	if code := d.cuDeviceGetCount(&count); code != 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoCard, d.failure("cuDeviceGetCount", code))
	}
	if ordinal < 0 || ordinal >= int(count) {
		return nil, fmt.Errorf("%w of number %d: there are %d, numbered from 0", ErrNoCard, ordinal, count)
	}
	out := &Device{driver: d, kernels: map[kernelName]uintptr{}}
	name := make([]byte, 256)
	for _, step := range []struct {
		call string
		code func() int32
	}{
		{"cuDeviceGet", func() int32 { return d.cuDeviceGet(&out.number, int32(ordinal)) }},
		{"cuDeviceGetName", func() int32 { return d.cuDeviceGetName(&name[0], int32(len(name)), out.number) }},
		{"cuDeviceGetAttribute", func() int32 { return d.cuDeviceGetAttribute(&major, attributeMajor, out.number) }},
		{"cuDeviceGetAttribute", func() int32 { return d.cuDeviceGetAttribute(&minor, attributeMinor, out.number) }},
		{"cuDeviceGetAttribute", func() int32 {
			return d.cuDeviceGetAttribute(&processors, attributeProcessors, out.number)
		}},
		{"cuDeviceTotalMem", func() int32 { return d.cuDeviceTotalMem_v2(&out.Memory, out.number) }},
		{"cuDriverGetVersion", func() int32 { return d.cuDriverGetVersion(&version) }},
		{"cuDevicePrimaryCtxRetain", func() int32 { return d.cuDevicePrimaryCtxRetain(&out.context, out.number) }},
	} {
		if code := step.code(); code != 0 {
			return nil, fmt.Errorf("card %d cannot be used: %w", ordinal, d.failure(step.call, code))
		}
	}
	out.Name = string(name[:max(bytes.IndexByte(name, 0), 0)])
	out.Capability, out.processors = int(10*major+minor), int(processors)
	out.Driver = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	if out.Capability < leastCapability {
		out.Close()
		return nil, fmt.Errorf("%w: %s is of generation %d.%d; %d.%d is the least", ErrNoCard, out.Name, major, minor,
			leastCapability/10, leastCapability%10)
	}
	return out, nil
}

// Tried reports whether the kernels were run and measured on a card of this generation.
func (d *Device) Tried() bool { return d.Capability == hopper }

// Close gives the card back.
func (d *Device) Close() error {
	if err := d.do(func() error {
		d.closed = true
		d.trim()
		for _, m := range d.modules {
			d.driver.cuModuleUnload(m)
		}
		return d.check("cuDevicePrimaryCtxRelease", d.driver.cuDevicePrimaryCtxRelease_v2(d.number))
	}); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// do runs calls of the driver one after the other, on a thread that belongs to the card.
func (d *Device) do(calls func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("%s: %w", d.Name, ErrClosed)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("cuCtxSetCurrent", d.driver.cuCtxSetCurrent(d.context)); err != nil {
		return err
	}
	return calls()
}

// check makes an error of a code.
func (d *Device) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", d.Name, d.driver.failure(call, code))
}

// kernelName is the name of a kernel in one of the images: these have some in common.
type kernelName struct{ image, name string }

// load makes the kernels of an image known by their names, if they are not yet.
func (d *Device) load(image string, packed []byte, names ...string) error {
	if _, known := d.kernels[kernelName{image, names[0]}]; known {
		return nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("the kernels of this program are damaged: %w; build it again", err)
	}
	code, err := io.ReadAll(unpacked)
	if err != nil {
		return fmt.Errorf("the kernels of this program are damaged: %w; build it again", err)
	}
	var module uintptr
	code = append(code, 0) // a text ends so
	if err := d.check("cuModuleLoadData", d.driver.cuModuleLoadData(&module, unsafe.Pointer(&code[0]))); err != nil {
		return err
	}
	d.modules = append(d.modules, module)
	for _, name := range names {
		var function uintptr
		text := append([]byte(name), 0)
		if err := d.check("cuModuleGetFunction "+name,
			d.driver.cuModuleGetFunction(&function, module, &text[0])); err != nil {
			return err
		}
		d.kernels[kernelName{image, name}] = function
	}
	return nil
}

// array is memory of a card.
type array struct {
	device  *Device
	address uint64
	bytes   uint64
}

// allocate takes memory of the card.
func (d *Device) allocate(bytes uint64) (*array, error) {
	if at := slices.IndexFunc(d.spare, func(a *array) bool { return a.bytes >= bytes && a.bytes/2 <= bytes }); at >= 0 {
		a := d.spare[at]
		d.spare = slices.Delete(d.spare, at, at+1)
		return a, nil
	}
	a := &array{device: d, bytes: bytes}
	code := d.driver.cuMemAlloc_v2(&a.address, max(bytes, 1))
	if code != 0 && len(d.spare) > 0 {
		d.trim()
		code = d.driver.cuMemAlloc_v2(&a.address, max(bytes, 1))
	}
	err := d.check(fmt.Sprintf("cuMemAlloc of %d bytes", bytes), code)
	switch {
	case code == codeFull:
		return nil, fmt.Errorf("%w: %w", errFull, err)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// trim gives back what is kept.
func (d *Device) trim() {
	for _, a := range d.spare {
		a.free()
	}
	d.spare = nil
}

// free gives it back.
func (a *array) free() {
	if a != nil && a.address != 0 {
		a.device.driver.cuMemFree_v2(a.address)
		a.address = 0
	}
}

// spared keeps it for the next that needs as much, if it is large: taking and giving back takes time.
func (a *array) spared() {
	const large = 1 << 20
	if a.bytes < large {
		a.free()
		return
	}
	a.device.spare = append(a.device.spare, &array{a.device, a.address, a.bytes})
	a.address = 0
}

// put copies values to the card, at a place that is counted in bytes.
func put[T any](a *array, at uint64, values []T) error {
	if len(values) == 0 {
		return nil
	}
	var one T
	size := uint64(len(values)) * uint64(unsafe.Sizeof(one))
	if at+size > a.bytes {
		panic(fmt.Sprintf("gpu: %d bytes at %d of %d", size, at, a.bytes))
	}
	return a.device.check("cuMemcpyHtoD", a.device.driver.cuMemcpyHtoD_v2(a.address+at, unsafe.Pointer(&values[0]),
		size))
}

// get copies values from the card.
func get[T any](a *array, values []T) error {
	var one T
	size := uint64(len(values)) * uint64(unsafe.Sizeof(one))
	if size > a.bytes {
		panic(fmt.Sprintf("gpu: %d bytes of %d", size, a.bytes))
	}
	return a.device.check("cuMemcpyDtoH", a.device.driver.cuMemcpyDtoH_v2(unsafe.Pointer(&values[0]), a.address,
		size))
}

// fill sets every byte.
func (a *array) fill(value uint8) error {
	return a.device.check("cuMemsetD8", a.device.driver.cuMemsetD8_v2(a.address, value, a.bytes))
}

// launch runs a kernel and waits for it.
func (d *Device) launch(k *kernel, arguments []unsafe.Pointer) error {
	function := d.kernels[k.kernelName]
	if k.shared > 0 {
		if err := d.check("cuFuncSetAttribute", d.driver.cuFuncSetAttribute(function, functionDynamicShared,
			int32(k.shared))); err != nil {
			return err
		}
	}
	if err := d.check("cuLaunchKernel "+k.name, d.driver.launch(launching{function, uint32(k.blocks),
		uint32(k.threads), uint32(k.shared), arguments})); err != nil {
		return err
	}
	return d.check(k.name, d.driver.cuCtxSynchronize())
}
