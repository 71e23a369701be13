package serve

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "take the pictures of docs/figures anew: go test ./serve -run TestPictures -update")

// The pictures of the guide are of the demo as unseen serve shows it, after some simulated readers and a training.
func TestPictures(t *testing.T) {
	if !*update {
		for _, name := range []string{"explore", "exposure", "loop", "bridges", "runs"} {
			info, err := os.Stat("../docs/figures/page-" + name + ".png")
			if err != nil || info.Size() > 200_000 {
				t.Errorf("%s: %v; take it anew with -update", name, err)
			}
		}
		return
	}
	folder := filepath.Join(t.TempDir(), "unseen-demo")
	if out, err := exec.Command("go", "run", "../cmd/unseen", "demo", "--quiet", "--out", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err := Open(context.Background(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	c := client{t: t, h: s.Handler()}
	traffic := rand.New(rand.NewPCG(1, 1))
	n := s.Graph().Len()
	read := func(lists int, name string) {
		for k := range lists {
			a := want[Answer](c, 200, "GET", fmt.Sprintf("/api/v1/recommendations?node=p%d&k=10&log=true", traffic.IntN(n)), nil)
			for _, item := range a.Items {
				if traffic.Float64() < item.Link {
					want[Logged](c, 200, "POST", "/api/v1/events", Batch{[]Event{{ID: fmt.Sprint(name, k, item.ID), Kind: "clicked", Source: a.Source.ID, Target: item.ID, List: a.List}}})
				}
			}
		}
	}
	read(250, "before")
	// the node of the newest for which exposure hides most, and the first thing that it hides
	best, hidden := "", 0.
	for i := n - 300; i < n; i++ {
		a := want[Answer](c, 200, "GET", fmt.Sprintf("/api/v1/recommendations?node=p%d&k=10&compare=true&explore=0", i), nil)
		gain := 0.
		for _, item := range a.Items {
			if item.Hidden && item.Field != a.Field && item.Link > .2 {
				gain += 1 / float64(item.Rank)
			}
		}
		if gain > hidden {
			best, hidden = a.Source.ID, gain
		}
	}
	job, err := s.Start(Order{Kind: "retrain", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.Wait(t.Context(), job.ID); err != nil || job.State != Done {
		t.Fatalf("%v: %+v", err, job)
	}

	b := openTab(t, server.URL)
	take := func(name string) {
		t.Helper()
		time.Sleep(300 * time.Millisecond)
		var image []byte
		b.run(name, chromedp.ActionFunc(func(ctx context.Context) (err error) {
			image, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
			return err
		}))
		if err := os.WriteFile("../docs/figures/page-"+name+".png", image, 0o644); err != nil {
			t.Fatal(err)
		}
		if len(image) > 200_000 {
			t.Errorf("%s has %d bytes", name, len(image))
		}
	}
	look := func(path, figure string) {
		t.Helper()
		b.look(path, 1200, "light")
		if figure != "" {
			b.until(figure, "document.querySelector('"+figure+" canvas')")
		}
	}
	look("/node/"+best, "")
	b.run("why", chromedp.Evaluate("document.querySelector('[aria-labelledby=corrected-title] li:has(.badge.bad) details').open = true", nil))
	take("explore")
	look("/exposure", "#heat")
	b.turn(1000, "light") // or the hatching takes too many bytes
	take("exposure")
	look("/loop?method=shown&explore=0.1", "#future")
	take("loop")
	look("/bridges", "#graph")
	take("bridges")
	if _, err := s.StartTrial(t.Context(), job.Model, .5); err != nil {
		t.Fatal(err)
	}
	read(250, "after")
	time.Sleep(1500 * time.Millisecond) // until the log was read
	look("/runs", "#loss")
	b.run("down", chromedp.Evaluate("scrollTo(0, 0)", nil))
	take("runs")
	b.quiet("the pictures")
}
