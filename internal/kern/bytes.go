package kern

import (
	"fmt"
	"os"
)

// MapBytes maps a whole file to be read, and returns its bytes and what lets go of them. Pages are read when
// they are touched; the file must not shrink meanwhile, and may be closed. An empty file has no bytes.
func MapBytes(file *os.File) ([]byte, func() error, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	size := int(info.Size())
	if int64(size) != info.Size() {
		return nil, nil, fmt.Errorf("%w: %d bytes of %s", ErrSize, info.Size(), file.Name())
	}
	if size == 0 {
		return nil, func() error { return nil }, nil
	}
	bytes, err := mapFile(file, size)
	if err != nil {
		return nil, nil, fmt.Errorf("kern: cannot map %s: %w", file.Name(), err)
	}
	return bytes, func() error { return unmap(bytes) }, nil
}
