package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"unseen/gpu"
	"unseen/serve"
)

// serveFlags is the command line of unseen serve.
type serveFlags struct {
	options        serve.Options
	listen         serve.ServerOptions
	explore        float64
	tokens, clicks string
	traces         string
	verbose, quiet bool
	deviceFlags
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:         "serve DIR",
		Annotations: map[string]string{"also": "unseen serve DIR [flags]"},
		Short:       "Serve recommendations, log what is shown, retrain on the log",
		Long: `Serve recommendations over HTTP: pages for people at /, an API for programs at
/api/v1, described at /docs and /openapi.json, and metrics at /metrics.

DIR is a folder that unseen demo wrote, with dataset, model.safetensors and
optionally naive.safetensors; or a dataset, and then --model names the model.

A share of every list's positions is drawn at random, so that each item has a
known probability of being shown. The service logs what was shown, clicked
and linked in DIR/events.db, or in PostgreSQL with --store postgres://…. It
retrains on this log on request (POST /api/v1/jobs) or by --retrain-every. A new
model goes live if it passes its checks. A graphics card can train it (--device
gpu). With --keep-events, older events are
reduced to what training and evaluation need.

Only this machine can connect unless --listen says otherwise; then the service
needs --token-file, or --open behind a proxy that authenticates. TLS (--tls-cert)
is no permission. One service at a time has a state folder, which only its owner
can read. After Ctrl-C, requests in progress may finish.`,
		Example: `  unseen serve unseen-demo
  unseen serve papers --model model.safetensors --naive naive.safetensors
  unseen serve papers --model model.safetensors --retrain-every 24h
  unseen serve unseen-demo --keep-events 90d
  unseen serve token reader --scope read --token-file tokens.json
  unseen serve unseen-demo --listen :8080 --token-file tokens.json
  unseen serve unseen-demo --prefix /recs --token-file tokens.json`,
		Args: func(_ *cobra.Command, args []string) (err error) {
			f.options.Folder, err = servedFolder(args)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed("retrain-after")); err != nil {
				return err
			}
			return runServe(cmd, f)
		},
		ValidArgsFunction: oneFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen.Address, "listen", "127.0.0.1:8080", "`address` and port")
	flags.StringVar(&f.options.Prefix, "prefix", "", "serve everything below this `path`, such as /recs")
	flags.StringVar(&f.options.Model, "model", "", "`model` (default DIR/model.safetensors)")
	flags.StringVar(&f.options.Naive, "naive", "", "naive `model` to compare with (default DIR/naive.safetensors)")
	flags.StringVar(&f.options.State, "state", "", "`folder` for models and the log (default DIR, or DIR-state)")
	flags.StringVar(&f.options.Store, "store", "", "event log: a `path` or postgres://… (default events.db)")
	secretFlag(cmd, "store", "the value of --store, such as an address with a password")
	flags.Float64Var(&f.explore, "explore", .1, "share of a list's positions drawn at random")
	flags.IntVar(&f.options.Keep, "keep", 5, "models to keep")
	flags.Var((*daysFlag)(&f.options.KeepEvents), "keep-events",
		"`time` to keep events whole, such as 90d (default: for ever)")
	f.listFlags(cmd)
	flags.DurationVar(&f.options.RetrainEvery, "retrain-every", 0, "time between retrainings (default: on request)")
	flags.Int64Var(&f.options.RetrainAfter, "retrain-after", 1, "new events that a scheduled retraining needs")
	f.deviceFlags.register(cmd, "trains models in jobs")
	flags.StringVar(&f.tokens, "token-file", "", "`file` of tokens (default: no token is needed)")
	flags.BoolVar(&f.options.Open, "open", false, "need no token: a proxy in front authenticates")
	flags.StringArrayVar(&f.options.Origins, "cors-origin", nil,
		"`origin` whose pages may use the API, such as https://shop.example; repeatable")
	flags.StringVar(&f.listen.Cert, "tls-cert", "", "certificate `file`")
	flags.StringVar(&f.listen.Key, "tls-key", "", "private key `file` of the certificate")
	privateFile(cmd, "tls-key")
	flags.Float64Var(&f.options.Rate, "rate", 200, "requests per second for each token")
	flags.IntVar(&f.options.Concurrent, "concurrent", 0, "concurrent recommendations (default: two per processor)")
	flags.DurationVar(&f.listen.Drain, "drain", 10*time.Second, "time for requests to finish after Ctrl-C")
	flags.StringVar(&f.traces, "traces", "",
		"send OpenTelemetry traces to this `address`, such as http://127.0.0.1:4318")
	flags.BoolVar(&f.verbose, "verbose", false, "log every request")
	flags.BoolVar(&f.quiet, "quiet", false, "log only warnings")
	completeFlags(cmd, nil, "listen", "prefix", "store", "explore", "keep", "keep-events", "click-window",
		"link-window", "retrain-every", "retrain-after", "rate", "concurrent", "drain", "cors-origin", "traces")
	cmd.AddCommand(newServeToken())
	return cmd
}

// servedFolder is the one argument of serve.
func servedFolder(args []string) (string, error) {
	switch {
	case len(args) > 1:
		return "", usagef("%d folders to serve, and one can be served; name its model with --model, as in unseen "+
			"serve papers --model model.safetensors", len(args))
	case len(args) == 0 || args[0] == "":
		return "", usagef("name a folder to serve, such as unseen-demo, which unseen demo writes")
	}
	return args[0], nil
}

// listFlags say how lists are made and clicks are read.
func (f *serveFlags) listFlags(cmd *cobra.Command) {
	indexFlags(cmd, &f.options.Recall, &f.options.Exact)
	flags := cmd.Flags()
	flags.DurationVar(&f.options.Clicks.Window, "click-window", 30*time.Minute,
		"time for a click to follow; younger showings wait (0: none)")
	flags.DurationVar(&f.options.Clicks.LinkWindow, "link-window", 24*time.Hour,
		"the same for links, where these say what is wanted")
	flags.StringVar(&f.clicks, "click-model", "", "JSON `file` with known kappa and theta of surfaces")
}

// daysFlag is a duration that may be a number of days, such as 90d.
type daysFlag time.Duration

func (d *daysFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *daysFlag) Type() string { return "time" }

func (d *daysFlag) Set(text string) error {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseFloat(number, 64)
		if err != nil || !(days >= 0 && days <= 36500) {
			return fmt.Errorf("%q is no number of days", text)
		}
		*d = daysFlag(days * 24 * float64(time.Hour))
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	*d = daysFlag(parsed)
	return nil
}

// check says which flag is wrong. retrainAfter is whether --retrain-after was given.
func (f *serveFlags) check(retrainAfter bool) error {
	switch {
	case f.options.Open && f.tokens != "":
		return usagef("--open lets everybody in, and --token-file only those with a token; give one of them")
	case f.options.Prefix != "" && f.options.Prefix[0] != '/':
		return usagef("--prefix is %q; give a path such as /recs", f.options.Prefix)
	case !(f.explore >= 0 && f.explore <= 1):
		return usagef("--explore is %v; give a share from 0 to 1", f.explore)
	case f.options.Keep < 1:
		return usagef("--keep is %d; give at least 1", f.options.Keep)
	case f.options.KeepEvents < 0 || f.options.KeepEvents > 0 && f.options.KeepEvents < time.Hour:
		return usagef("--keep-events is %v; give an hour or more, such as 90d", f.options.KeepEvents)
	case f.options.RetrainEvery < 0 || f.options.RetrainEvery > 0 && f.options.RetrainEvery < time.Second:
		return usagef("--retrain-every is %v; give a second or more, such as 24h", f.options.RetrainEvery)
	case f.options.RetrainAfter < 1:
		return usagef("--retrain-after is %d; give at least 1", f.options.RetrainAfter)
	case f.options.RetrainEvery == 0 && retrainAfter:
		return usagef("--retrain-after needs --retrain-every, such as 24h")
	case f.options.Clicks.Window < 0 || f.options.Clicks.LinkWindow < 0:
		return usagef("--click-window is %v and --link-window %v; give times such as 30m, or 0 for no limit",
			f.options.Clicks.Window, f.options.Clicks.LinkWindow)
	case !(f.options.Rate > 0):
		return usagef("--rate is %v; give requests per second, more than 0", f.options.Rate)
	case f.options.Concurrent < 0:
		return usagef("--concurrent is %d; give at least 1, or leave it out", f.options.Concurrent)
	}
	return cmp.Or(checkRecall(f.options.Recall), checkTraces(f.traces),
		f.deviceFlags.check(func(string) bool { return false }))
}

func runServe(cmd *cobra.Command, f serveFlags) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	if f.quiet {
		level = slog.LevelWarn
	}
	o := f.options
	o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	if o.Explore = f.explore; o.Explore == 0 {
		o.Explore = -1 // none, where 0 would mean the default
	}
	for _, window := range []*time.Duration{&o.Clicks.Window, &o.Clicks.LinkWindow} {
		if *window == 0 {
			*window = -1 // for ever
		}
	}
	if f.clicks != "" {
		var err error
		if o.Clicks.Given, err = serve.OpenClicks(f.clicks); err != nil {
			return err
		}
	}
	if f.tokens != "" {
		var err error
		o.Tokens, err = serve.OpenTokens(f.tokens)
		if errors.Is(err, serve.ErrNoTokens) {
			return fmt.Errorf("%w; add one: unseen serve token NAME --token-file %s", err, quoted(f.tokens))
		}
		if err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
	defer stop()
	if f.traces != "" {
		provider, send, err := startTraces(ctx, f.traces, o.Log)
		if err != nil {
			return err
		}
		defer send()
		o.Traces = provider
	}
	done, err := f.openDevice(&o)
	if err != nil {
		return err
	}
	defer done()
	s, err := serve.Open(ctx, o)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; unseen demo writes one to try", err)
	}
	if err != nil {
		return err
	}
	f.listen.Started = func(url string) {
		fmt.Fprintf(cmd.OutOrStdout(), "Serving %s at %s\nOpen it in a browser. Lists: %[2]s/explore. "+
			"API: %[2]s/docs. Stop with Ctrl-C.\n", filepath.Clean(o.Folder), url)
	}
	err = s.Run(ctx, f.listen)
	if errors.Is(err, serve.ErrUnprotected) {
		err = &usageError{err}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped by a signal
	}
	return errors.Join(err, s.Close())
}

// openDevice lets a card train models in jobs. Lists stay the processor's: each is made in no time, and many at once.
func (f *serveFlags) openDevice(o *serve.Options) (done func(), err error) {
	device, done, tried, err := f.deviceFlags.open(1)
	if err != nil {
		return nil, err
	}
	for _, warning := range tried {
		o.Log.Warn(warning)
	}
	if _, onCard := device.(*gpu.OnCard); onCard {
		o.JobEngine = device
		o.Log.Info("a graphics card trains models in jobs")
	}
	return done, nil
}

func newServeToken() *cobra.Command {
	var scope, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token for a service",
		Long: `Make a token and print it once: the file keeps only its SHA-256. A token with
scope read can get recommendations, one with scope write can also log events,
and one with scope admin can also train, deploy and test models, and forget
people and nodes. To revoke a token, remove its entry from the file; a running
service notices within a second.`,
		Example: `  unseen serve token website --scope write --token-file tokens.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name the token, as in unseen serve token website --token-file tokens.json")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("--token-file is missing; name the file that the service reads")
			}
			secret, err := serve.AddToken(file, args[0], serve.Scope(scope), time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{"name": args[0], "scope": scope, "token": secret})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), secret)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&scope, "scope", "read", "read, write or admin")
	cmd.Flags().StringVar(&file, "token-file", "", "`file` to add the token to")
	jsonFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"scope": {"read", "write", "admin"}})
	return cmd
}
