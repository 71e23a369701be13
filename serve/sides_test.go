package serve

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/sample"
	"unseen/serve/store"
	"unseen/world"
)

// shop is a service for people of one field and items of two, whose last links are held out, with a model by a method.
func shop(t *testing.T, method string) (*Service, *graph.Graph) {
	t.Helper()
	folder, g := shopFolder(t, method)
	return open(t, func(o *Options) { o.Folder = folder }), g
}

func shopFolder(t *testing.T, method string) (folder string, g *graph.Graph) {
	t.Helper()
	ctx := context.Background()
	w, err := world.New(ctx, smallWorld())
	if err == nil {
		w, err = w.Linked(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	plain := w.Graph()
	for i := range int32(plain.Len()) {
		n := graph.Node{ID: plain.ID(i), Field: plain.FieldName(plain.Field(i)), Role: graph.TargetOnly}
		if plain.Field(i) == 1 {
			n.Role = graph.SourceOnly
		}
		if _, err := b.AddNode(n); err != nil {
			t.Fatal(err)
		}
	}
	for i, j := range plain.Links() {
		// links of either direction, so that there are enough; an error where the roles do not allow it
		if b.AddLinkAt(i, j, int64(i)) != nil {
			_ = b.AddLinkAt(j, i, int64(i))
		}
	}
	g, _, err = b.Build()
	if err == nil {
		g, err = g.WithVectors(plain.Vectors())
	}
	folder = t.TempDir()
	if err == nil {
		plan, _ := sample.PlanFor(g)
		err = learn(ctx, folder, g, plan, method, "naive")
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder, g
}

// A shop recommends items to people: in lists, on pages, after retraining; nothing goes the other way.
func TestShop(t *testing.T) {
	t.Parallel()
	s, g := shop(t, "bayes")
	c := client{t: t, h: s.Handler()}
	person, item := g.ID(g.Sources()[3]), g.ID(g.Targets()[0])
	list := want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?node="+url.QueryEscape(person)+"&k=200",
		nil)
	if list.Candidates > len(g.Targets()) || len(list.Items) == 0 {
		t.Errorf("%d of %d candidates", len(list.Items), list.Candidates)
	}
	for _, one := range list.Items {
		if i, _ := g.Index(one.ID); !g.IsTarget(i) {
			t.Fatalf("%s is recommended, a %v", one.ID, g.Role(i))
		}
	}
	if w := c.do("GET", "/api/v1/recommendations?node="+url.QueryEscape(item), nil); w.Code != 422 ||
		!strings.Contains(w.Body.String(), "target only") {
		t.Errorf("a list for an item: %d %s", w.Code, w.Body)
	}
	one := want[NodeDetail](c, 200, "GET", "/api/v1/nodes/"+url.PathEscape(item), nil)
	if one.Role != "target" || len(one.LinkedFrom) != one.In || len(one.LinksTo) != 0 {
		t.Errorf("an item is %+v", one)
	}
	m := want[ModelDetail](c, 200, "GET", "/api/v1/model", nil)
	if len(m.SourceFields) != 1 || len(m.TargetFields) != 2 || len(m.Propensities) != 3 {
		t.Errorf("fields %v of sources, %v of targets, %d rows of π̂", m.SourceFields, m.TargetFields,
			len(m.Propensities))
	}
	for path, has := range map[string]string{"/node/" + url.PathEscape(item): "Who links to it",
		"/exposure": fmt.Sprintf(`"rows":[%q,%q],"columns":[%q],"turned":true`, m.TargetFields[0],
			m.TargetFields[1], m.SourceFields[0]), "/explore": person[:1], "/bridges": m.TargetFields[0],
		"/loop": "most links of their field go to"} {
		if w := c.do("GET", path, nil); w.Code != 200 || !strings.Contains(w.Body.String(), has) {
			t.Errorf("%s: %d, without %q", path, w.Code, has)
		}
	}
	for _, n := range newest(g, 500, func(int32) bool { return false }).Nodes {
		if n.Role != "source" {
			t.Fatalf("the start page offers %s, a %s, to recommend to", n.ID, n.Role)
		}
	}
	// An event on the wrong side is stored, and learned from by nobody.
	batch := eventBatch{Events: []store.LogEvent{{ID: "1", Kind: store.Linked, Source: item, Target: person},
		{ID: "2", Kind: store.Linked, Source: person, Target: list.Items[0].ID, At: time.Unix(5000, 0)},
		{ID: "3", Kind: store.Clicked, Source: person, Target: list.Items[0].ID, At: time.Unix(4000, 0)}}}
	if w := c.do("POST", "/api/v1/events", batch); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	log := s.readingFor(s.datasets.newest(), math.MaxInt64)
	if err := s.read(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	grown, err := withLinks(g, log.log)
	if err != nil || grown.LinkCount() != g.LinkCount()+1 || !slices.Contains(grown.OutTimes(g.Sources()[3]), 4000) {
		t.Errorf("%v; %d links, and of the person at %v", err, grown.LinkCount(), grown.OutTimes(g.Sources()[3]))
	}
	for _, method := range []string{"bayes", "naive"} {
		job, err := s.StartJob(JobRequest{Kind: "retrain", Method: method})
		if err == nil {
			job, err = s.WaitJob(t.Context(), job.ID)
		}
		if err != nil || job.State != JobDone {
			t.Errorf("%v, %+v", err, job)
		}
	}
	job, err := s.StartJob(JobRequest{Kind: "evaluate"})
	if err == nil {
		job, err = s.WaitJob(t.Context(), job.ID)
	}
	if err != nil || job.State != JobDone {
		t.Errorf("%v, %+v", err, job)
	}
}

// What is shown in a shop is counted by the field that most links of the person's field go to.
func TestShopLoop(t *testing.T) {
	t.Parallel()
	s, g := shop(t, "mle")
	c, person := client{t: t, h: s.Handler()}, g.ID(g.Sources()[3])
	logged := want[RecommendResponse](c, 200, "POST", "/api/v1/recommendations", RecommendRequest{Node: person, K: 20,
		Log: true})
	own := g.FieldName(g.OwnFields()[g.Field(g.Sources()[3])])
	same := 0
	for _, item := range logged.Items {
		if item.Field == own {
			same++
		}
	}
	status := settle(t, s)
	if f := status.Fields; len(f) != 1 || f[0].Own != own || f[0].Shown != int64(len(logged.Items)) ||
		math.Abs(f[0].Share-float64(same)/float64(len(logged.Items))) > 1e-9 || status.Forecast == nil {
		t.Errorf("%d of %d are of %s: %+v", same, len(logged.Items), own, status)
	}
}

// New people get lists by their history, if the model has learned factors.
func TestShopForNewPeople(t *testing.T) {
	t.Parallel()
	s, g := shop(t, "mle")
	c := client{t: t, h: s.Handler()}
	item, person := g.ID(g.Targets()[0]), g.ID(g.Sources()[0])
	const path = "/api/v1/recommendations"
	list := want[RecommendResponse](c, 200, "POST", path, RecommendRequest{History: []string{item}, K: 1000, Log: true,
		Compare: true, Explain: true})
	if list.Candidates != len(g.Targets())-1 || list.Logged != len(list.Items) || list.Field == "" {
		t.Errorf("%d candidates, %d of %d logged, field %q", list.Candidates, list.Logged, len(list.Items), list.Field)
	}
	for _, one := range list.Items {
		if i, _ := g.Index(one.ID); one.ID == item || !g.IsTarget(i) {
			t.Errorf("%s is recommended", one.ID)
		}
	}
	for says, r := range map[string]RecommendRequest{"is not in the dataset": {History: []string{"nobody"}},
		"source only": {History: []string{person}}, "or text is required": {History: []string{item}, Node: person}} {
		if w := c.do("POST", path, r); w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%+v: %d %s", r, w.Code, w.Body)
		}
	}
}

// Who asks for a person by an id that an item has is told what the person is called.
func TestShopSharedIDs(t *testing.T) {
	t.Parallel()
	s, g := shop(t, "naive")
	c := client{t: t, h: s.Handler()}
	item, link := g.ID(g.Targets()[0]), g.ID(g.Targets()[1])
	for _, id := range []string{item, "nobody else"} {
		want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{{ID: "user:" + id,
			Role: ptr("source"), Links: ptr([]string{link})}}})
		w := c.do("POST", "/api/v1/recommendations", RecommendRequest{Node: id})
		if w.Code != 404 || !strings.Contains(w.Body.String(), "ask for user:"+id) {
			t.Errorf("%s: %d %s", id, w.Code, w.Body)
		}
	}
}

// Of people and items the data pages show and change what there is; links that a change leaves keep their times.
func TestDataOfShop(t *testing.T) {
	t.Parallel()
	s, g := shop(t, "naive")
	c := client{t: t, h: s.Handler()}
	d := dataForms{t: t, s: s, h: c.h}
	send := func(path string, form url.Values) *httptest.ResponseRecorder {
		r := fromHere(httptest.NewRequest("POST", path, strings.NewReader(form.Encode())))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		return w
	}
	i := g.Sources()[3]
	person, item := g.ID(i), g.ID(g.Targets()[0])
	for id, says := range map[string][]string{person: {"it gets lists and is in none", "History", "See its lists"},
		item: {"Lists can have it", "Linked from", "Links cannot be changed here: it is a target"}} {
		body := c.do("GET", "/data/node?id="+url.QueryEscape(id), nil).Body.String()
		for _, one := range says {
			if !strings.Contains(body, one) {
				t.Errorf("%s: the page does not say %q", id, one)
			}
		}
		if w := send("/data/save", d.form(id)); !strings.Contains(w.Header().Get("Location"), "did=same") {
			t.Errorf("%s: %d %v %s", id, w.Code, w.Header(), w.Body)
		}
	}
	if body := c.do("GET", "/data", nil).Body.String(); !strings.Contains(body, "source: gets lists") ||
		strings.Contains(body, "target: is in lists") {
		t.Error("an item, which needs a vector, can be added, or a person cannot")
	}
	if w := send("/data/add", url.Values{"id": {"new"}, "role": {"source"}, "links": {item}}); w.Code != 303 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	other := ""
	for _, j := range g.Targets() {
		if !slices.Contains(g.Out(i), j) {
			other = g.ID(j)
		}
	}
	form := d.form(person)
	form.Set("links", form.Get("links")+"\r\n"+other)
	if w := send("/data/save", form); !strings.Contains(w.Header().Get("Location"), "did=saved") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	content, err := s.withChanges(t.Context(), s.datasets.newest(), s.catalogue.state.Load())
	if err != nil {
		t.Fatal(err)
	}
	after := content.Graph
	for k, j := range g.Out(i) {
		at, dated := linkTime(after, i, j)
		if want := g.OutTimes(i)[k]; !dated || at != want {
			t.Errorf("the link to %s was made at %d, is %d after another was added", g.ID(j), want, at)
		}
	}
	if len(after.Out(i)) != len(g.Out(i))+1 {
		t.Errorf("%d links, then %d", len(g.Out(i)), len(after.Out(i)))
	}
	for _, link := range want[NodeDetail](c, 200, "GET", "/api/v1/nodes/"+url.PathEscape(person), nil).LinksTo {
		if (link.LinkedAt == "") != (link.ID == other) {
			t.Errorf("the link to %s was made on %q", link.ID, link.LinkedAt)
		}
	}
}
