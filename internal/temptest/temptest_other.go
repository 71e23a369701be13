//go:build !linux

package temptest

func roomy(string) bool { return false }
