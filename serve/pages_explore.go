package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"unseen/graph"
	"unseen/recommend"
)

// explore registers the pages of search, a node's lists, and the lists for a new text.
func (p *site) explore() {
	s := p.s
	p.read("GET /explore", "page-explore", func(w http.ResponseWriter, r *http.Request) error {
		const most = 20
		q, field := clean(r.URL.Query().Get("q"), 200), clean(r.URL.Query().Get("field"), 200)
		g := s.Graph()
		content := map[string]any{"Q": q, "Field": field, "Sides": g.TwoSided(), "Sources": len(g.Sources()),
			"Targets": len(g.Targets()), "Vectors": g.Vectors() != nil}
		var found NodePage
		var err error
		if q == "" && field == "" { // new nodes have the most hidden links
			hidden := s.hiddenFrom(r.Context(), most/2)
			content["Hidden"] = hidden
			found = newest(g, cmp.Or(len(hidden), most), s.live.Load().current.view().hides)
		} else if found, err = s.Search(r.Context(), q, field, 0, most); err != nil {
			return err
		}
		m, err := s.ModelDetail()
		if err != nil {
			return err
		}
		content["Found"], content["Model"], content["Loop"] = found, m, s.Loop()
		content["Verdict"] = verdict(s.live.Load().current.Class())
		p.show(w, r, http.StatusOK, "explore", content)
		return nil
	})
	p.read("GET /node/{id}", "page-node", func(w http.ResponseWriter, r *http.Request) error {
		about, err := s.Node(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		request := requestOf(r.URL.Query())
		request.Node = r.PathValue("id")
		return p.list(w, r, request, &about)
	})
	text := func(w http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return requestError("text", nil, "is not a valid form")
		}
		request := requestOf(r.Form)
		request.Text, request.Field = r.Form.Get("text"), clean(r.Form.Get("field"), 200)
		return p.list(w, r, request, nil)
	}
	p.read("GET /text", "page-text", text)
	p.read("POST /text", "page-text", text) // a long text does not fit into a URL
}

// newest returns the newest sources, the latest first; of people and items, those who linked last. Without times it
// returns the last ones.
func newest(g *graph.Graph, most int, without func(int32) bool) NodePage {
	type dated struct {
		at   int64
		node int32
	}
	later := func(a, b dated) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.node, a.node)) }
	var first []dated // sorted
	for _, i := range g.Sources() {
		if without(i) {
			continue
		}
		one := dated{math.MinInt64, i}
		if times := g.OutTimes(i); g.TwoSided() && len(times) > 0 {
			one.at = slices.Max(times)
		} else if t, known := g.Time(i); known {
			one.at = t.Unix()
		}
		if len(first) == most && later(one, first[most-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, one, later)
		first = slices.Insert(first, at, one)
		first = first[:min(len(first), most)]
	}
	out := NodePage{Nodes: []NodeSummary{}, Total: len(g.Sources())}
	for _, one := range first {
		out.Nodes = append(out.Nodes, summarize(g, one.node))
	}
	return out
}

// clean trims and limits text that was typed.
func clean(text string, most int) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}

// requestOf reads the form of a list. Recommend validates it.
func requestOf(form url.Values) RecommendRequest {
	r := RecommendRequest{K: 10, Fields: form["fields"], From: clean(form.Get("from"), 20),
		Until: clean(form.Get("until"), 20), Linked: form.Get("linked") != "", Seen: form.Get("order") == "seen",
		Explain: true}
	if k, err := strconv.Atoi(form.Get("k")); err == nil {
		r.K = min(max(k, 1), 100)
	}
	if x, err := strconv.ParseFloat(form.Get("diversity"), 64); err == nil {
		r.Diversity = x
	}
	if form.Get("drawn") == "" {
		r.Explore = new(float64) // the same list at every visit
	}
	return r
}

// listPage is the data of a page with a list.
type listPage struct {
	Action  string // of the form
	Title   string
	About   *NodeDetail // nil for a new text
	Request RecommendRequest
	Sizes   []int
	Drawn   bool // positions are drawn at random, as for clients
	Explore float64
	Texts   bool
	Naive   bool
	Fields  []fieldChoice
	Error   string

	Response      *RecommendResponse
	CorrectedList []listEntry
	NaiveList     []listEntry
	Hidden        int
	Words         string // summary of the comparison
	AsNaive       string // that lists are those of a naive recommender; "" where they are not
}

type fieldChoice struct {
	Name string
	On   bool
}

// listEntry is an item and how the correction changed its rank.
type listEntry struct {
	recommend.Item
	Moved badge
	Words string
}

// list shows recommendations, or why there are none.
func (p *site) list(w http.ResponseWriter, r *http.Request, request RecommendRequest, about *NodeDetail) error {
	s := p.s
	current := s.live.Load().current
	request.Compare = current.HasNaive()
	if request.Seen || request.Diversity > 0 {
		request.Explore = nil
	}
	out := listPage{Action: r.URL.Path, About: about, Request: request, Drawn: r.FormValue("drawn") != "",
		Explore: s.o.Explore, Texts: s.texts, Naive: request.Compare, Title: "New text"}
	if about != nil {
		out.Title = cmp.Or(about.Title, about.ID)
		out.Action = s.nodeAt(about.ID)
	}
	out.Sizes = []int{5, 10, 20, 50}
	if !slices.Contains(out.Sizes, request.K) {
		out.Sizes = append(out.Sizes, request.K)
	}
	on := map[string]bool{}
	for _, f := range request.Fields {
		on[strings.ToLower(f)] = true
	}
	g := current.Graph()
	for f := range g.FieldCount() {
		if name := g.FieldName(uint16(f)); name != "" && uint16(f) != graph.UnknownField {
			out.Fields = append(out.Fields, fieldChoice{name, on[strings.ToLower(name)]})
		}
	}
	if g.TwoSided() { // a field of people has nothing to recommend
		targets := fieldsOf(g, g.Targets())
		out.Fields = slices.DeleteFunc(out.Fields,
			func(f fieldChoice) bool { return !slices.Contains(targets, f.Name) })
	}
	if about != nil && about.Role == graph.TargetOnly.String() {
		out.Error = "It is recommended to others, and nothing is recommended to it."
		p.show(w, r, http.StatusOK, "list", out)
		return nil
	}
	a, err := s.Recommend(r.Context(), request)
	status := http.StatusOK
	if err != nil {
		status, out.Error = p.errorText(r, err)
		if status == http.StatusNotFound || status >= 500 {
			return err
		}
	} else {
		out.Response, out.AsNaive = a, current.Lists().AsNaive()
		out.compare()
	}
	p.show(w, r, status, "list", out)
	return nil
}

// compare fills in both lists with each item's rank in the other.
func (l *listPage) compare() {
	a := l.Response
	both := 0
	in := map[string]bool{}
	for _, item := range a.Items {
		in[item.ID] = true
		if item.Hidden {
			l.Hidden++
		}
		l.CorrectedList = append(l.CorrectedList, listEntry{item, rankChange(item.NaiveRank, item.Rank, "naive"),
			explainItem(item, a.Field)})
	}
	for _, item := range a.Naive {
		if in[item.ID] {
			both++
		}
		l.NaiveList = append(l.NaiveList, listEntry{Item: item, Moved: rankChange(item.Rank, item.ByLink, "corrected")})
	}
	if len(a.Naive) > 0 {
		l.Words = fmt.Sprintf("%d of %d items are in both lists.", both, len(a.Items))
		switch {
		case l.Hidden == 1:
			l.Words += " Exposure hides one item: as links are seen, it would not be in the list."
		case l.Hidden > 1:
			l.Words += fmt.Sprintf(" Exposure hides %d items: as links are seen, they would not be in the list.",
				l.Hidden)
		}
	}
}

// rankChange compares an item's ranks and names the one in the other list.
func rankChange(naive, corrected int, other string) badge {
	rank := map[string]int{"naive": naive, "corrected": corrected}[other]
	switch {
	case naive == 0 || corrected == 0:
		return badge{}
	case corrected < naive:
		return badge{"good", "▲", fmt.Sprintf("%s rank %d", other, rank)}
	case corrected > naive:
		return badge{"fair", "▼", fmt.Sprintf("%s rank %d", other, rank)}
	}
	return badge{"calm", "=", "same rank"}
}

// explainItem explains the rank of an item in a few sentences.
func explainItem(item recommend.Item, field string) string {
	text := fmt.Sprintf("If it is shown, the chance of a link is %s.", percent(item.Link))
	if words := item.Why.SharedWords(); len(words) > 0 {
		text += fmt.Sprintf(" Both texts have “%s”.", strings.Join(words[:min(3, len(words))], "”, “"))
	}
	switch {
	case item.Hidden && item.Field != "" && field != "":
		rank := fmt.Sprintf("its rank would be %d", item.SeenRank)
		if item.SeenRank == 0 { // the index did not look so far
			rank = "it would be far down"
		}
		text += fmt.Sprintf(" But readers of %s see only about %s of %s, so that by the links that are seen %s.",
			field, percent(item.Propensity), item.Field, rank)
	case item.NaiveRank > item.ByLink:
		text += fmt.Sprintf(" So far about %s of similar items were shown; without the correction its rank is %d.",
			percent(item.Propensity), item.NaiveRank)
	default:
		text += fmt.Sprintf(" So far about %s of similar items were shown.", percent(item.Propensity))
	}
	if item.Weak {
		text += " Exposure between these fields was estimated from very few links, so this is little more than a guess."
	}
	return text
}
