package serve

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed pages
var pageFiles embed.FS

// tokenCookie is where a browser keeps its token.
const tokenCookie = "unseen_token"

// page reads a page and what is around it.
func page(name string) *template.Template {
	words := template.FuncMap{
		"percent": func(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) },
		"two":     func(x float64) string { return fmt.Sprintf("%.2f", x) },
		"body":    bodyOf,
	}
	return template.Must(template.New("frame.html").Funcs(words).ParseFS(pageFiles, "pages/frame.html", "pages/"+name+".html"))
}

// bodyOf names the parts of an operation's body.
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

// pages are what a person opens in a browser: plain HTML, made here, with no script.
func (s *Service) pages(mux *http.ServeMux, api huma.API) {
	start, list, docs, login, fault := page("start"), page("list"), page("docs"), page("login"), page("fault")
	show := func(w http.ResponseWriter, status int, t *template.Template, content any) {
		var b bytes.Buffer
		if err := t.Execute(&b, content); err != nil {
			panic(fmt.Errorf("page %s: %w", t.Name(), err)) // answered as 500, with the request's id
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(b.Bytes()) // who has gone does not read it
	}
	wrong := func(w http.ResponseWriter, err error) {
		status, detail := http.StatusInternalServerError, "The service has a fault."
		if e, ok := errors.AsType[huma.StatusError](problem(err)); ok {
			status, detail = e.GetStatus(), e.Error()
		}
		show(w, status, fault, map[string]string{"Title": http.StatusText(status), "Detail": detail})
	}
	open := func(pattern, operation string, do http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			callerOf(r.Context()).operation = operation
			if no := s.admit(r, Read); no != nil {
				if no.status == http.StatusUnauthorized {
					http.Redirect(w, r, "/login", http.StatusSeeOther)
					return
				}
				writeProblem(w, no.status, no.detail, requestID(r.Context()), no.wait)
				return
			}
			do(w, r)
		})
	}
	open("GET /{$}", "page-start", func(w http.ResponseWriter, r *http.Request) {
		q := strings.ToValidUTF8(r.URL.Query().Get("q"), "")
		const most = 20
		from := 0
		if q == "" {
			from = max(s.Graph().Len()-most, 0) // the newest have most to find
		}
		found, err := s.Search(r.Context(), q[:min(len(q), 200)], "", from, most)
		if err != nil {
			wrong(w, err)
			return
		}
		m, err := s.ModelDetail()
		if err != nil {
			wrong(w, err)
			return
		}
		show(w, http.StatusOK, start, map[string]any{"Q": q, "Found": found, "Model": m, "Loop": s.Loop()})
	})
	recommended := func(w http.ResponseWriter, r *http.Request, ask Ask) {
		ask.Compare = s.now.Load().current.HasNaive()
		a, err := s.Recommend(r.Context(), ask)
		if err != nil {
			wrong(w, err)
			return
		}
		show(w, http.StatusOK, list, map[string]any{"Answer": a, "Text": clip(ask.Text)})
	}
	open("GET /node/{id}", "page-node", func(w http.ResponseWriter, r *http.Request) {
		recommended(w, r, Ask{Node: r.PathValue("id")})
	})
	open("GET /text", "page-text", func(w http.ResponseWriter, r *http.Request) {
		recommended(w, r, Ask{Text: r.URL.Query().Get("text")})
	})
	operations := operationsOf(api)
	open("GET /docs", "page-docs", func(w http.ResponseWriter, r *http.Request) {
		show(w, http.StatusOK, docs, map[string]any{"API": api.OpenAPI(), "Operations": operations})
	})
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		show(w, http.StatusOK, login, map[string]bool{"Wrong": false})
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		secret := r.PostFormValue("token")
		if s.o.Tokens != nil {
			if _, ok := s.o.Tokens.find(secret); !ok {
				show(w, http.StatusUnauthorized, login, map[string]bool{"Wrong": true})
				return
			}
		}
		http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil, MaxAge: 12 * 3600})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /assets/style.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		http.ServeFileFS(w, r, pageFiles, "pages/style.css")
	})
}

// operationsOf lists all operations of the API, by their path.
func operationsOf(api huma.API) []*huma.Operation {
	var all []*huma.Operation
	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
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
