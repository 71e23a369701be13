//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package store_test

import "testing"

func newDatabase(t testing.TB) string {
	t.Skip("the tests can start no PostgreSQL server on this system")
	return ""
}

func stopServers() {}
