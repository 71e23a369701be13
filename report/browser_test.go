package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"unseen/internal/browsertest"
)

// On wide and narrow screens, light and dark, every figure of the page is drawn and fits, and the browser neither
// complains nor loads anything.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := sample().WriteHTML(path); err != nil {
		t.Fatal(err)
	}
	if given := os.Getenv("UNSEEN_REPORT"); given != "" {
		path = given // to look at another page
	}
	ctx := browsertest.Start(t)
	seen := watch(t, ctx)
	look := func(width int64, scheme string) {
		t.Helper()
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		err := chromedp.Run(ctx, emulation.SetDeviceMetricsOverride(width, 900, 1, false),
			emulation.SetEmulatedMedia().WithFeatures(media),
			chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
		if err != nil {
			t.Fatalf("the page does not open: %v", err)
		}
	}
	backs := map[string]string{}
	for _, c := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1200}, {"dark", "dark", 1200}, {"narrow", "light", 400}, {"narrow-dark", "dark", 400}} {
		look(c.width, c.scheme)
		backs[c.name] = checkLayout(t, ctx, c.name)
		picture(t, ctx, c.name)
	}
	if backs["light"] == backs["dark"] || backs["light"] != backs["narrow"] {
		t.Errorf("backgrounds are %v", backs)
	}
	if folder := os.Getenv("UNSEEN_SCREENSHOTS"); folder != "" {
		look(1200, "light")
		printPDF(t, ctx, filepath.Join(folder, "print.pdf"))
	}
	seen.Lock()
	defer seen.Unlock()
	if len(seen.complaints) > 0 || len(seen.requests) > 0 {
		t.Errorf("the browser complains: %q; the page loads: %q", seen.complaints, seen.requests)
	}
}

// watched is what a browser complains about, and what a page tries to load.
type watched struct {
	sync.Mutex
	complaints, requests []string
}

// watch collects complaints, and blocks requests for anything but the page.
func watch(t *testing.T, ctx context.Context) *watched {
	t.Helper()
	w := &watched{}
	chromedp.ListenTarget(ctx, func(event any) {
		w.Lock()
		defer w.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			w.complaints = append(w.complaints, e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			w.complaints = append(w.complaints, string(e.Type))
		case *runtime.EventExceptionThrown:
			w.complaints = append(w.complaints, e.ExceptionDetails.Error())
		case *fetch.EventRequestPaused:
			var answer chromedp.Action = fetch.ContinueRequest(e.RequestID)
			if !strings.HasPrefix(e.Request.URL, "file://") {
				w.requests = append(w.requests, e.Request.URL)
				answer = fetch.FailRequest(e.RequestID, network.ErrorReasonBlockedByClient)
			}
			go chromedp.Run(ctx, answer) // a listener must not wait for the browser
		}
	})
	if err := chromedp.Run(ctx, log.Enable(), runtime.Enable(), fetch.Enable()); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	return w
}

// checkLayout measures the page as it is shown and returns its background.
func checkLayout(t *testing.T, ctx context.Context, name string) string {
	t.Helper()
	var raw []byte
	if err := chromedp.Run(ctx, chromedp.Evaluate(measurePage, &raw)); err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Title, Back      string
		Figures, Drawn   int
		Empty, Unpainted int
		Page, Screen     float64
		Sticking         []string
	}
	if err := json.Unmarshal(raw, &seen); err != nil {
		t.Fatal(err)
	}
	if seen.Title == "" || seen.Figures == 0 || seen.Drawn != seen.Figures || seen.Empty > 0 || seen.Unpainted > 0 {
		t.Errorf("%s: title %q, %d figures, of which %d are drawn; %d have no size, %d shapes no colour", name,
			seen.Title, seen.Figures, seen.Drawn, seen.Empty, seen.Unpainted)
	}
	if seen.Page > seen.Screen {
		t.Errorf("%s: the page is %.0f wide on a screen of %.0f", name, seen.Page, seen.Screen)
	}
	if len(seen.Sticking) > 0 {
		t.Errorf("%s: text sticks out of its figure: %s", name, strings.Join(seen.Sticking, "; "))
	}
	return seen.Back
}

// printPDF writes the page as it would be printed.
func printPDF(t *testing.T, ctx context.Context, path string) {
	t.Helper()
	var paper []byte
	if err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		a4 := cdpage.PrintToPDF().WithPrintBackground(false).WithPaperWidth(8.27).WithPaperHeight(11.69)
		paper, _, err = a4.Do(ctx)
		return err
	})); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, paper, 0o644); err != nil {
		t.Fatal(err)
	}
}

// measurePage counts what a reader sees. An svg that is not shown has no box and does not count; text may stick out of
// its drawing by a pixel, because browsers use other fonts.
const measurePage = `(() => {
	const shown = e => e.getClientRects().length > 0
	const drawings = [...document.querySelectorAll('figure svg')].filter(shown)
	const sticking = []
	for (const svg of drawings) {
		const b = svg.getBoundingClientRect()
		for (const t of svg.querySelectorAll('text')) {
			const r = t.getBoundingClientRect()
			if (r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1)
				sticking.push(t.textContent)
		}
	}
	return {
		Title: document.title,
		Back: getComputedStyle(document.body).backgroundColor,
		Figures: document.querySelectorAll('figure').length,
		Drawn: drawings.length,
		Empty: drawings.map(e => e.getBoundingClientRect()).filter(b => b.width < 100 || b.height < 40).length,
		Unpainted: drawings.filter(e => [...e.querySelectorAll('rect')]
			.some(r => getComputedStyle(r).fill === 'none')).length,
		Page: document.documentElement.scrollWidth,
		Screen: document.documentElement.clientWidth,
		Sticking: sticking,
	}
})()`

// picture keeps what the page looks like in the folder UNSEEN_SCREENSHOTS, if that is set.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	folder := os.Getenv("UNSEEN_SCREENSHOTS")
	if folder == "" {
		return
	}
	var image []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&image, 100)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s.png", name)), image, 0o644); err != nil {
		t.Fatal(err)
	}
}
