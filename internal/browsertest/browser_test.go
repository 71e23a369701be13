package browsertest

import (
	"runtime"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// Threads of the program come and go; the browser stays.
func TestTheBrowserStays(t *testing.T) {
	ctx := Start(t)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { runtime.LockOSThread() }) // its thread ends with it
		}
		all.Wait()
	}
	var sum int
	if err := chromedp.Run(ctx, chromedp.Evaluate("1 + 1", &sum)); err != nil || sum != 2 {
		t.Errorf("1 + 1 = %d: %v", sum, err)
	}
}
