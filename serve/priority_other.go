//go:build !linux

package serve

// lowerPriority does nothing: threads have no priority of their own here.
func lowerPriority() {}
