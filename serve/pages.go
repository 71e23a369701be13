package serve

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/internal/amount"
)

//go:embed pages
var pageFiles embed.FS

// tokenCookie is the cookie in which a browser keeps its token.
const tokenCookie = "unseen_token"

// site serves the pages for people: HTML that works without scripts; htmx replaces parts of it as people type, and
// charts are drawn from the numbers in the page. Everything comes from this binary.
type site struct {
	s     *Service
	mux   *http.ServeMux
	pages map[string]*template.Template
}

// pageSpec is a page of the site: its link in the navigation, and the scripts it needs besides htmx.
type pageSpec struct {
	link   string // path of its link in the navigation
	script string // its own module
	lines  bool   // uPlot
	maps   bool   // ECharts
}

var pageSpecs = map[string]pageSpec{
	"overview": {link: "/"},
	"data":     {link: "/"},
	"explore":  {link: "/explore"},
	"list":     {link: "/explore"},
	"exposure": {link: "/exposure", script: "exposure", maps: true},
	"loop":     {link: "/loop", script: "loop", lines: true},
	"bridges":  {link: "/bridges", script: "bridges", maps: true},
	"runs":     {link: "/runs", script: "runs", lines: true},
	"docs":     {link: "/docs"},
	"login":    {},
	"error":    {},
	"refused":  {},
}

// navigation lists the links of the navigation.
var navigation = []struct{ Path, Name string }{
	{"/", "Overview"}, {"/explore", "Explore"}, {"/exposure", "Exposure"}, {"/loop", "Loop"},
	{"/bridges", "Bridges"}, {"/runs", "Runs"}, {"/docs", "API"},
}

// pageFrame is the data of frame.html.
type pageFrame struct {
	Links   []navLink
	Tour    bool
	Alarm   string
	Script  string
	Lines   bool
	Maps    bool
	Content any
}

type navLink struct {
	Path, Name string
	Here       bool
}

// templateFuncs are the functions of the templates.
var templateFuncs = template.FuncMap{
	"percent": percent,
	"share":   share,
	"tenth":   func(x float64) string { return fmt.Sprintf("%.1f%%", math.Floor(1000*x)/10) }, // never too much
	"two":     func(x float64) string { return fmt.Sprintf("%.2f", x) },
	"three":   func(x float64) string { return fmt.Sprintf("%.3g", x) },
	"count": func(n any) string {
		switch n := n.(type) {
		case int:
			return amount.Text(n)
		case int64:
			return amount.Text(n)
		case *int64:
			return amount.Text(*n)
		}
		return fmt.Sprint(n)
	},
	"amount": func(n int, noun string) string { return amount.Of(n, noun) },
	"short":  func(digest string) string { return fmt.Sprintf("%.8s", digest) },
	"day":    func(t time.Time) string { return t.Format("2 January 2006, 15:04 MST") },
	"meter":  func(x float64) string { return fmt.Sprintf("%.1f%%", 100*min(max(x, 0), 1)) },
	"body":   bodyOf,
	"check":  checked,
}

// percent formats a share so that small ones do not round to 0%.
func percent(x float64) string {
	switch p := 100 * x; {
	case p != 0 && math.Abs(p) < 1:
		return strconv.FormatFloat(p, 'g', 2, 64) + "%"
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

// share formats a share with two digits, or three of 100%.
func share(x float64) string {
	if p := 100 * x; math.Abs(p) < 10 {
		return strconv.FormatFloat(p, 'g', 2, 64) + "%"
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

// bodyOf returns the schema of an operation's body.
func bodyOf(op *huma.Operation) string {
	if op.RequestBody == nil {
		return ""
	}
	raw, err := json.MarshalIndent(op.RequestBody.Content["application/json"].Schema, "", "  ")
	if err != nil {
		return ""
	}
	return string(raw)
}

// sitePages registers every page.
func (s *Service) sitePages(mux *http.ServeMux, api huma.API) *site {
	p := &site{s: s, mux: mux, pages: map[string]*template.Template{}}
	places := template.FuncMap{"at": s.at, "node": s.nodeAt, "data": s.dataAt}
	for name := range pageSpecs {
		p.pages[name] = template.Must(template.New("frame.html").Funcs(templateFuncs).Funcs(places).ParseFS(pageFiles,
			"pages/frame.html", "pages/"+name+".html"))
	}
	p.overview()
	p.data()
	p.explore()
	p.exposure()
	p.loop()
	p.bridges()
	p.runs()
	operations := operationsOf(api.OpenAPI())
	p.read("GET /docs", "page-docs", func(w http.ResponseWriter, r *http.Request) error {
		p.show(w, r, http.StatusOK, "docs", map[string]any{"API": api.OpenAPI(), "Operations": operations})
		return nil
	})
	p.read("GET /alarm", "page-alarm", func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		return p.pages["error"].ExecuteTemplate(w, "alarm", s.monitor.alarming())
	})
	mux.HandleFunc(s.route("GET /login"), func(w http.ResponseWriter, r *http.Request) {
		p.show(w, r, http.StatusOK, "login", map[string]bool{"Wrong": false})
	})
	mux.HandleFunc(s.route("POST /login"), func(w http.ResponseWriter, r *http.Request) {
		secret := r.PostFormValue("token")
		if s.o.Tokens != nil {
			if _, ok := s.o.Tokens.find(secret); !ok {
				p.show(w, r, http.StatusUnauthorized, "login", map[string]bool{"Wrong": true})
				return
			}
		}
		http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: secret, Path: s.at("/"), HttpOnly: true,
			SameSite: http.SameSiteStrictMode, Secure: overTLS(r), MaxAge: 12 * 3600})
		http.Redirect(w, r, s.at("/"), http.StatusSeeOther)
	})
	s.assets(mux)
	return p
}

// show responds with a page.
func (p *site) show(w http.ResponseWriter, r *http.Request, status int, name string, content any) {
	of := pageSpecs[name]
	f := pageFrame{Script: of.script, Lines: of.lines, Maps: of.maps, Content: content}
	if name != "login" && name != "refused" { // a visitor without a token learns nothing
		f.Alarm, f.Tour = p.s.monitor.alarming(), name != "error"
		for _, to := range navigation {
			f.Links = append(f.Links, navLink{p.s.at(to.Path), to.Name, to.Path == of.link})
		}
	}
	var b bytes.Buffer
	if err := p.pages[name].Execute(&b, f); err != nil {
		panic(fmt.Errorf("page %s: %w", name, err)) // becomes a 500 with the request's id
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails only if the client is gone
}

// errorText returns the status and the text of an error for a person. Internal errors are logged instead.
func (p *site) errorText(r *http.Request, err error) (int, string) {
	if found, known := p.s.problem(err); known {
		return found.Status, found.Detail
	}
	p.s.o.Log.ErrorContext(r.Context(), "page failed", "request", requestID(r.Context()), "path", clip(r.URL.Path),
		"error", err)
	return http.StatusInternalServerError, "Internal error. The service's log has the details under request " +
		requestID(r.Context())
}

func (p *site) showError(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := p.errorText(r, err)
	if missing, is := errors.AsType[*RequestError](err); is && missing.NotFound && missing.Field == "id" {
		detail = fmt.Sprintf("There is no node with the id “%v”.", missing.Value)
	}
	p.show(w, r, status, "error", map[string]string{"Title": http.StatusText(status), "Detail": detail})
}

// read registers a page that changes nothing.
func (p *site) read(pattern, operation string, do func(http.ResponseWriter, *http.Request) error) {
	p.mux.HandleFunc(p.s.route(pattern), func(w http.ResponseWriter, r *http.Request) {
		callerOf(r.Context()).operation = operation
		if refused := p.s.admit(r, ScopeRead); refused != nil {
			p.refuse(w, r, refused)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		r = r.WithContext(ctx)
		if err := do(w, r); err != nil {
			p.showError(w, r, err)
		}
	})
}

// pageForm is the target of a form. Calls are written to the audit log. Forms of other sites are rejected before; see
// Handler.
type pageForm struct {
	pattern, operation string
	scope              Scope
	do                 func(*http.Request) (to string, err error)      // does it, and says which page says so
	again              func(http.ResponseWriter, *http.Request, error) // shows what was sent, with the error
}

// form registers the target of a form. htmx keeps the page with what was typed whatever happens, and is told where to
// go; without scripts there is a redirect.
func (p *site) form(f pageForm) {
	p.mux.HandleFunc(p.s.route(f.pattern), func(w http.ResponseWriter, r *http.Request) {
		callerOf(r.Context()).operation = f.operation
		defer p.s.auditCall(w, r, r.URL.Path, f.scope != ScopeAdmin) // what is written is durable by itself
		if refused := p.s.admit(r, f.scope); refused != nil {
			p.refuse(w, r, refused)
			return
		}
		leave, refused := p.s.takeForm(w, r)
		defer leave()
		if refused != nil {
			refused.write(w, requestID(r.Context()))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		r = r.WithContext(ctx)
		to, err := f.do(r)
		switch {
		case err != nil:
			f.again(w, r, err)
		case r.Header.Get("HX-Request") != "":
			w.Header().Set("HX-Redirect", p.s.at(to))
		default:
			http.Redirect(w, r, p.s.at(to), http.StatusSeeOther)
		}
	})
}

// change registers the target of a form of the page of runs, which says what was done.
func (p *site) change(pattern, operation string, do func(*http.Request) (did string, err error)) {
	p.form(pageForm{pattern, operation, ScopeAdmin, func(r *http.Request) (string, error) {
		did, err := do(r)
		return "/runs?did=" + did, err
	}, p.showError})
}

func (p *site) refuse(w http.ResponseWriter, r *http.Request, refused *problem) {
	switch {
	case r.Header.Get("HX-Request") != "": // the page stays, and says so
		refused.write(w, requestID(r.Context()))
	case refused.Status == http.StatusUnauthorized:
		http.Redirect(w, r, p.s.at("/login"), http.StatusSeeOther)
	case refused.Status == http.StatusForbidden:
		p.show(w, r, refused.Status, "error", map[string]string{"Title": refused.Title, "Detail": refused.Detail})
	default:
		refused.write(w, requestID(r.Context()))
	}
}

// hasScope reports whether the caller's token, if one is needed, has a scope.
func (p *site) hasScope(r *http.Request, need Scope) bool {
	return p.s.o.Tokens == nil || p.s.scopeOf(r.Context()).covers(need)
}

// asset is a script, style or picture of the pages.
type asset struct {
	kind    string
	plain   []byte
	packed  []byte // gzip; nil where that saves little
	tag     string
	forever bool // its name contains its version
}

// assets registers scripts and styles. They need no token.
func (s *Service) assets(mux *http.ServeMux) {
	for name, a := range packedAssets() {
		mux.HandleFunc(s.route("GET /assets/"+name), a.serve)
	}
}

// packedAssets reads and compresses them, once.
var packedAssets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{}
	add := func(name string, plain []byte) {
		sum := sha256.Sum256(plain)
		a := &asset{kind: mime.TypeByExtension(path.Ext(name)), plain: plain, tag: `"` + hex.EncodeToString(sum[:8]) +
			`"`, forever: strings.HasPrefix(name, "vendor/")}
		if path.Ext(name) == ".js" { // whatever the system's MIME table says
			a.kind = "text/javascript; charset=utf-8"
		}
		var b bytes.Buffer
		pack := gzip.NewWriter(&b)
		if _, err := pack.Write(plain); err == nil && pack.Close() == nil && b.Len() < len(plain)*9/10 {
			a.packed = b.Bytes()
		}
		all[name] = a
	}
	err := fs.WalkDir(pageFiles, "pages/assets", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := pageFiles.ReadFile(file)
		if err == nil && slices.Contains([]string{".js", ".css", ".svg"}, path.Ext(file)) {
			add(strings.TrimPrefix(file, "pages/assets/"), raw)
		}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
	add("palette.css", []byte(figure.StyleSheet()))
	return all
})

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if a.forever {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := a.plain
	if a.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = a.packed
	}
	_, _ = w.Write(content) // fails only if the client is gone
}

// badge is a verdict with a colour, and a sign for people who do not see colours.
type badge struct{ Tone, Sign, Text string }

// verdict is the doctor's verdict as a badge. Only what was checked and found identified is green.
func verdict(c fit.Class) badge {
	switch c {
	case fit.Identified:
		return badge{"good", "✓", string(c)}
	case fit.Weak:
		return badge{"fair", "~", string(c)}
	case fit.NotIdentified, fit.NoExposure:
		return badge{"bad", "✗", string(c)}
	}
	return badge{"calm", "?", c.Label()}
}

// checked is a check of a model as a badge. That a model may be deployed does not make a doubtful one green.
func checked(c Check) badge {
	switch {
	case !c.Passed:
		return badge{"bad", "✗", c.Name}
	case c.Skipped:
		return badge{"calm", "?", c.Name}
	case c.Name != doctorCheck:
		return badge{"good", "✓", c.Name}
	}
	out := verdict(c.Class)
	if out.Text = c.Name; out.Tone == "bad" { // as the live model is
		out.Tone, out.Sign = "fair", "~"
	}
	return out
}

// preference is a decision between two models as a badge.
func preference(p evaluate.Preference) badge {
	switch p {
	case evaluate.PreferOwn:
		return badge{"good", "✓", string(p)}
	case evaluate.PreferOther:
		return badge{"bad", "✗", string(p)}
	case evaluate.PreferOwnIf, evaluate.PreferOtherIf, evaluate.Depends:
		return badge{"fair", "~", string(p)}
	}
	return badge{"calm", "?", string(p)}
}

// scale maps numbers to positions in a chart.
type scale struct{ Low, High float64 }

// including extends a scale.
func (s *scale) including(x ...float64) {
	for _, v := range x {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.Low, s.High = min(s.Low, v), max(s.High, v)
		}
	}
}

// at is the position of a number, as a share of the width.
func (s scale) at(x float64) string {
	if !(s.High > s.Low) {
		return "50%"
	}
	return fmt.Sprintf("%.2f%%", 100*min(max((x-s.Low)/(s.High-s.Low), 0), 1))
}

// span is an interval drawn as SVG.
type span struct {
	From, At, To string // shares of the width
	Zero         string
	Band         *struct{ X, Width string }
	Class        string
	Label        string
}

func (s scale) span(low, at, high float64, class, label string) span {
	out := span{From: s.at(low), At: s.at(at), To: s.at(high), Class: class, Label: label}
	if s.Low < 0 && s.High > 0 {
		out.Zero = s.at(0)
	}
	return out
}

// banded adds an expected range behind a span.
func (s scale) banded(of span, low, high float64) span {
	from, to := max(low, s.Low), min(high, s.High)
	out := &struct{ X, Width string }{s.at(from), fmt.Sprintf("%.2f%%", 100*max(to-from, 0)/(s.High-s.Low))}
	of.Band = out
	return of
}

// operationsOf lists all operations of the API by path.
func operationsOf(api *huma.OpenAPI) []*huma.Operation {
	var all []*huma.Operation
	for _, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	slices.SortFunc(all, func(a, b *huma.Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	return all
}
