package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/fit"
)

func ptr[T any](x T) *T { return &x }

// place is where a list has an item; 0 if it has not.
func place(a RecommendResponse, id string) int {
	for _, item := range a.Items {
		if item.ID == id {
			return item.Rank
		}
	}
	return 0
}

// A new item is recommended at once, a changed one elsewhere, a removed one nowhere, also after a restart; a repeated
// change changes nothing. Long because it is one story.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	o := Options{Folder: worded(t, fit.Settings{Replicates: 2, Doctor: fit.QuickDoctor})}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := client{t: t, h: s.Handler()}
	ask := func(node string, more string) RecommendResponse {
		t.Helper()
		return want[RecommendResponse](c, 200, "GET",
			"/api/v1/recommendations?k=240&linked=true&explore=0&explain=true&node="+
				url.QueryEscape(node)+more, nil)
	}
	g := s.Graph()
	reader, liked := "p200", ""
	if first := ask(reader, ""); place(first, "x/1") == 0 {
		liked = first.Items[0].ID
	}
	i, _ := g.Index(liked)
	title := g.Title(i)
	node := NodeInput{Title: &title, Field: ptr(g.FieldName(g.Field(i))), Time: ptr("2024-05-06"),
		Links: &[]string{"p3", liked,
			"not there"}}
	if r := want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes/x%2F1", node); r.Changed != 1 {
		t.Fatal(r)
	}
	if r := want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes/x%2F1", node); r.Changed != 0 || r.Unchanged != 1 {
		t.Fatal("a repeated change changes something", r)
	}
	with := ask(reader, "")
	twin, own := with.Items[place(with, liked)-1], with.Items[place(with, "x/1")-1]
	if d := own.Link - twin.Link; d > 1e-6 || d < -1e-6 || own.Time != "2024-05-06" || own.Why == nil ||
		own.Title != title {
		t.Errorf("a new item with the text of another: %+v, the other %+v", own, twin)
	}
	if d := want[NodeDetail](c, 200, "GET", "/api/v1/nodes/x%2F1", nil); d.Title != title || len(d.LinksTo) != 2 {
		t.Errorf("%+v", d)
	}
	if found := want[NodePage](c, 200, "GET", "/api/v1/nodes?q=X%2F1", nil); found.Total != 1 ||
		found.Nodes[0].ID != "x/1" {
		t.Errorf("%+v", found)
	}
	// as a source it has the lists of its text, without what it links to
	own2, same := c.list("node=x%2F1&k=20&explore=0"), want[RecommendResponse](c, 200, "POST",
		"/api/v1/recommendations",
		RecommendRequest{Title: title, Field: g.FieldName(g.Field(i)), K: 20, Explore: ptr(0.),
			Exclude: []string{"x/1", "p3", liked}})
	if a, b := idsOf(own2), idsOf(same); !slices.Equal(a, b) || own2.Source.ID != "x/1" {
		t.Errorf("lists of a new node %v, of its text %v", a, b)
	}

	other := ask(reader, "").Items[239].ID // what is liked least
	j, _ := g.Index(other)
	want[CatalogueResult](c, 200, "PATCH", "/api/v1/nodes", nodeBatch{[]NodeInput{{ID: "x/1", Title: ptr(g.Title(j))}}})
	if changed := ask(reader, ""); place(changed, "x/1") < 100 || place(with, "x/1") > 10 {
		t.Errorf("place %d before, %d after its text changed", place(with, "x/1"), place(changed, "x/1"))
	}
	if w := c.do("PATCH", "/api/v1/nodes/nobody", NodeInput{Title: &title}); w.Code != 404 {
		t.Error(w.Code, w.Body)
	}

	r := want[CatalogueResult](c, 200, "DELETE", "/api/v1/nodes?id="+liked+"&id=nobody", nil)
	if r.Changed != 1 || r.Unchanged != 1 {
		t.Error(r)
	}
	check := func(c client) {
		t.Helper()
		for _, node := range []string{reader, "x/1", "p0"} {
			a := want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?k=300&linked=true&explore=0.5&node="+
				url.QueryEscape(node), nil)
			if place(a, liked) > 0 || node != "x/1" && place(a, "x/1") == 0 || len(a.Items) != 239 {
				t.Errorf("%s: removed at %d, new at %d of %d", node, place(a, liked), place(a, "x/1"), len(a.Items))
			}
		}
		for _, path := range []string{"/api/v1/nodes/" + liked, "/api/v1/recommendations?node=" + liked, "/node/" +
			liked} {
			if w := c.do("GET", path, nil); w.Code != 404 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	check(c)
	for _, w := range []string{"/", "/node/x%2F1", "/explore?q=x%2F1"} {
		if answer := c.do("GET", w, nil); answer.Code != 200 {
			t.Errorf("%s: %d", w, answer.Code)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c = client{t: t, h: s.Handler()}
	check(c)
	want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{{ID: liked, Title: &title}}})
	if back := ask(reader, ""); place(back, liked) == 0 {
		t.Error("a node that was removed does not come back")
	}
}

func idsOf(a RecommendResponse) (ids []string) {
	for _, item := range a.Items {
		ids = append(ids, item.ID)
	}
	return ids
}

// What cannot be a node is refused by name, and nothing of its batch happens.
func TestCatalogueRefuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	vector := make([]float32, 8)
	vector[0] = 1
	good := NodeInput{ID: "good", Vector: &vector}
	for name, n := range map[string]NodeInput{
		"vector":  {ID: "bad", Title: ptr("text without an encoder")},
		"vector ": {ID: "bad", Vector: &[]float32{1, 2}},
		"field":   {ID: "bad", Vector: &vector, Field: ptr("alchemy")},
		"time":    {ID: "bad", Vector: &vector, Time: ptr("yesterday")},
		"role":    {ID: "bad", Vector: &vector, Role: ptr("target")},
		"text":    {ID: "bad", Vector: &vector, Text: ptr(strings.Repeat("word ", MaxText/5+1))},
		"id":      {Vector: &vector},
		"links":   {ID: "bad", Vector: &vector, Links: &[]string{""}},
	} {
		w := c.do("PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{good, n}})
		if w.Code != 422 || !strings.Contains(w.Body.String(), strings.TrimSpace(name)) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := c.do("GET", "/api/v1/nodes/good", nil); w.Code != 404 {
		t.Error("a part of a batch that was refused is there")
	}
	if w := c.do("PUT", "/api/v1/nodes/a", NodeInput{ID: "b", Vector: &vector}); w.Code != 422 {
		t.Error(w.Code)
	}
	if w := c.do("DELETE", "/api/v1/nodes", nil); w.Code != 422 {
		t.Error(w.Code)
	}
	want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{good}})
	if d := want[NodeDetail](c, 200, "GET", "/api/v1/nodes/good", nil); d.Field == "" {
		t.Error("the field was not guessed")
	}
	want[Forgotten](c, 200, "DELETE", "/api/v1/nodes/good", nil)
	if w := c.do("PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{good}}); w.Code != 422 {
		t.Errorf("somebody who was forgotten comes back: %d", w.Code)
	}
	if a := c.list("node=p1&k=300"); place(a, "good") > 0 {
		t.Error("a forgotten node is recommended")
	}
}

// Changes need the scope write, and each has a line in the audit log that names nobody.
func TestCatalogueScopes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	secrets := map[Scope]string{}
	for _, scope := range []Scope{ScopeRead, ScopeWrite} {
		secret, err := AddToken(path, string(scope), scope, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[scope] = secret
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *Options) { o.Tokens = tokens })
	vector := make([]float32, 8)
	vector[1] = 1
	for token, status := range map[string]int{"": 401, secrets[ScopeRead]: 403, secrets[ScopeWrite]: 200} {
		c := client{t, s.Handler(), token}
		for _, r := range []struct{ method, path string }{{"PUT", "/api/v1/nodes/secret-id"}, {"PATCH",
			"/api/v1/nodes/secret-id"},
			{"DELETE", "/api/v1/nodes?id=secret-id"}} {
			var body any = NodeInput{Vector: &vector}
			if r.method == "DELETE" {
				body = nil
			}
			if w := c.do(r.method, r.path, body); w.Code != status {
				t.Errorf("%s %s with %q: %d, want %d", r.method, r.path, token, w.Code, status)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(s.o.State, "audit.log"))
	if err != nil || strings.Count(string(raw), "\n") != 9 || strings.Contains(string(raw), "secret") {
		t.Errorf("%v\n%s", err, raw)
	}
}

// changeUntilKilled adds, changes and removes nodes, and says after each acknowledgement what it has done.
func changeUntilKilled(folder string) {
	s, err := Open(context.Background(), Options{Folder: folder})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	out := bufio.NewWriter(os.Stdout)
	for k := range 1 << 20 {
		id, vector := fmt.Sprint("new", k), []float32{1, 0, 0, 0, 0, 0, 0, float32(k)}
		_, err := s.PutNodes(context.Background(), []NodeInput{{ID: id, Vector: &vector, Title: ptr("first")},
			{ID: fmt.Sprint("p", k%200), Title: ptr(fmt.Sprint("title ", k))}})
		if err == nil && k%3 == 1 {
			_, err = s.PatchNodes(context.Background(), []NodeInput{{ID: id, Title: ptr("second")}})
		}
		if err == nil && k%3 == 2 {
			_, err = s.RemoveNodes(context.Background(), []string{id})
		}
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Fprintln(out, k)
		out.Flush()
	}
}

// Whenever the service is killed, what was acknowledged is there and in the lists, and what was removed is not.
func TestKilledWhileChanging(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	last := -1
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "UNSEEN_TEST_CATALOGUE="+folder)
		output, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(output)
		enough := time.Now().Add(time.Duration(100+70*round) * time.Millisecond)
		last = -1
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("after %d: %q %v", last, line, err)
			}
			if _, err := fmt.Sscan(line, &last); err != nil {
				t.Fatalf("the service says %q", line)
			}
			if last > 20 && time.Now().After(enough) {
				break
			}
		}
		cmd.Process.Kill()
		for { // what it said before it was killed
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			fmt.Sscan(line, &last)
		}
		cmd.Wait()
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		c := client{t: t, h: s.Handler()}
		list := want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?k=1000&linked=true&node=p239", nil)
		for k := 0; k <= last; k++ {
			w := c.do("GET", fmt.Sprint("/api/v1/nodes/new", k), nil)
			var d NodeDetail
			if w.Code == http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
					t.Fatal(err)
				}
			}
			title := []string{"first", "second", ""}[k%3]
			listed := place(list, fmt.Sprint("new", k)) > 0
			if d.Title != title || listed && title == "" || !listed && title != "" && len(list.Items) < 1000 {
				t.Fatalf("round %d, node %d of %d: %d %q, want %q", round, k, last, w.Code, d.Title, title)
			}
		}
		d := want[NodeDetail](c, 200, "GET", fmt.Sprint("/api/v1/nodes/p", last%200), nil)
		if d.Title != fmt.Sprint("title ", last) && d.Title != fmt.Sprint("title ", last+200) && last < 200 {
			t.Errorf("node p%d has the title %q after change %d", last%200, d.Title, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The file of changes stays small however often nodes change, and the limit of nodes holds.
func TestAttackCatalogueGrowth(t *testing.T) {
	t.Parallel()
	s := open(t)
	vector := make([]float32, 8)
	vector[2] = 1
	long := strings.Repeat("x", 10_000)
	for round := range 400 {
		var nodes []NodeInput
		for k := range 5 {
			nodes = append(nodes, NodeInput{ID: fmt.Sprint("n", k), Vector: &vector, Text: ptr(fmt.Sprint(long,
				round))})
		}
		if _, err := s.PutNodes(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutNodes(t.Context(), []NodeInput{{ID: fmt.Sprint("gone", round),
			Vector: &vector}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.RemoveNodes(t.Context(), []string{fmt.Sprint("gone", round)}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(s.o.State, "catalogue.log"))
	if err != nil || info.Size() > 5<<20 {
		t.Errorf("400 changes of 5 nodes of 10 KB take %d bytes", info.Size())
	}
	if state := s.catalogue.state.Load(); state.count != 5 {
		t.Errorf("%d nodes are remembered", state.count)
	}
	state := *s.catalogue.state.Load()
	state.count = maxChanged
	s.catalogue.state.Store(&state)
	c := client{t: t, h: s.Handler()}
	if w := c.do("PUT", "/api/v1/nodes/more", NodeInput{Vector: &vector}); w.Code != 507 {
		t.Errorf("one node too many: %d", w.Code)
	}
}

// What came, changed and was removed is learned from, and the model that learned it serves after a restart and a
// rollback, with what changed since.
func TestCatalogueIsTrainedOn(t *testing.T) {
	t.Parallel()
	shop, _ := shopFolder(t, "mle")
	for name, folder := range map[string]string{"papers": copyOf(t), "people and items": shop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trainOnChanges(t, folder)
		})
	}
}

// trainOnChanges is the story of one dataset. Long because it is one story.
func trainOnChanges(t *testing.T, folder string) {
	s, err := Open(t.Context(), Options{Folder: folder, Explore: -1})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Graph()
	var links []string
	source, target := g.Sources()[3], g.Targets()[5]
	for _, j := range g.Targets()[:30] {
		if j != target {
			links = append(links, g.ID(j))
		}
	}
	somebody, something := NodeInput{ID: "somebody", Links: &links}, NodeInput{ID: "something"}
	vector := make([]float32, g.Vectors().Dim())
	g.Vectors().Load(vector, target)
	something.Vector = &vector
	if g.TwoSided() {
		somebody.Role, something.Role = ptr("source"), ptr("target")
	} else {
		somebody.Vector = &vector
	}
	if _, err := s.PutNodes(t.Context(), []NodeInput{somebody, something}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RemoveNodes(t.Context(), []string{g.ID(target)}); err != nil {
		t.Fatal(err)
	}
	first := s.Models().Current
	job, err := s.StartJob(JobRequest{Kind: "retrain"})
	if err == nil {
		job, err = s.WaitJob(t.Context(), job.ID)
	}
	if err != nil || job.Error != "" || !job.Deployed {
		t.Fatalf("%v: %+v", err, job)
	}
	check := func(nodes int) {
		t.Helper()
		if n := s.Graph().Len(); n != nodes {
			t.Fatalf("the live model knows %d nodes, want %d", n, nodes)
		}
		c := client{t: t, h: s.Handler()}
		for _, id := range []string{"somebody", g.ID(source)} {
			a := want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?k=1000&node="+id, nil)
			if place(a, "something") == 0 || place(a, g.ID(target)) > 0 || id == "somebody" && place(a, links[0]) > 0 {
				t.Errorf("%s: new at %d, removed at %d, linked at %d", id, place(a, "something"), place(a,
					g.ID(target)),
					place(a, links[0]))
			}
		}
		if found := want[NodePage](c, 200, "GET", "/api/v1/nodes?q=something", nil); found.Total != 1 {
			t.Errorf("%+v", found)
		}
	}
	trained := job.Model
	check(g.Len() + 2)
	if i, _ := s.Graph().Index("somebody"); len(s.Graph().Out(i)) != len(links) {
		t.Errorf("%d links of a new node are learned from", len(s.Graph().Out(i)))
	}
	if job, err = s.StartJob(JobRequest{Kind: "evaluate"}); err == nil {
		job, err = s.WaitJob(t.Context(), job.ID)
	}
	if err != nil || strings.Contains(job.Error, "checksum") {
		t.Errorf("%v: %+v", err, job)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), Options{Folder: folder, Explore: -1}); err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	check(g.Len() + 2)
	if _, err := s.PatchNodes(t.Context(), []NodeInput{{ID: "something", Title: ptr("something else")}}); err != nil {
		t.Fatal(err)
	}
	check(g.Len() + 2)
	if _, err := s.Deploy(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	check(g.Len())
	if d, err := s.Node(t.Context(), "something"); err != nil || d.Title != "something else" {
		t.Errorf("%v %+v", err, d)
	}
	if _, err := s.Forget(t.Context(), "somebody"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Deploy(t.Context(), trained); err != nil {
		t.Fatal(err)
	}
	if w := (client{t: t, h: s.Handler()}).do("GET", "/api/v1/nodes/somebody", nil); w.Code != 404 {
		t.Error("somebody who was forgotten is back with a model that knows them")
	}
}

// Lists, searches and changes at once: every list is of one version, in which a node is once and with its own title.
func TestCatalogueAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for w := range 3 {
		group.Go(func() {
			defer func() {
				if w == 0 {
					stop()
				}
			}()
			for k := range 150 {
				id, vector := fmt.Sprint("new", w, "-", k%20), make([]float32, 8)
				vector[k%8] = 1
				_, err := s.PutNodes(t.Context(), []NodeInput{{ID: id, Title: &id, Vector: &vector}})
				if err == nil && k%5 == 4 {
					_, err = s.RemoveNodes(t.Context(), []string{id})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range 2 {
		group.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				a, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", (w+k)%240), K: 300})
				if err != nil {
					t.Error(err)
					return
				}
				seen := map[string]bool{}
				for _, item := range a.Items {
					if seen[item.ID] || strings.HasPrefix(item.ID, "new") && item.Title != item.ID {
						t.Errorf("%q with the title %q, or twice", item.ID, item.Title)
					}
					seen[item.ID] = true
				}
				if _, err := s.Search(t.Context(), "new", "", 0, 100); err != nil {
					t.Error(err)
				}
				if _, err := s.Recommend(t.Context(), RecommendRequest{Anybody: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
