package safetensors

import (
	"fmt"

	"unseen/internal/atomicfile"
)

// Save writes the file such that a reader always finds the old content or the new: into a temporary file in
// the same folder, which is synced, renamed and its folder synced. When it fails, the old file is unchanged
// and the temporary one is removed. The next Save removes what a killed one left.
func (f *Contents) Save(path string) error {
	write, err := f.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Write(path, write)
}

// Tensor returns the tensor of a name, if there is one.
func (f *Contents) Tensor(name string) (Array, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Array{}, false
}
