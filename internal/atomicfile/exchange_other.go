//go:build !linux && !darwin

package atomicfile

// exchange cannot swap names in one step here.
func exchange(a, b string) error { return errNoExchange }
