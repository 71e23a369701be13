package graph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sketch builds a graph from words: "a:field@2020 b" are nodes with an optional field and year, and
// "a>b" is a link.
func sketch(tb testing.TB, words string) *Graph {
	tb.Helper()
	b := Builder{DropSelfLinks: true}
	for _, word := range strings.Fields(words) {
		if source, target, link := strings.Cut(word, ">"); link {
			must(tb, b.AddLink(source, target))
			continue
		}
		word, year, _ := strings.Cut(word, "@")
		id, field, _ := strings.Cut(word, ":")
		n := Node{ID: id, Field: field}
		if year != "" {
			y, err := strconv.Atoi(year)
			must(tb, err)
			n.Time = time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		_, err := b.AddNode(n)
		must(tb, err)
	}
	g, _, err := b.Build()
	must(tb, err)
	return g
}

// randomGraph has n nodes in three fields, about links links (cycles among them), and times on a share
// of the nodes.
func randomGraph(tb testing.TB, r *rand.Rand, n, links int, timed float64) *Graph {
	tb.Helper()
	b := Builder{DropSelfLinks: true}
	for i := range n {
		node := Node{ID: fmt.Sprint("n", i), Field: []string{"", "a", "b", "b"}[r.IntN(4)]}
		if r.Float64() < timed {
			node.Time = time.Unix(int64(r.IntN(5))*86400, 0)
		}
		_, err := b.AddNode(node)
		must(tb, err)
	}
	for range links {
		must(tb, b.AddLinkIndex(int32(r.IntN(n)), int32(r.IntN(n))))
	}
	g, _, err := b.Build()
	must(tb, err)
	return g
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// wantError checks that an error is of a kind, comes from here, and names what it must.
func wantError(tb testing.TB, err, kind error, names ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Errorf("got error %v, want one that is %q", err, kind)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			tb.Errorf("error %q does not say %q", err, name)
		}
	}
}

// ids names nodes, separated by spaces.
func ids(g *Graph, nodes []int32) string {
	var names []string
	for _, i := range nodes {
		names = append(names, g.ID(i))
	}
	return strings.Join(names, " ")
}
