// Package racetest keeps tests out of the race detector that it can find nothing in.
//
// The detector makes numerical loops ten times as slow. It is for what runs at the same time, and a test whose own
// goroutines are those of another test, with more numbers, has nothing new for it.
package racetest

import "testing"

// Skip skips a test under the race detector. The reason says which test lets the detector see the same goroutines.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if Enabled {
		t.Skip("too slow for the race detector; " + reason)
	}
}
