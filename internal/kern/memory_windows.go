package kern

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// views holds the addresses that came from MapViewOfFile; the others came from VirtualAlloc, and
// each is given back by the call that fits.
var views sync.Map

func mapAnonymous(size int) ([]byte, error) {
	address, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_COMMIT|windows.MEM_RESERVE,
		windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return bytesAt(address, size), nil
}

func mapFile(file *os.File, size int) ([]byte, error) {
	object, err := windows.CreateFileMapping(windows.Handle(file.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(object)
	address, err := windows.MapViewOfFile(object, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	views.Store(address, true)
	return bytesAt(address, size), nil
}

// bytesAt reads the address through a pointer to it: it belongs to the operating system, not to
// the collector, so it is never moved.
func bytesAt(address uintptr, size int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size)
}

func unmap(bytes []byte) error {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	if _, mapped := views.LoadAndDelete(address); mapped {
		return windows.UnmapViewOfFile(address)
	}
	return windows.VirtualFree(address, 0, windows.MEM_RELEASE)
}
