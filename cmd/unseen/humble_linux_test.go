package main

import (
	"os"
	"syscall"
	"testing"
)

// humble gives a folder to nobody where the test runs as root, which PostgreSQL does not, and says how to run as nobody.
func humble(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skipf("not checked against PostgreSQL: it does not run as root, and no other user can be used: %v", err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
