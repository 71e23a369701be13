package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// cleanPrefix turns "/recs/" into "/recs" and "/" into "". It rejects characters that need escaping,
// because a proxy may escape them differently than a browser.
func cleanPrefix(prefix string) (string, error) {
	clean := strings.TrimRight(prefix, "/")
	if clean == "" {
		return "", nil
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
	if clean[0] != '/' || path.Clean(clean) != clean || strings.Trim(clean, plain) != "" {
		return "", fmt.Errorf("prefix %q is not a valid path; give one such as /recs, of letters, digits and - . _ ~",
			prefix)
	}
	return clean, nil
}

// at returns a path of the service with the prefix.
func (s *Service) at(path string) string { return s.o.Prefix + path }

// nodeAt returns the path of a node's page.
func (s *Service) nodeAt(id string) string { return s.at("/node/" + url.PathEscape(id)) }

// dataAt returns the path of the page with a node's data.
func (s *Service) dataAt(id string) string { return s.at("/data/node?id=" + url.QueryEscape(id)) }

// route adds the prefix to a pattern, such as "GET /docs".
func (s *Service) route(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	return method + " " + s.at(path)
}

// redirectPrefix redirects the prefix itself to the first page below it.
func (s *Service) redirectPrefix(mux *http.ServeMux) {
	if s.o.Prefix != "" {
		mux.Handle("GET "+s.o.Prefix, http.RedirectHandler(s.at("/"), http.StatusTemporaryRedirect))
	}
}
