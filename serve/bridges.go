package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"unseen/hint"
	"unseen/internal/safetext"
	"unseen/recommend"
)

// ErrNoNaive: bridges compare with a naive model, and the service has none.
var ErrNoNaive = errors.New("bridges need a naive model, which the service does not have")

func errNoNaive() error {
	return hint.Wrap(ErrNoNaive, "fit one and set %v of the service", hint.Setting("naive"))
}

// bridgeCache keeps the bridges of one model, because they take a while to find.
type bridgeCache struct {
	wanted chan struct{} // requests a search in the background

	mu      sync.Mutex
	digest  string
	bridges []recommend.Bridge
	err     error         // the search for them failed
	changed chan struct{} // closed when they are others
}

// Settings of the search for the pages and reading lists.
const (
	bridgeSources = 40
	readingLength = 20
	bridgeWait    = 400 * time.Millisecond // of a page for bridges that are being found; a small network takes less
)

// Bridges returns the pairs of fields between which exposure hides links. They are found once for each live model, in
// the background and from when it is live; whoever asks before they are known waits for them, and takes no place of
// those who ask for lists.
func (s *Service) Bridges(ctx context.Context) (_ BridgeList, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return BridgeList{}, err
	}
	defer end(&err)
	if err := s.vectorsFault(); err != nil {
		return BridgeList{}, err
	}
	for {
		e := s.live.Load().current
		known, changed, err := s.bridgeCache.of(e.digest)
		switch {
		case err == nil:
			return BridgeList{e.digest, e.view().bridges(known)}, nil
		case !e.HasNaive():
			return BridgeList{}, errNoNaive()
		case !errors.Is(err, errBridgesUnknown):
			s.bridgeCache.want() // it is tried again
			return BridgeList{}, err
		}
		s.bridgeCache.want()
		select {
		case <-ctx.Done():
			return BridgeList{}, ctx.Err()
		case <-changed:
		}
	}
}

// findBridges finds them in the background when they are wanted, until the context ends.
func (s *Service) findBridges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.bridgeCache.wanted:
		}
		e := s.live.Load().current
		if _, _, err := s.bridgeCache.of(e.digest); err == nil || !e.HasNaive() {
			continue
		}
		var found []recommend.Bridge
		err := s.surviving(func() (err error) {
			found, err = e.Bridges(ctx, recommend.BridgeSettings{Sources: bridgeSources, List: readingLength, Seed: 1})
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.o.Log.Warn("finding bridges failed", "error", err)
		}
		s.bridgeCache.keep(e.digest, found, err)
	}
}

// errBridgesUnknown: they were not looked for yet.
var errBridgesUnknown = errors.New("bridges are not known yet")

// want has them looked for.
func (b *bridgeCache) want() {
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// of returns the bridges of a model, or why they are not known, and what is closed when that is otherwise.
func (b *bridgeCache) of(digest string) (bridges []recommend.Bridge, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.digest != digest {
		return nil, b.changed, errBridgesUnknown
	}
	return b.bridges, b.changed, b.err
}

func (b *bridgeCache) keep(digest string, bridges []recommend.Bridge, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.digest, b.bridges, b.err = digest, bridges, err
	close(b.changed)
	b.changed = make(chan struct{})
}

// hiddenFrom returns the nodes from which exposure hides most. If they are not known yet, it starts the search and
// waits for a moment; if that is too short it returns nil.
func (s *Service) hiddenFrom(ctx context.Context, most int) []recommend.Item {
	e := s.live.Load().current
	known, changed, err := s.bridgeCache.of(e.digest)
	if err != nil && !e.HasNaive() {
		return nil
	}
	if err != nil {
		s.bridgeCache.want()
	}
	ctx, cancel := context.WithTimeout(ctx, bridgeWait)
	defer cancel()
	for err != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			known, changed, err = s.bridgeCache.of(e.digest)
		}
	}
	known = e.view().bridges(known)
	var out []recommend.Item
	seen := map[string]bool{}
	// the first pair of every bridge, then the second
	for place := 0; place < readingLength && len(out) < most; place++ {
		for _, b := range known {
			if b.Lower <= 0 || b.Weak || place >= len(b.Reading) || len(out) >= most {
				continue
			}
			if item := b.Reading[place].For; !seen[item.ID] {
				seen[item.ID] = true
				out = append(out, item)
			}
		}
	}
	return out
}

type readingInput struct {
	Source string `query:"source" required:"true" minLength:"1" maxLength:"200" doc:"field of the readers"`
	Target string `query:"target" required:"true" minLength:"1" maxLength:"200" doc:"field of what they read"`
	Format string `query:"format" enum:"csv,bibtex" default:"csv" doc:"file format"`
}

// file is a download.
type file struct {
	ContentType        string `header:"Content-Type"`
	ContentDisposition string `header:"Content-Disposition"`
	Body               []byte
}

func (s *Service) getReading(ctx context.Context, in *readingInput) (*file, error) {
	found, err := s.Bridges(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range found.Bridges {
		if !strings.EqualFold(b.Source, in.Source) || !strings.EqualFold(b.Target, in.Target) {
			continue
		}
		name := slug(b.Source) + "-to-" + slug(b.Target)
		if in.Format == "bibtex" {
			return &file{"application/x-bibtex; charset=utf-8", fmt.Sprintf("attachment; filename=%q", name+".bib"),
				readingBibTeX(b.Reading)}, nil
		}
		raw, err := readingCSV(b.Reading)
		return &file{"text/csv; charset=utf-8", fmt.Sprintf("attachment; filename=%q", name+".csv"), raw}, err
	}
	return nil, newProblem(http.StatusNotFound, hint.Wrap(fmt.Errorf("no bridge from %q to %q", clip(in.Source),
		clip(in.Target)), "see %s", s.at("/api/v1/bridges")))
}

// slug is a name that is valid for files everywhere.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if b.Len() == 0 {
		return "field"
	}
	return strings.Trim(b.String(), "-")
}

// readingCSV is a reading list as CSV, without formulas.
func readingCSV(list []recommend.Reading) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"source", "source_title", "source_field", "target", "target_title", "target_field",
		"target_time", "link", "propensity"}}
	for _, r := range list {
		row := []string{r.For.ID, r.For.Title, r.For.Field, r.ID, r.Title, r.Field, r.Time, number(r.Link),
			number(r.Propensity)}
		rows = append(rows, safetext.Cells(row))
	}
	err := w.WriteAll(rows)
	return b.Bytes(), err
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// readingBibTeX is a reading list as BibTeX, with each item once.
func readingBibTeX(list []recommend.Reading) []byte {
	var b bytes.Buffer
	seen := map[string]bool{}
	for k, r := range list {
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		fmt.Fprintf(&b, "@misc{unseen%d,\n  title = {%s},\n", k+1, safetext.BibTeX(cmp.Or(r.Title, r.ID)))
		if len(r.Time) >= 4 {
			fmt.Fprintf(&b, "  year = {%s},\n", safetext.BibTeX(r.Time[:4]))
		}
		fmt.Fprintf(&b, "  keywords = {%s},\n  note = {%s; for %s, probability of a link if shown %.2f}\n}\n",
			safetext.BibTeX(r.Field), safetext.BibTeX(r.ID), safetext.BibTeX(cmp.Or(r.For.Title, r.For.ID)), r.Link)
	}
	return b.Bytes()
}
