package serve

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"unseen/fit"
)

// axe is axe-core, which finds what keeps people with screen readers, keyboards or weak eyes from using a page.
func axe(t *testing.T) string {
	t.Helper()
	file := os.Getenv("UNSEEN_AXE")
	if file == "" {
		t.Skip("UNSEEN_AXE names no axe.min.js; ./check fetches axe-core and sets it")
	}
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// accessible reports what axe-core finds on the page that is open.
func (b *tab) accessible(where, axe string) {
	b.t.Helper()
	b.until("the page", "document.title")
	var found []string
	b.run("axe on "+where, chromedp.Evaluate(axe+"; true", nil), chromedp.Evaluate(`axe.run(document).then(r =>
		r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 200))))`, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, f := range found {
		b.t.Errorf("%s: %s", where, f)
	}
	b.picture("axe-" + strings.NewReplacer("/", "-", " ", "-", "?", "-", "=", "-").Replace(where))
}

// wordedServer serves pages about texts until the test ends.
func wordedServer(t *testing.T) *httptest.Server {
	t.Helper()
	s, err := Open(t.Context(), Options{Folder: worded(t, fit.Settings{Doctor: fit.QuickDoctor})})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		s.Close()
	})
	return server
}

// Pages have no fault that axe-core knows, also with the tour, with nothing to show, after an error, and when the
// service is gone.
func TestAccessible(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	script := axe(t)
	server := wordedServer(t)
	b := openTab(t, server.URL)
	b.look("/", 1200, "light")
	b.until("the tour", "!document.querySelector('#tour').hidden")
	b.accessible("the tour", script)
	b.click("#tour-end")
	for _, path := range []string{"/", "/data?q=a", "/data?q=nothing-is-called-this", "/data/node?id=p200", "/explore",
		"/explore?q=nothing-is-called-this", "/node/p200", "/node/nobody", "/exposure", "/loop", "/bridges", "/runs",
		"/runs?job=none", "/docs", "/login", "/nowhere"} {
		b.look(path, 1200, "light")
		b.until("the script", "window.htmx")
		b.accessible(path, script)
		b.turn(390, "dark")
		b.accessible(path+" on a phone at night", script)
	}
	b.forgive() // a browser complains of pages that are not there
	b.look("/explore", 390, "light")
	server.CloseClientConnections()
	server.Close()
	b.set("input[name=q]", "anything")
	b.until("the message", "document.querySelector('#trouble').textContent.includes('cannot be reached')")
	b.accessible("without the service", script)
}

// The tour shows itself once, goes from page to page, and is dismissed for good; keys are enough.
func TestTour(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	server := wordedServer(t)
	b := openTab(t, server.URL)
	at := func(step int) string {
		return fmt.Sprintf("document.querySelector('#tour-step')?.textContent === 'Step %d of 4' && "+
			"!document.querySelector('#tour-again').checkVisibility() && "+
			"[...document.querySelectorAll('#tour li')].findIndex(li => li.checkVisibility()) === %d", step, step-1)
	}
	const gone = "!document.querySelector('#tour').checkVisibility() && " +
		"document.querySelector('#tour-again').checkVisibility()"

	b.look("/nowhere", 390, "light")
	if ask[bool](b, "!!document.querySelector('#tour')") {
		t.Error("the tour begins on an error")
	}
	b.forgive()
	b.look("/", 390, "light")
	b.until("the first step", at(1))
	if focus := ask[string](b, "document.activeElement.tagName"); focus != "BODY" {
		t.Errorf("the tour takes the focus to %s", focus)
	}
	for step, path := range []string{"/explore", "/exposure", "/loop"} {
		if step > 0 { // from here on by keys: the button is the next stop after the heading
			b.run("keys", chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
		} else {
			b.click("#tour li:not([hidden]) a")
		}
		b.until("the next step", at(step+2)+" && location.pathname === '"+path+"'")
		b.until("the focus of the tour", "document.activeElement.parentElement?.dataset.path === '"+path+"'")
		b.picture("tour" + strings.ReplaceAll(path, "/", "-"))
	}
	b.look("/explore", 1200, "light") // by the navigation
	b.until("the step of the page", at(2))
	b.look("/runs", 1200, "light") // no page of the tour
	b.until("the page", "window.htmx")
	if ask[bool](b, "document.querySelector('#tour').checkVisibility()") {
		t.Error("the tour is on a page that it does not speak of")
	}
	b.look("/loop", 1200, "light")
	b.until("the last step", at(4)+" && document.querySelector('#tour-end').textContent === 'Done'")
	b.click("#tour-end")
	b.until("the end", gone)
	b.look("/", 1200, "light")
	b.until("still the end", gone)
	b.click("#tour-again")
	b.until("the tour again", at(1))
	b.run("a key", chromedp.KeyEvent(kb.Escape))
	b.until("dismissed by a key", gone)
	b.quiet("the tour")
}
