// Package browsertest gives tests a real browser without a window.
//
//	ctx := browsertest.Start(t) // the test is skipped where there is none
//	err := chromedp.Run(ctx, chromedp.Navigate(url))
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Start starts Chromium for as long as the test lasts, 100 seconds at most, or skips the test where there is none.
// UNSEEN_BROWSER_TESTS=1, as ./check sets it, makes that a failure.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("UNSEEN_BROWSER_TESTS") == "1" {
			t.Fatal("UNSEEN_BROWSER_TESTS=1, but there is no chromium, chromium-browser or google-chrome; " +
				"install one, on Debian with apt-get install chromium")
		}
		t.Skip("there is no chromium, chromium-browser or google-chrome; ./check installs one")
	}
	options := append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(profile(t)), chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.WSURLReadTimeout(60 * time.Second),
	}, more...)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 100*time.Second)
	t.Cleanup(stop)
	// On Linux a browser is killed when the thread that started it ends, so that none outlives its
	// test. A thread of the program's own would not do: those that train at a low priority end with
	// their training.
	started, over := make(chan error), make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- chromedp.Run(ctx)
		<-over
	}()
	if err := <-started; err != nil {
		t.Fatalf("%s does not start: %v", program, err)
	}
	return ctx
}

// profile is a folder for the browser, which may write to it until after it has ended: it is
// removed as far as possible.
func profile(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "unseen-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 20 {
			if os.RemoveAll(folder) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return folder
}
