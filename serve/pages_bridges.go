package serve

import (
	"fmt"
	"net/http"
	"net/url"

	"unseen/fit"
	"unseen/recommend"
)

// bridges registers the page of field pairs between which exposure hides links.
func (p *site) bridges() {
	p.read("GET /bridges", "page-bridges", func(w http.ResponseWriter, r *http.Request) error {
		if !p.s.live.Load().current.HasNaive() {
			p.show(w, r, http.StatusOK, "bridges", bridgesPage{})
			return nil
		}
		found, err := p.s.Bridges(r.Context())
		if err != nil {
			return err
		}
		p.show(w, r, http.StatusOK, "bridges", p.s.bridgesPage(found.Bridges))
		return nil
	})
}

// bridgesPage is the data of the page.
type bridgesPage struct {
	Rows  []bridgeRow
	Sure  int // bridges whose interval is above 0
	Weak  int // bridges with too few links
	All   int
	Graph bridgeGraph
	Scale scale
	// Identified is whether the gaps hold under other assumptions than the model's.
	Identified bool
	Verdict    badge // on the scale of exposure
}

type bridgeRow struct {
	recommend.Bridge
	Words       string
	Verdict     badge
	Span        span
	CSV, BibTeX string // paths of the reading list
}

// bridgeGraph is the data of the chart.
type bridgeGraph struct {
	Fields []bridgeField `json:"fields"`
	Links  []bridgeLink  `json:"links"`
}

type bridgeField struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

type bridgeLink struct {
	Source string  `json:"source"`
	Target string  `json:"target"`
	Gap    float64 `json:"gap"`
	Sure   bool    `json:"sure"`
	Words  string  `json:"words"`
}

// mostBridges is how many bridges the page lists, drawnBridges how many the chart shows: more would not be readable.
const (
	mostBridges  = 30
	drawnBridges = 24
)

func (s *Service) bridgesPage(found []recommend.Bridge) bridgesPage {
	class := s.live.Load().current.Class()
	out := bridgesPage{All: len(found), Identified: class == fit.Identified, Verdict: verdict(class)}
	for _, b := range found[:min(len(found), mostBridges)] {
		out.Scale.including(b.Lower, b.Upper, b.Gap)
	}
	used := map[string]bool{}
	for k, b := range found {
		sure := b.Lower > 0 && !b.Weak
		if sure {
			out.Sure++
		}
		if b.Weak {
			out.Weak++
		}
		if k >= mostBridges {
			continue
		}
		row := bridgeRow{Bridge: b, Verdict: badge{"fair", "~", "may be chance"}}
		switch {
		case b.Weak:
			row.Verdict = badge{"bad", "?", "too few links"}
		case sure:
			row.Verdict = badge{"good", "✓", "hidden links"}
			if !out.Identified { // other assumptions may say otherwise
				row.Verdict = badge{"fair", "~", "hidden links, by this model"}
			}
		case b.Upper < 0:
			row.Verdict = badge{"calm", "–", "fewer links than naive"}
		}
		row.Words = fmt.Sprintf("If everything were shown, a node of %s would link to %.2g nodes of %s; a naive model "+
			"expects %.2g. Difference: %.2g (%.2g to %.2g).", b.Source, b.Corrected, b.Target, b.Naive, b.Gap, b.Lower,
			b.Upper)
		row.Span = out.Scale.span(b.Lower, b.Gap, b.Upper, "",
			fmt.Sprintf("%s to %s: %.2g more links, from %.2g to %.2g", b.Source, b.Target, b.Gap, b.Lower, b.Upper))
		q := url.Values{"source": {b.Source}, "target": {b.Target}}
		row.CSV = s.at("/api/v1/bridges/reading?") + q.Encode()
		q.Set("format", "bibtex")
		row.BibTeX = s.at("/api/v1/bridges/reading?") + q.Encode()
		out.Rows = append(out.Rows, row)
		if len(out.Graph.Links) < drawnBridges && b.Gap > 0 && !b.Weak {
			out.Graph.Links = append(out.Graph.Links, bridgeLink{b.Source, b.Target, b.Gap, sure, row.Words})
			used[b.Source], used[b.Target] = true, true
		}
	}
	g := s.Graph()
	nodes := make([]int, g.FieldCount())
	for i := range int32(g.Len()) {
		nodes[g.Field(i)]++
	}
	for f := range g.FieldCount() {
		if name := g.FieldName(uint16(f)); used[name] {
			out.Graph.Fields = append(out.Graph.Fields, bridgeField{name, nodes[f]})
		}
	}
	return out
}
