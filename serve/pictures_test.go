package serve

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"unseen/serve/store"
)

var update = flag.Bool("update", false, "take new pictures for docs/figures: go test ./serve -run "+
	"TestPictures -update")

// The pictures of the guide show the demo in unseen serve, after simulated readers and a training. Long because it is
// one sequence.
func TestPictures(t *testing.T) {
	if !*update {
		for _, name := range []string{"overview", "data", "explore", "exposure", "loop", "bridges", "runs"} {
			info, err := os.Stat("../docs/figures/page-" + name + ".png")
			if err != nil || info.Size() > 200_000 {
				t.Errorf("%s: %v; take a new one with -update", name, err)
			}
		}
		return
	}
	folder := filepath.Join(t.TempDir(), "unseen-demo")
	if out, err := exec.Command("go", "run", "../cmd/unseen", "demo", "--quiet", "--out",
		folder).CombinedOutput(); err != nil {
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
			a := c.list(fmt.Sprintf("node=p%d&k=10&log=true", traffic.IntN(n)))
			for i, item := range a.Items {
				if traffic.Float64() < item.Link {
					want[store.Result](c, 200, "POST", "/api/v1/events",
						eventBatch{[]store.LogEvent{about(a, i, store.Clicked, fmt.Sprint(name, k, item.ID))}})
				}
			}
		}
	}
	read(250, "before")
	// the node of the newest for which exposure hides most that a naive list does not have, and the first such thing
	best, hidden := "", 0.
	for i := n - 300; i < n; i++ {
		a := c.list(fmt.Sprintf("node=p%d&k=10&compare=true&explore=0",
			i))
		gain := 0.
		for _, item := range a.Items {
			if item.Hidden && item.Field != a.Field && item.Link > .2 && item.NaiveRank > len(a.Items) {
				gain += 1 / float64(item.Rank)
			}
		}
		if gain > hidden {
			best, hidden = a.Source.ID, gain
		}
	}
	if best == "" {
		t.Fatal("exposure hides nothing")
	}
	job, err := s.StartJob(JobRequest{Kind: "retrain", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.State != JobDone {
		t.Fatalf("%v: %+v", err, job)
	}

	b := openTab(t, server.URL)
	take := func(name string) {
		t.Helper()
		b.drawn()
		var raw []byte
		b.run(name, chromedp.ActionFunc(func(ctx context.Context) (err error) {
			raw, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
			return err
		}))
		drawn, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		var smaller bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&smaller,
			fewColours(drawn)); err != nil {
			t.Fatal(err)
		}
		raw = smaller.Bytes()
		if err := os.WriteFile("../docs/figures/page-"+name+".png", raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if len(raw) > 200_000 {
			t.Errorf("%s has %d bytes", name, len(raw))
		}
	}
	look := func(path, figure string) {
		t.Helper()
		b.look(path, 1200, "light")
		if figure != "" {
			b.until(figure, "document.querySelector('"+figure+" canvas')")
		}
	}
	look("/", "")
	b.click("#tour-end")
	look("/node/"+best, "")
	b.run("why", chromedp.Evaluate("document.querySelector('[aria-labelledby=corrected-title] "+
		"li:has(.badge.bad) details').open = true", nil))
	take("explore")
	look("/exposure", "#heat")
	take("exposure")
	look("/loop?method=shown&explore=0.1", "#future")
	take("loop")
	look("/bridges", "#graph")
	take("bridges")
	if _, err := s.StartABTest(t.Context(), ABTestRequest{Model: job.Model, Share: .5}); err != nil {
		t.Fatal(err)
	}
	read(250, "after")
	settle(t, s)
	look("/runs", "#loss")
	b.run("down", chromedp.Evaluate("scrollTo(0, 0)", nil))
	take("runs")
	look("/data/node?id="+best, "")
	take("data")
	look("/", "")
	take("overview")
	b.quiet("the pictures")
}

// fewColours keeps the 256 most frequent colours of a picture and gives every other the nearest of them: of a page of
// text and flat areas nobody sees the difference, and it takes a third of the bytes.
func fewColours(from image.Image) image.Image {
	count := map[color.RGBA]int{}
	size := from.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G),
			cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(len(frequent), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(size, palette)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			c := at(x, y)
			k, known := nearest[c]
			if !known {
				k = uint8(palette.Index(c))
				nearest[c] = k
			}
			out.SetColorIndex(x, y, k)
		}
	}
	return out
}
