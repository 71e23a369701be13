package serve

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many clients are connected at a time. One too many closes the connection that has waited
// longest without a request, so that neither idle clients nor slow headers keep others out; where none waits, it is
// closed itself.
type connections struct {
	most   int
	closed func() // called for each that is closed

	mu      sync.Mutex
	all     map[net.Conn]*list.Element // nil while a request is answered
	waiting list.List                  // of net.Conn, the longest first
}

func newConnections(most int, closed func()) *connections {
	return &connections{most: most, closed: closed, all: map[net.Conn]*list.Element{}}
}

// changed follows the state of a connection, as http.Server.ConnState. A connection is new until the header of its
// first request is read.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if spare := c.follow(conn, state); spare != nil {
		spare.Close()
		c.closed()
	}
}

// follow returns a connection that is to be closed, or nil.
func (c *connections) follow(conn net.Conn, state http.ConnState) (spare net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.all[conn]
	if at != nil {
		c.waiting.Remove(at)
	}
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.all, conn)
	case !known && state != http.StateNew: // closed already, by the one that came after it
	case state == http.StateActive:
		c.all[conn] = nil
	default:
		c.all[conn] = c.waiting.PushBack(conn)
	}
	if len(c.all) <= c.most {
		return nil
	}
	spare = c.waiting.Remove(c.waiting.Front()).(net.Conn)
	delete(c.all, spare)
	return spare
}
