//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

// Package postgrestest gives tests a PostgreSQL server of their own on loopback, to be stopped and killed as they like.
//
//	func TestMain(m *testing.M) { code := m.Run(); postgrestest.Close(); os.Exit(code) }
//
//	url := postgrestest.Database(t) // an empty database; the test is skipped where PostgreSQL is absent
//	server := postgrestest.Shared(t)
//	server.Crash()
//	server.Start(t)
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server of the tests' own, on loopback, in a temporary folder. All tests share one, each
// with its own database; a test that stops it starts it again.
type Server struct {
	bin, folder string
	port        int
	credential  *syscall.Credential // PostgreSQL refuses to run as root
	cmd         *exec.Cmd
	durable     bool // syncs to disk: measurements need it; a killed process loses nothing without it
	running     bool
	alive       io.Closer // the server ends when this closes, so also when the tests die
	absent      string    // why there is none
}

var (
	sharing   sync.Mutex // of shared
	shared    *Server
	databases atomic.Int32
)

// Database returns the address of an empty database. Without PostgreSQL the test is skipped.
func Database(t testing.TB) string {
	t.Helper()
	s := Shared(t)
	name := fmt.Sprint("test", databases.Add(1))
	connection, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(context.Background())
	if _, err := connection.Exec(t.Context(), `CREATE DATABASE `+name); err != nil {
		t.Fatal(err)
	}
	return s.URL(name)
}

// Program is the path of one of PostgreSQL's programs, such as psql.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Shared(t).bin, name)
}

// Shared returns the server that all tests of a package share. Without PostgreSQL the test is skipped.
func Shared(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil {
		shared = newServer(t)
	}
	if shared.absent != "" {
		t.Skip(shared.absent)
	}
	return shared
}

// Close ends the shared server and removes what it wrote; TestMain calls it.
func Close() {
	if shared == nil || shared.folder == "" {
		return
	}
	shared.Crash()
	for range 100 { // what was killed may write for a moment yet
		if os.RemoveAll(shared.folder) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func newServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	_, s.durable = t.(*testing.B)
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		s.absent = "PostgreSQL is absent: no initdb in the PATH or in /usr/lib/postgresql/*/bin"
		return s
	}
	program, err := filepath.EvalSymlinks(found[len(found)-1]) // the others lie beside it, not beside a link to it
	if err != nil {
		t.Fatal(err)
	}
	s.bin = filepath.Dir(program)
	if s.folder, err = os.MkdirTemp("", "unseen-postgres-"); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := s.demote(); err != nil {
			s.absent = err.Error()
			return s
		}
	}
	if out, err := s.command("initdb", "--no-sync", "--auth=trust", "--username=unseen", "--encoding=UTF8",
		"--locale=C", s.data()).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	s.Start(t)
	return s
}

// demote finds a user other than root and gives it the folder.
func (s *Server) demote() error {
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(s.folder, int(uid), int(gid))
	}
	return errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// URL is the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://unseen@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

func (s *Server) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), arguments...)
	cmd.Dir = s.folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	return cmd
}

// Start returns when the server answers. After a crash the processes of the last one may take a moment to go.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		s.launch(t)
		exited := make(chan struct{})
		go func(cmd *exec.Cmd) { cmd.Wait(); close(exited) }(s.cmd)
	waiting:
		for {
			connection, err := pgx.Connect(context.Background(), s.URL("postgres"))
			if err == nil {
				connection.Close(context.Background())
				s.running = true
				return
			}
			if time.Now().After(deadline) {
				said, _ := os.ReadFile(filepath.Join(s.folder, "log"))
				t.Fatalf("PostgreSQL does not start: %v\n%s", err, said)
			}
			select {
			case <-exited:
				time.Sleep(50 * time.Millisecond)
				break waiting
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

func (s *Server) launch(t testing.TB) {
	t.Helper()
	output, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	s.alive = write
	// The shell waits for the end of its input, which comes when the tests are gone, and takes the server along.
	s.cmd = s.command("postgres", "-D", s.data(), "-p", fmt.Sprint(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=60", "-c", "shared_buffers=16MB",
		"-c", fmt.Sprint("fsync=", s.durable))
	s.cmd.Args = append([]string{"sh", "-c",
		`"$@" </dev/null & server=$!; (cat >/dev/null; kill -QUIT $server 2>/dev/null) <&3 & wait $server`, "sh"},
		append([]string{s.cmd.Path}, s.cmd.Args[1:]...)...)
	s.cmd.Path = "/bin/sh"
	s.cmd.ExtraFiles = []*os.File{read}
	s.cmd.Stdout, s.cmd.Stderr = output, output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// Stop shuts the server down in order.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if out, err := s.command("pg_ctl", "stop", "-D", s.data(), "-m", "fast", "-w").CombinedOutput(); err != nil {
		t.Fatalf("pg_ctl stop: %v\n%s", err, out)
	}
	s.running = false
	s.alive.Close()
}

// Running tells whether the server was started and not ended since.
func (s *Server) Running() bool { return s.running }

// Crash kills the server and, where the system tells who they are, all its processes at once.
func (s *Server) Crash() {
	if s.alive == nil || !s.running {
		return // the number in the file may by now be somebody else's
	}
	s.Signal(syscall.SIGKILL)
	s.running = false
	s.alive.Close()
}

// Signal sends a signal to the server, then to the processes it has started.
func (s *Server) Signal(signal syscall.Signal) {
	content, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(content), "\n")
	processes := []string{line}
	if children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", line, line)); err == nil {
		processes = append(processes, strings.Fields(string(children))...)
	}
	for _, text := range processes {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			syscall.Kill(pid, signal)
		}
	}
}
