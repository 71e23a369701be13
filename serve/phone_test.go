package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// A phone has no mouse and no keys until a field is touched: the tour, a search, a list with its reasons, a new text
// and the figures are reached by a finger, and nothing that is touched is too small for one.
func TestOnPhone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	server := wordedServer(t)
	b := openTab(t, server.URL)
	b.run("a phone", emulation.SetDeviceMetricsOverride(390, 844, 2, true),
		emulation.SetTouchEmulationEnabled(true).WithMaxTouchPoints(5))
	b.open("/")
	for _, path := range []string{"/explore", "/exposure", "/loop"} {
		b.tap("#tour li:not([hidden]) a")
		b.until("the tour goes on to "+path, "location.pathname === '"+path+"' && document.querySelector('#tour li')")
		b.fits()
	}
	b.tap("#tour-end")
	b.until("the tour is over", "!document.querySelector('#tour').checkVisibility()")

	b.open("/explore")
	b.tap("input[name=q]")
	b.until("the field is ready for words", "document.activeElement.name === 'q'")
	b.run("words", chromedp.SendKeys("input[name=q]", "p17", chromedp.ByQuery))
	b.until("the search", "document.querySelectorAll('.found a').length > 0 && location.search.includes('q=p17')")
	b.fits()
	b.tap(".found a")
	b.until("two lists", "document.querySelector('#corrected-title') && document.querySelector('#naive-title')")
	b.fits()
	b.tap("[aria-labelledby=corrected-title] details summary")
	b.until("a reason that names words", "document.querySelector('.why p').checkVisibility() && "+
		"/Both texts have “.+”/.test([...document.querySelectorAll('.why p')].map(p => p.textContent).join())")
	b.picture("phone-why")

	b.open("/explore")
	b.tap("main details summary")
	b.tap("#text")
	title := ask[string](b, "document.querySelector('.card li a').textContent")
	b.run("a text", chromedp.SendKeys("#text", title, chromedp.ByQuery))
	b.tap("form[action='/text'] button")
	b.until("the text's list", "document.querySelector('#result [role=status]')?.textContent.includes('for a text in')")
	b.fits()

	for _, path := range []string{"/exposure", "/bridges"} {
		b.open(path)
		b.until("the figure of "+path, "document.querySelector('.chart canvas')")
		said := "(document.querySelector('.chart')?.textContent ?? '').trim().length > 20"
		for at := 0.3; !ask[bool](b, said) && at < .8; at += .02 { // from a corner down, until something is touched
			b.touch(".chart canvas", at, at)
		}
		b.until("a finger on the figure of "+path+" shows its numbers", said)
		b.fits()
		b.picture("phone-figure" + strings.ReplaceAll(path, "/", "-"))
	}
	b.quiet("the phone")
	b.open("/node/nobody")
	const alert = "document.querySelector('main [role=alert]').textContent"
	b.until("an error for people", alert+".includes('There is no node')")
	b.forgive()
	b.open("/nowhere")
	b.until("an error for people", alert+".includes('no such page')")
	b.forgive()
	b.tap("main p > a")
	b.until("the way back", "location.pathname === '/explore'")
}

// open opens a page on the screen that is set.
func (b *tab) open(path string) {
	b.t.Helper()
	b.run(path, chromedp.Navigate(b.site+path))
	b.until("the page", "document.querySelector('main')")
}

// tap touches the middle of an element.
func (b *tab) tap(selector string) {
	b.t.Helper()
	b.until("there is "+selector, fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
	b.touch(selector, .5, .5)
}

// touch puts a finger on an element, at shares of its width and height, and takes it away.
func (b *tab) touch(selector string, across, down float64) {
	b.t.Helper()
	at := ask[struct{ X, Y, W, H float64 }](b, fmt.Sprintf(`(e => {
		e.scrollIntoView({block: 'center', behavior: 'instant'})
		const r = e.getBoundingClientRect()
		return {X: r.x, Y: r.y, W: r.width, H: r.height}
	})(document.querySelector(%q))`, selector))
	finger := []*input.TouchPoint{{X: at.X + across*at.W, Y: at.Y + down*at.H}}
	b.run("touch "+selector, chromedp.ActionFunc(func(ctx context.Context) error {
		if err := input.DispatchTouchEvent(input.TouchStart, finger).Do(ctx); err != nil {
			return err
		}
		return input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}).Do(ctx)
	}))
	b.drawn()
}

// fits looks whether the page is as wide as the screen, and what is touched at least 24 by 24; boxes and dots have a
// label that is.
func (b *tab) fits() {
	b.t.Helper()
	seen := ask[struct {
		Page, Screen float64
		Small        []string
	}](b, `({Page: document.documentElement.scrollWidth, Screen: innerWidth, Small:
		[...document.querySelectorAll('a, button, input, select, summary, textarea')].filter(e => {
			const r = (e.closest('label') ?? e).getBoundingClientRect()
			return e.checkVisibility() && getComputedStyle(e).display !== 'inline' && e.type !== 'range' &&
				!e.classList.contains('skip') && (r.width < 24 || r.height < 24)
		}).map(e => e.outerHTML.slice(0, 100))})`)
	if seen.Page > seen.Screen || len(seen.Small) > 0 {
		b.t.Errorf("%s: %.0f wide on a screen of %.0f; too small for a finger: %q", ask[string](b, "location.pathname"),
			seen.Page, seen.Screen, seen.Small)
	}
}
