package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdnetwork "github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"unseen/dataset"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/browsertest"
	"unseen/sample"
	"unseen/serve/store"
	"unseen/world"
)

// tab is a page of a browser that must not complain, nor ask anybody but the service.
type tab struct {
	t    testing.TB
	ctx  context.Context
	site string

	mu         sync.Mutex
	left       string // a site from which a last request may still be under way
	complaints []string
	outside    []string
}

// openTab starts a browser and listens to what it says.
func openTab(t testing.TB, site string) *tab {
	t.Helper()
	ctx := browsertest.Start(t, chromedp.Flag("hide-scrollbars", true))
	b := &tab{t: t, ctx: ctx, site: site}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
		case *runtime.EventConsoleAPICalled:
			text := string(e.Type)
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
			b.complaints = append(b.complaints, text)
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Error())
		case *fetch.EventRequestPaused:
			go func() {
				b.mu.Lock()
				own := strings.HasPrefix(e.Request.URL, b.site) || b.left != "" &&
					strings.HasPrefix(e.Request.URL, b.left)
				b.mu.Unlock()
				if own || strings.HasPrefix(e.Request.URL, "data:") || strings.HasPrefix(e.Request.URL, "blob:") {
					_ = chromedp.Run(ctx, fetch.ContinueRequest(e.RequestID))
					return
				}
				b.mu.Lock()
				b.outside = append(b.outside, e.Request.URL)
				b.mu.Unlock()
				_ = chromedp.Run(ctx, fetch.FailRequest(e.RequestID, cdnetwork.ErrorReasonBlockedByClient))
			}()
		}
	})
	b.run("the browser starts", log.Enable(), runtime.Enable(), fetch.Enable())
	return b
}

func (b *tab) run(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// look opens a page on a screen of a width, dark or light.
func (b *tab) look(path string, width int64, scheme string) {
	b.t.Helper()
	b.turn(width, scheme)
	b.run(path, chromedp.Navigate(b.site+path))
}

// turn makes the screen wide or narrow, dark or light, and lets the page draw itself.
func (b *tab) turn(width int64, scheme string) {
	b.t.Helper()
	media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	b.run("turn", emulation.SetDeviceMetricsOverride(width, 1000, 1, false),
		emulation.SetEmulatedMedia().WithFeatures(media))
	b.drawn()
}

// drawn waits until the page has drawn itself.
func (b *tab) drawn() {
	b.t.Helper()
	ask[bool](b, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
}

// ask runs a script, waits for what it promises and reads what it comes to; between two pages, again.
func ask[T any](b *tab, script string) (out T) {
	b.t.Helper()
	var raw []byte
	var err error
	kept := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err = chromedp.Run(b.ctx, chromedp.Evaluate(script, &raw, kept)); err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err == nil || b.ctx.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		b.t.Fatalf("%s: %v (the browser: %v)", script, err, b.ctx.Err())
	}
	return out
}

// until waits for the page to be there and a script to be true.
func (b *tab) until(what, script string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var is bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate("document.readyState === 'complete' && !!("+script+")",
			&is)); err == nil && is {
			return
		} else if b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v", what, b.ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.picture("failed")
	b.t.Fatalf("%s does not happen; on %s: %s", what, ask[string](b, "location.href"),
		ask[string](b, "document.querySelector('main')?.innerText.slice(0, 800) ?? ''"))
}

// set puts a value into a control as a person does, once the page is there.
func (b *tab) set(selector, value string) {
	b.t.Helper()
	b.until("the page", "window.htmx")
	b.run("set "+selector, chromedp.Evaluate(
		fmt.Sprintf(`(e => {
			e.value = %q
			e.dispatchEvent(new Event('input', {bubbles: true}))
		})(document.querySelector(%q))`, value, selector), nil))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.until("the page", "window.htmx")
	if !ask[bool](b, fmt.Sprintf("(e => { e?.click(); return !!e })(document.querySelector(%q))", selector)) {
		b.t.Fatalf("there is no %s", selector)
	}
}

// picture keeps what the page looks like in the folder UNSEEN_SCREENSHOTS, if that is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("UNSEEN_SCREENSHOTS")
	if folder == "" {
		return
	}
	var image []byte
	err := errors.New("none")
	for try := 0; err != nil && try < 5; try++ { // between two pages there is nothing to be seen
		if err = chromedp.Run(b.ctx, chromedp.FullScreenshot(&image, 100)); err != nil {
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails if the browser had anything to complain about since the last time.
func (b *tab) quiet(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 || len(b.outside) > 0 {
		b.t.Errorf("%s: the browser complains: %q; asked from elsewhere: %q", where, b.complaints, b.outside)
	}
	b.complaints, b.outside = nil, nil
}

// forgive forgets what the browser complained about.
func (b *tab) forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = nil
}

// inspect looks at a page as a careful reader does: nothing sticks out, everything has a name, headings are in order.
const inspect = `(() => {
	const named = e => (e.getAttribute('aria-label') || e.textContent ||
		[...(e.labels ?? [])].map(l => l.textContent).join('') || e.title || '').trim() !== ''
	const shown = e => e.getClientRects().length > 0
	const all = s => [...document.querySelectorAll(s)].filter(shown)
	const ids = [...document.querySelectorAll('[id]')].map(e => e.id)
	const levels = all('h1, h2, h3').map(e => Number(e.tagName[1]))
	return {
		Page: document.documentElement.scrollWidth, Screen: document.documentElement.clientWidth,
		Back: getComputedStyle(document.body).backgroundColor,
		Nameless: all('a, button, input:not([type=hidden]), select, textarea, [role=img], [role=region]').
			filter(e => !named(e)).map(e => e.outerHTML.slice(0, 120)),
		Twice: ids.filter((id, k) => ids.indexOf(id) !== k),
		Titles: all('h1').length, Jumps: levels.filter((l, k) => k && l > levels[k - 1] + 1).length,
		Styled: document.querySelectorAll('main [style]:not(.chart *):not(.chart)').length,
		Hidden: (nav => nav.scrollWidth - nav.clientWidth)(document.querySelector('nav')),
		Wide: all('main *').filter(e => !e.closest('.scroll, .chart, .unheard, pre') &&
			e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).
			map(e => e.outerHTML.slice(0, 100)).slice(0, 3),
	}
})()`

// worded is a small world whose vectors are made of its titles, so that new texts can be asked about.
func worded(t testing.TB, s fit.Settings) string {
	t.Helper()
	ctx := context.Background()
	settings := smallWorld()
	settings.Fields = nil
	for _, f := range world.FieldsOfStudy() {
		if slices.Contains([]string{"Biology", "Chemistry", "Medicine"}, f.Name) {
			f.Share = 1. / 3
			settings.Fields = append(settings.Fields, f)
		}
	}
	w, err := world.New(ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(ctx); err != nil {
		t.Fatal(err)
	}
	g := w.Graph()
	var titles encode.TextList
	for i := range int32(g.Len()) {
		titles = append(titles, encode.Text{Title: g.Title(i)})
	}
	e, _, err := encode.Fit(ctx, titles, encode.Settings{Dim: 16, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := graph.NewVectors(g.Len(), 16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.EncodeAll(ctx, titles, vectors, 1, nil); err != nil {
		t.Fatal(err)
	}
	if g, err = g.WithVectors(vectors); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	content := dataset.Content{Graph: g, Encoder: &dataset.StoredEncoder{Kind: encode.Kind, Write: e.Write}}
	if err := learnFrom(ctx, folder, content, sample.Plan{Split: sample.AtRandom, Later: true, PerLink: 4, Seed: 1}, s,
		"bayes", "naive"); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Every page works in a browser, as a person uses it.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	// refits enough to be watched
	s, err := Open(context.Background(), Options{Folder: worded(t, fit.Settings{Replicates: 60})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	b := openTab(t, server.URL)
	c := client{t: t, h: s.Handler()}
	for i := range 40 { // something to be seen of the loop
		a := c.list(fmt.Sprintf("node=p%d&k=10&log=true", 6*i))
		want[store.Result](c, 200, "POST", "/api/v1/events",
			eventBatch{[]store.LogEvent{about(a, i%10, store.Clicked, fmt.Sprint("c", i))}})
	}

	backs := map[string]bool{}
	for _, path := range []string{"/", "/data?q=a", "/data/node?id=p200", "/explore", "/node/p200", "/exposure",
		"/loop", "/bridges", "/runs", "/docs"} {
		b.look(path, 390, "light")
		if figures := map[string]int{"/exposure": 1, "/bridges": 1, "/loop": 2}[path]; figures > 0 {
			b.until("the figures of "+path, fmt.Sprintf("document.querySelectorAll('.chart canvas').length >= %d",
				figures))
		}
		for _, screen := range []struct { // the page is loaded once, and then follows the screen
			width  int64
			scheme string
		}{{360, "light"}, {390, "light"}, {390, "dark"}, {1600, "dark"}, {1600, "light"}} {
			name := fmt.Sprintf("%s at %d, %s", path, screen.width, screen.scheme)
			b.turn(screen.width, screen.scheme)
			b.until("the figures of "+name, "[...document.querySelectorAll('.chart canvas')].every(c => "+
				"c.getBoundingClientRect().width > innerWidth / 2 - 200)")
			seen := ask[struct {
				Page, Screen, Hidden  float64
				Back                  string
				Nameless, Twice, Wide []string
				Titles, Jumps, Styled int
			}](b, inspect)
			if seen.Page > seen.Screen || len(seen.Wide) > 0 || seen.Hidden > 0 {
				t.Errorf("%s: the page is %.0f wide on a screen of %.0f; %q; %.0f of the navigation are hidden", name,
					seen.Page, seen.Screen, seen.Wide, seen.Hidden)
			}
			if len(seen.Nameless) > 0 || len(seen.Twice) > 0 || seen.Titles != 1 || seen.Jumps > 0 || seen.Styled > 0 {
				t.Errorf("%s: without a name %q, ids twice %q, %d titles, %d headings out of order, %d inline styles",
					name, seen.Nameless, seen.Twice, seen.Titles, seen.Jumps, seen.Styled)
			}
			backs[screen.scheme+seen.Back] = true
			b.picture(fmt.Sprintf("page%s-%d-%s", strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path),
				screen.width, screen.scheme))
			b.quiet(name)
		}
	}
	if len(backs) != 2 {
		t.Errorf("backgrounds are %v", backs)
	}

	t.Run("explore", func(t *testing.T) { browseExplore(t, s, b) })
	t.Run("phone", func(t *testing.T) { browsePhone(t, b) })
	t.Run("exposure", func(t *testing.T) { browseExposure(t, b) })
	t.Run("loop", func(t *testing.T) { browseLoop(t, b) })
	t.Run("bridges", func(t *testing.T) { browseBridges(t, b) })
	t.Run("runs", func(t *testing.T) { browseRuns(t, s, b) })
	t.Run("prefix", func(t *testing.T) { browsePrefix(t, s, b) })
}

func browseExplore(t *testing.T, s *Service, b *tab) {
	b.t = t
	b.look("/explore", 1000, "light")
	// the first stop of the keyboard leads past the navigation
	b.run("a key", chromedp.KeyEvent("\t"))
	if first := ask[string](b, "document.activeElement.className"); first != "skip" {
		t.Errorf("the first stop is %q", first)
	}
	title := s.Graph().Title(17)
	b.run("search", chromedp.SendKeys("input[name=q]", strings.ToUpper(title), chromedp.ByQuery))
	b.until("the search", fmt.Sprintf("document.querySelector('#result h2').textContent.includes('found') && "+
		"document.querySelector('.found a')?.textContent === %q", title))
	if at := ask[string](b, "location.search"); !strings.HasPrefix(at, "?q=") {
		t.Errorf("the address does not say what was looked for: %q", at)
	}
	b.click(".found a")
	b.until("the node", "document.querySelector('#corrected-title')")
	type list struct {
		Naive, Corrected, Fields []string
		Moved, Why               int
		Status                   string
	}
	const read = `({
		Naive: [...document.querySelectorAll('[aria-labelledby=naive-title] h3 a')].map(a => a.href),
		Corrected: [...document.querySelectorAll('[aria-labelledby=corrected-title] h3 a')].map(a => a.href),
		Fields: [...document.querySelectorAll('[aria-labelledby=corrected-title] .about > span:first-child')].
			map(e => e.textContent),
		Moved: document.querySelectorAll('.moved').length, Why: document.querySelectorAll('.why li').length,
		Status: document.querySelector('#result [role=status]').textContent})`
	plain := ask[list](b, read)
	if len(plain.Naive) != 10 || len(plain.Corrected) != 10 || plain.Moved != 20 || plain.Why < 20 ||
		slices.Equal(plain.Naive, plain.Corrected) {
		t.Errorf("two lists of ten, each place marked: %d and %d, %d marks, %d reasons", len(plain.Naive),
			len(plain.Corrected), plain.Moved, plain.Why)
	}
	b.set("#diversity", "0.8")
	b.until("the slider", "document.querySelector('#result [role=status]').textContent.includes('diversity 0.80')")
	diverse := ask[list](b, read)
	if slices.Equal(diverse.Corrected, plain.Corrected) {
		t.Error("the slider leaves the list as it was")
	}
	if says := ask[string](b, "document.querySelector('output[for=diversity]').value"); says != "0.80" {
		t.Errorf("the slider says %q", says)
	}
	b.set("#diversity", "0")
	only := s.Graph().FieldName(2)
	b.run("filter", chromedp.Evaluate(fmt.Sprintf("document.querySelector('details.control').open = true; "+
		"document.querySelector('input[name=fields][value=\"%s\"]').click()", only), nil))
	b.until("the filter", fmt.Sprintf("location.search.includes('fields=') && "+
		"[...document.querySelectorAll('[aria-labelledby=corrected-title] .about > span:first-child')].every(e "+
		"=> e.textContent === %q)", only))
	if filtered := ask[list](b, read); len(filtered.Fields) == 0 {
		t.Error("the filter leaves nothing")
	}
	b.picture("filtered")
	b.quiet("a node's page")

	b.look("/explore", 1000, "dark")
	b.run("text", chromedp.SendKeys("#text", s.Graph().Title(30)+" and "+s.Graph().Title(31), chromedp.ByQuery))
	b.click("form[action='/text'] button")
	b.until("the text's list", "document.querySelector('#result [role=status]')?.textContent.includes('for a text in')")
	before := ask[list](b, read)
	b.set("#diversity", "0.9")
	b.until("the slider", "document.querySelector('#result [role=status]').textContent.includes('diversity 0.90')")
	if after := ask[list](b, read); len(before.Corrected) != 10 || slices.Equal(before.Corrected, after.Corrected) {
		t.Errorf("a text's lists: %v, then %v", before, after)
	}
	b.picture("text")
	b.quiet("a text's page")
}

func browseExposure(t *testing.T, b *tab) {
	b.t = t
	b.look("/exposure", 1000, "light")
	b.until("the map", "document.querySelector('#heat canvas')")
	type place struct{ Left, Top, Right, Bottom float64 }
	at := ask[place](b, "(() => { document.querySelector('#heat').scrollIntoView({block: 'center'}); const "+
		"{left, top, right, bottom} = document.querySelector('#heat canvas').getBoundingClientRect(); return "+
		"{left, top, right, bottom} })()")
	const tip = "[...document.querySelectorAll('#heat .tip')].map(e => e.textContent).join('')"
	says := ""
	for x := at.Left + 60; x < at.Right && !strings.Contains(says, "estimated from"); x += 25 {
		b.run("hover over a cell", input.DispatchMouseEvent(input.MouseMoved, x, at.Bottom-30))
		b.drawn()
		says = ask[string](b, tip)
	}
	if !strings.Contains(says, "shown to") || !strings.Contains(says, "95% interval") ||
		!strings.Contains(says, "standard error") || !strings.Contains(says, "links in") {
		t.Errorf("a cell says %q", says)
	}
	b.picture("hover")
	// the model is judged, and the panel is there
	b.click("form[action='/runs/jobs'] button")
	b.until("the verdict", "document.querySelector('#state')?.textContent === 'done'")
	b.look("/exposure", 1000, "dark")
	if rows := ask[int](b, "document.querySelectorAll('.panel tbody tr').length"); rows < 4 {
		t.Errorf("the panel has %d rows", rows)
	}
	b.until("what the log says", "document.querySelector('[aria-labelledby=panel-title]').textContent."+
		"includes('Based on 40 lists')")
	b.picture("judged")
	b.quiet("the exposure")
}

func browseLoop(t *testing.T, b *tab) {
	b.t = t
	b.look("/loop", 1000, "light")
	b.until("the figures", "document.querySelectorAll('.chart canvas').length === 2")
	const last = "document.querySelector('#played tbody tr:last-child').textContent"
	before := ask[string](b, "document.querySelector('#played details').open = true, "+last)
	b.set("#rounds", "30")
	b.until("thirty rounds", "document.querySelectorAll('#played tbody tr').length === 30")
	b.click("input[value=shown]")
	b.until("another method", "location.search.includes('method=shown') && document.querySelector('#played "+
		".words:nth-of-type(2)').textContent.includes('For a naive recommender')")
	b.set("#explore", "0.5")
	b.until("half explored", "location.search.includes('explore=0.5') && "+
		"document.querySelector('output[for=explore]').value === '50%'")
	b.until("the figure", "document.querySelector('#future canvas')")
	if after := ask[string](b, last); after == before {
		t.Errorf("nothing changes: %s", after)
	}
	if !ask[bool](b, "document.querySelector('#played details').open") {
		t.Error("what was opened is closed again")
	}
	// an answer without the part that is to be exchanged leaves the page as it is, and says so
	b.run("no answer", chromedp.Evaluate("document.querySelector('#play').setAttribute('hx-get', '/docs'); "+
		"htmx.process(document.querySelector('#play'))", nil))
	b.set("#rounds", "9")
	b.until("the word", "!document.querySelector('#trouble').hidden")
	if rows := ask[int](b, "document.querySelectorAll('#played tbody tr').length"); rows != 30 {
		t.Errorf("%d rows are left", rows)
	}
	b.picture("played")
	b.quiet("the loop")
}

func browseBridges(t *testing.T, b *tab) {
	b.t = t
	folder := t.TempDir()
	b.run("downloads", browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(folder))
	b.look("/bridges", 1000, "light")
	b.run("open", chromedp.Evaluate("document.querySelector('.gap details').open = true", nil))
	for _, kind := range []struct{ link, ends, has string }{{"a[href*='reading']:not([href*=bibtex])", ".csv",
		"source,source_title"}, {"a[href*=bibtex]", ".bib", "@misc{"}} {
		b.click(".gap " + kind.link)
		var found []byte
		poll(t, "the download", func() bool {
			if files, _ := filepath.Glob(filepath.Join(folder, "*"+kind.ends)); len(files) > 0 {
				found, _ = os.ReadFile(files[0])
			}
			return len(found) > 0
		})
		if !strings.Contains(string(found), kind.has) {
			t.Errorf("the reading list as %s: %.200s", kind.ends, found)
		}
	}
	b.quiet("the bridges")
}

func browseRuns(t *testing.T, s *Service, b *tab) {
	b.t = t
	_, first := s.Current()
	b.look("/runs", 1000, "light")
	b.click("form[action='/runs/jobs'] button")
	b.until("a job", "document.querySelector('#job')")
	// while it runs, the page follows it without being loaded again
	b.run("a mark", chromedp.Evaluate("window.same = true", nil))
	followed := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		now := ask[struct {
			State, Phase string
			Same         bool
		}](b, `({State: document.querySelector('#state')?.textContent ?? '',
			Phase: document.querySelector('#phase')?.textContent ?? '', Same: !!window.same})`)
		if !now.Same {
			break
		}
		followed[now.State+" "+now.Phase] = true
	}
	if len(followed) < 2 {
		t.Errorf("the page showed %v", followed)
	}
	b.until("the live model", "document.querySelector('#job .notice.good')?.textContent.includes('is live')")
	b.until("the curve", "document.querySelector('#loss canvas')")
	points := ask[[]CurvePoint](b, "JSON.parse(document.querySelector('#loss-data').textContent)")
	least := slices.MinFunc(append(points, CurvePoint{Loss: math.Inf(1)}),
		func(a, b CurvePoint) int { return cmp.Compare(a.Loss, b.Loss) })
	if len(points) < 2 || least.Loss >= points[0].Loss { // a later phase may start again from above
		t.Errorf("the loss does not fall: %+v", points)
	}
	_, second := s.Current()
	if second == first {
		t.Error("the model is the old one")
	}
	b.picture("trained")

	b.set("#tried", first)
	b.set("#share", "0.5")
	b.click("form[action='/runs/ab-test'] button")
	b.until("the A/B test", "document.querySelector('[role=status].notice')?.textContent.includes('test started')")
	if arms := ask[int](b, "document.querySelectorAll('[aria-labelledby=ab-test-title] tbody tr').length"); arms != 2 {
		t.Errorf("%d arms", arms)
	}
	b.picture("ab-test")
	b.click("form[action='/runs/ab-test/end'] button")
	b.until("its end", "document.querySelector('[role=status].notice')?.textContent.includes('test ended')")

	b.click("form[action='/runs/rollback'] button")
	b.until("the rollback", "document.querySelector('[role=status].notice')?.textContent.includes('Rolled back "+
		"to the previous model')")
	if _, now := s.Current(); now != first {
		t.Errorf("after the rollback %.8s is live, not %.8s", now, first)
	}
	b.quiet("the runs")
}

// browsePrefix opens the same service below a path: the browser asks for nothing above it.
func browsePrefix(t *testing.T, s *Service, b *tab) {
	s.o.Prefix = "/lab/recs"
	defer func() { s.o.Prefix = "" }()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	b.run("leave the last page", chromedp.Navigate("about:blank"))
	b.mu.Lock()
	b.t, b.left, b.site = t, b.site, server.URL+s.o.Prefix
	b.mu.Unlock()
	for _, path := range []string{"", "/loop", "/bridges"} {
		b.look(path, 1000, "light")
		b.until("the page", "window.htmx")
		if figures := map[string]int{"/bridges": 1, "/loop": 2}[path]; figures > 0 {
			b.until("the figures of "+path, fmt.Sprintf("document.querySelectorAll('.chart canvas').length >= %d",
				figures))
		}
	}
	b.look("/explore", 1000, "light")
	title := s.Graph().Title(17)
	b.run("search", chromedp.SendKeys("input[name=q]", title, chromedp.ByQuery))
	b.until("the search", "document.querySelector('#result h2').textContent.includes('found') && "+
		"location.pathname === '/lab/recs/explore'")
	b.click(".found a")
	b.until("the node", "document.querySelector('#corrected-title')")
	b.set("#diversity", "0.8")
	b.until("the slider", "document.querySelector('#result [role=status]').textContent.includes('diversity "+
		"0.80') && location.pathname.startsWith('/lab/recs/node/')")
	b.look("/runs", 1000, "light")
	b.set("select[name=method]", "naive")
	b.click("form[action='/lab/recs/runs/jobs'] button") // a job, and the page that follows it
	b.until("the job's end", "location.pathname === '/lab/recs/runs' && ['done', "+
		"'failed'].includes(document.querySelector('#state')?.textContent)")
	b.quiet("below a prefix")
}
