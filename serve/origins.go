package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"unseen/hint"
)

// cleanOrigins checks origins and writes them as browsers do.
func cleanOrigins(list []string) ([]string, error) {
	clean := make([]string, 0, len(list))
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(text, "*") {
			return nil, hint.Wrap(fmt.Errorf("%q is not an origin", text),
				"give %v as https://shop.example, each by its own name", hint.Setting("origins"))
		}
		host := strings.ToLower(u.Host)
		if name, port, err := net.SplitHostPort(host); err == nil && (u.Scheme == "http" && port == "80" ||
			u.Scheme == "https" && port == "443") {
			if host = name; strings.Contains(name, ":") {
				host = "[" + name + "]"
			}
		}
		clean = append(clean, u.Scheme+"://"+host)
	}
	return clean, nil
}

// allowOrigin reports whether a page of one of Options.Origins sends a request, and tells the browser that this page
// may read the answer. Cookies do not count for it: a page has to send a token that it was given.
func (s *Service) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	if len(s.o.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(s.o.Origins, origin) || len(r.Header.Values("Origin")) != 1 {
		return false
	}
	callerOf(r.Context()).foreign = true
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Location, Retry-After, X-Request-Id")
	if isPreflight(r) {
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id, Traceparent")
		h.Set("Access-Control-Max-Age", "600")
	}
	return true
}

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
