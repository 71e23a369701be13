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
		path = given // to look at a page of one's own
	}
	ctx := browsertest.Start(t)

	var mu sync.Mutex
	var complaints, outside []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, string(e.Type))
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Error())
		case *fetch.EventRequestPaused:
			go func() {
				if strings.HasPrefix(e.Request.URL, "file://") {
					chromedp.Run(ctx, fetch.ContinueRequest(e.RequestID))
					return
				}
				mu.Lock()
				outside = append(outside, e.Request.URL)
				mu.Unlock()
				chromedp.Run(ctx, fetch.FailRequest(e.RequestID, network.ErrorReasonBlockedByClient))
			}()
		}
	})
	address := (&url.URL{Scheme: "file", Path: path}).String()
	look := func(width int64, scheme string) {
		t.Helper()
		media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		err := chromedp.Run(ctx, emulation.SetDeviceMetricsOverride(width, 900, 1, false),
			emulation.SetEmulatedMedia().WithFeatures(media), chromedp.Navigate(address))
		if err != nil {
			t.Fatalf("the page does not open: %v", err)
		}
	}
	ask := func(script string, into any) {
		t.Helper()
		var raw []byte
		if err := chromedp.Run(ctx, chromedp.Evaluate(script, &raw)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
	}
	if err := chromedp.Run(ctx, log.Enable(), runtime.Enable(), fetch.Enable()); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	backs := map[string]string{}
	for _, c := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1200}, {"dark", "dark", 1200}, {"narrow", "light", 400}, {"narrow-dark", "dark", 400}} {
		look(c.width, c.scheme)
		var seen struct {
			Title, Back      string
			Figures, Drawn   int
			Empty, Unpainted int
			Page, Screen     float64
			Sticking         []string
		}
		ask(measurePage, &seen)
		if seen.Title == "" || seen.Figures == 0 || seen.Drawn != seen.Figures || seen.Empty > 0 || seen.Unpainted > 0 {
			t.Errorf("%s: title %q, %d figures, of which %d are drawn; %d have no size, %d shapes no colour", c.name,
				seen.Title, seen.Figures, seen.Drawn, seen.Empty, seen.Unpainted)
		}
		if seen.Page > seen.Screen {
			t.Errorf("%s: the page is %.0f wide on a screen of %.0f", c.name, seen.Page, seen.Screen)
		}
		if len(seen.Sticking) > 0 {
			t.Errorf("%s: text sticks out of its figure: %s", c.name, strings.Join(seen.Sticking, "; "))
		}
		backs[c.name] = seen.Back
		picture(t, ctx, c.name)
	}
	if backs["light"] == backs["dark"] || backs["light"] != backs["narrow"] {
		t.Errorf("backgrounds are %v", backs)
	}
	if folder := os.Getenv("UNSEEN_SCREENSHOTS"); folder != "" {
		look(1200, "light")
		var paper []byte
		if err := chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) (err error) {
			paper, _, err = cdpage.PrintToPDF().WithPrintBackground(false).WithPaperWidth(8.27).WithPaperHeight(
				11.69).Do(ctx)
			return err
		})); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "print.pdf"), paper, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(complaints) > 0 || len(outside) > 0 {
		t.Errorf("the browser complains: %q; asked from elsewhere: %q", complaints, outside)
	}
}

// measurePage counts what a reader sees. An svg that is not shown has no box and does not count; text may stick out
// of its drawing by a pixel, since browsers have fonts of their own.
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
