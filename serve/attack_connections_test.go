package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// One connection too many closes the one that has waited longest, and never one whose request is answered.
func TestAttackConnectionsOrder(t *testing.T) {
	t.Parallel()
	closed := 0
	c := newConnections(3, func() { closed++ })
	conns := make([]net.Conn, 6)
	ended := make([]bool, len(conns))
	for k := range conns {
		here, there := net.Pipe()
		conns[k] = here
		go func() { io.Copy(io.Discard, there); there.Close() }()
	}
	alive := func() (open string) {
		for k, conn := range conns {
			conn.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := conn.Write([]byte{0}); err != nil {
				ended[k] = true
			}
			if !ended[k] {
				open += fmt.Sprint(k)
			}
		}
		return open
	}
	c.changed(conns[0], http.StateNew)
	c.changed(conns[0], http.StateActive) // answers on
	c.changed(conns[1], http.StateNew)
	c.changed(conns[1], http.StateActive)
	c.changed(conns[2], http.StateNew)
	c.changed(conns[1], http.StateIdle) // waits, but not as long as the one before
	c.changed(conns[3], http.StateNew)
	if open := alive(); open != "01345" || closed != 1 {
		t.Errorf("after the fourth %s are open, %d were closed", open, closed)
	}
	c.changed(conns[2], http.StateClosed)
	c.changed(conns[1], http.StateActive)
	c.changed(conns[3], http.StateActive)
	c.changed(conns[4], http.StateNew) // all others are being answered
	if open := alive(); open != "0135" {
		t.Errorf("where none waits %s are open", open)
	}
	c.changed(conns[4], http.StateClosed)
	c.changed(conns[0], http.StateClosed)
	c.changed(conns[5], http.StateNew)
	if open := alive(); open != "0135" || len(c.all) != 3 || c.waiting.Len() != 1 {
		t.Errorf("after one has ended %s are open, %d are known", open, len(c.all))
	}
}

// Thousands of idle connections, slow headers, slow bodies and clients that never read cost bounded memory, and others
// are answered meanwhile.
func TestAttackConnections(t *testing.T) {
	v := newVictim(t, copyOf(t))
	host := strings.TrimPrefix(v.url, "http://")
	honest := func() time.Duration {
		t.Helper()
		began := time.Now()
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Post(
			v.url+"/api/v1/recommendations", "application/json", strings.NewReader(`{"node":"p1"}`))
		if err != nil {
			t.Errorf("an honest client: %v", err)
			return 0
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
			t.Errorf("an honest client: %d %v", answer.StatusCode, err)
		}
		return time.Since(began)
	}
	calm := v.calm()
	var conns []net.Conn
	dial := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Skipf("not checked: only %d connections can be made here, %v; raise the limit of open files (ulimit -n)",
				len(conns), err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Logf("closed before it could write: %v", err)
		}
		conns = append(conns, conn)
		return conn
	}
	const head = "Host: localhost\r\nContent-Type: application/json\r\n"
	const ask = "GET /healthz HTTP/1.1\r\n" + head + "\r\n" // then the connection may be idle for minutes
	idle := dial(ask)
	if answer, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || answer.StatusCode != 200 {
		t.Fatal(err)
	}
	for range 200 {
		dial("POST /api/v1/events HTTP/1.1\r\n" + head + "Content-Length: 4000000\r\n\r\n" +
			strings.Repeat(" ", 20_000))
		dial("POST /api/v1/events HTTP/1.1\r\n" + head + "Content-Length: 100\r\n\r\n{")
		dial(strings.Repeat("GET /openapi.json HTTP/1.1\r\n"+head+"\r\n", 100)) // and never reads
		dial("GET /healthz HTTP/1.1\r\nX-Slow: ")
	}
	for k := range maxConnections {
		dial(ask)
		if k%1000 == 999 {
			took := honest()
			for range 2 { // who is held up by other programs of this machine is not held up three times
				if took > time.Second+20*calm {
					took = honest()
				}
			}
			if took > time.Second+20*calm {
				t.Errorf("an honest client waited %v, %v before", took, calm)
			}
		}
	}
	idle.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, idle); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection that waited longest is still open")
	}
	for range 10 {
		honest()
	}
	if peak := v.peak(); peak > 300 {
		t.Errorf("%d connections took %d MB", len(conns), peak)
	}
	if _, text := v.get("/metrics"); !strings.Contains(text, "\nunseen_disconnected_total ") ||
		strings.Contains(text, "\nunseen_disconnected_total 0\n") {
		t.Error("no connection was closed to make room")
	}
	t.Logf("%d connections, %d MB", len(conns), v.peak())
}
