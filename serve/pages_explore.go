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

// explore is the pages for looking around: search, a node's lists, and those of a new text.
func (p *site) explore() {
	s := p.s
	p.read("GET /{$}", "page-start", func(w http.ResponseWriter, r *http.Request) error {
		const most = 20
		q, field := clean(r.URL.Query().Get("q"), 200), clean(r.URL.Query().Get("field"), 200)
		content := map[string]any{"Q": q, "Field": field}
		var found NodePage
		var err error
		if q == "" && field == "" { // the newest have most to find
			hidden := s.hiddenFrom(r.Context(), most/2)
			content["Hidden"] = hidden
			found = newest(s.Graph(), cmp.Or(len(hidden), most))
		} else if found, err = s.Search(r.Context(), q, field, 0, most); err != nil {
			return err
		}
		m, err := s.ModelDetail()
		if err != nil {
			return err
		}
		content["Found"], content["Model"], content["Loop"] = found, m, s.Loop()
		if m.Findings != nil {
			content["Verdict"] = verdict(m.Findings.Class)
		}
		p.show(w, r, http.StatusOK, "start", content)
		return nil
	})
	p.read("GET /node/{id}", "page-node", func(w http.ResponseWriter, r *http.Request) error {
		about, err := s.Node(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		ask := requestOf(r.URL.Query())
		ask.Node = r.PathValue("id")
		return p.list(w, r, ask, &about)
	})
	text := func(w http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return requestError("text", nil, "cannot be read")
		}
		ask := requestOf(r.Form)
		ask.Text, ask.Field = r.Form.Get("text"), clean(r.Form.Get("own"), 200)
		return p.list(w, r, ask, nil)
	}
	p.read("GET /text", "page-text", text)
	p.read("POST /text", "page-text", text) // changes nothing, but has room for a long text
}

// newest returns the latest nodes, the newest first; without times, the last ones.
func newest(g *graph.Graph, most int) NodePage {
	type dated struct {
		at   int64
		node int32
	}
	later := func(a, b dated) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.node, a.node)) }
	var first []dated // sorted
	for i := range int32(g.Len()) {
		one := dated{math.MinInt64, i}
		if t, known := g.Time(i); known {
			one.at = t.Unix()
		}
		if len(first) == most && later(one, first[most-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, one, later)
		first = slices.Insert(first, at, one)
		first = first[:min(len(first), most)]
	}
	out := NodePage{Nodes: []NodeSummary{}, Total: g.Len()}
	for _, one := range first {
		out.Nodes = append(out.Nodes, summarize(g, one.node))
	}
	return out
}

// clean makes what was typed fit to be looked for.
func clean(text string, most int) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}

// askOf reads the controls of a list. What cannot be is left to Recommend to refuse.
func requestOf(form url.Values) RecommendRequest {
	ask := RecommendRequest{K: 10, Fields: form["fields"], From: clean(form.Get("from"), 20), Until: clean(form.Get("until"), 20),
		Linked: form.Get("linked") != "", Seen: form.Get("order") == "seen", Explain: true}
	if k, err := strconv.Atoi(form.Get("k")); err == nil {
		ask.K = min(max(k, 1), 100)
	}
	if x, err := strconv.ParseFloat(form.Get("diversity"), 64); err == nil {
		ask.Diversity = x
	}
	if form.Get("drawn") == "" {
		ask.Explore = new(float64) // a list to look at stays as it is
	}
	return ask
}

// listed is a list as the page shows it.
type listPage struct {
	Action  string // of the form
	Title   string
	About   *NodeDetail // nil for a new text
	Request RecommendRequest
	Sizes   []int
	Drawn   bool // places are drawn as they are for clients
	Explore float64
	Texts   bool
	Naive   bool
	Fields  []fieldChoice
	Fault   string

	Response  *RecommendResponse
	Corrected []listEntry
	Before    []listEntry // the naive list
	Hidden    int
	Words     string // what the two lists have in common
}

type fieldChoice struct {
	Name string
	On   bool
}

// entryOf is an item and how far the correction moved it.
type listEntry struct {
	recommend.Item
	Moved badge
	Words string
}

// list shows recommendations, or why there are none.
func (p *site) list(w http.ResponseWriter, r *http.Request, ask RecommendRequest, about *NodeDetail) error {
	s := p.s
	engine := s.live.Load().current
	ask.Compare = engine.HasNaive()
	if ask.Seen || ask.Diversity > 0 {
		ask.Explore = nil
	}
	out := listPage{Action: r.URL.Path, About: about, Request: ask, Drawn: r.FormValue("drawn") != "", Explore: s.o.Explore,
		Texts: s.texts, Naive: ask.Compare, Title: "A new text"}
	if about != nil {
		out.Title = cmp.Or(about.Title, about.ID)
		out.Action = s.nodeAt(about.ID)
	}
	out.Sizes = []int{5, 10, 20, 50}
	if !slices.Contains(out.Sizes, ask.K) {
		out.Sizes = append(out.Sizes, ask.K)
	}
	on := map[string]bool{}
	for _, f := range ask.Fields {
		on[strings.ToLower(f)] = true
	}
	g := engine.Graph()
	for f := range g.FieldCount() {
		if name := g.FieldName(uint16(f)); name != "" && uint16(f) != graph.UnknownField {
			out.Fields = append(out.Fields, fieldChoice{name, on[strings.ToLower(name)]})
		}
	}
	a, err := s.Recommend(r.Context(), ask)
	status := http.StatusOK
	if err != nil {
		status, out.Fault = p.errorText(r, err)
		if status == http.StatusNotFound || status >= 500 {
			return err
		}
	} else {
		out.Response = a
		out.compare()
	}
	p.show(w, r, status, "list", out)
	return nil
}

// compare says of every item where the other list has it.
func (l *listPage) compare() {
	a := l.Response
	both := 0
	in := map[string]bool{}
	for _, item := range a.Items {
		in[item.ID] = true
		if item.Hidden {
			l.Hidden++
		}
		l.Corrected = append(l.Corrected, listEntry{item, rankChange(item.NaiveRank, item.Rank, true), explainItem(item, a.Field)})
	}
	for _, item := range a.Naive {
		if in[item.ID] {
			both++
		}
		e := listEntry{Item: item, Moved: rankChange(item.Rank, item.ByLink, false)}
		l.Before = append(l.Before, e)
	}
	if len(a.Naive) > 0 {
		l.Words = fmt.Sprintf("%d of %d are in both lists.", both, len(a.Items))
		switch {
		case l.Hidden == 1:
			l.Words += " One item was hidden by exposure: the naive list does not have it."
		case l.Hidden > 1:
			l.Words += fmt.Sprintf(" %d items were hidden by exposure: the naive list does not have them.", l.Hidden)
		}
	}
}

// movedTo is how far an item came from one place to another, with the place that is not its own here: the one it came
// from, or the one it went to.
func rankChange(before, after int, from bool) badge {
	if before == 0 || after == 0 {
		return badge{}
	}
	where := fmt.Sprintf("to %d", after)
	if from {
		where = fmt.Sprintf("from %d", before)
	}
	switch {
	case after < before:
		return badge{"good", "▲", fmt.Sprintf("up %d %s", before-after, where)}
	case after > before:
		return badge{"fair", "▼", fmt.Sprintf("down %d %s", after-before, where)}
	}
	return badge{"calm", "=", "same place"}
}

// why says in a sentence or two why an item is where it is.
func explainItem(item recommend.Item, field string) string {
	text := fmt.Sprintf("If it is shown, it is linked with a chance of %s.", percent(item.Link))
	switch {
	case item.Hidden && item.Field != "" && field != "":
		text += fmt.Sprintf(" But of %s only about %s is ever shown to %s: a naive model takes its missing "+
			"links for a lack of relevance and puts it at %d.", item.Field, percent(item.Propensity), field,
			item.NaiveRank)
	case item.NaiveRank > item.ByLink:
		text += fmt.Sprintf(" So far about %s of the like was shown; without the correction it is at %d.",
			percent(item.Propensity), item.NaiveRank)
	default:
		text += fmt.Sprintf(" So far about %s of the like was shown.", percent(item.Propensity))
	}
	if item.Weak {
		text += " What was shown between these fields rests on very few links: little more than a guess."
	}
	return text
}
