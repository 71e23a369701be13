//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package postgrestest

import "testing"

// Database skips the test.
func Database(t testing.TB) string {
	t.Skip("the tests can start no PostgreSQL server on this system; ./check runs them on Linux")
	return ""
}

// Close has nothing to end.
func Close() {}

// Program skips the test.
func Program(t testing.TB, _ string) string {
	t.Skip("the tests can start no PostgreSQL server on this system; ./check runs them on Linux")
	return ""
}
