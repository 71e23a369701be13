//go:build !gpu || !linux

package gpu

import "fmt"

// openDriver says that there is no way to load one. A program that can is linked to C's library, if without a compiler
// for C: others run everywhere.
func openDriver() (*driver, error) {
	return nil, fmt.Errorf("%w: this program was built without them; build it on Linux with -tags gpu", ErrNoCard)
}
