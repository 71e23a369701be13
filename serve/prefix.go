package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// cleanPrefix makes "/recs" of "/recs/", and nothing of "/". Letters and signs that would have to
// be escaped are refused: a proxy may write them in another way than a browser.
func cleanPrefix(prefix string) (string, error) {
	clean := strings.TrimRight(prefix, "/")
	if clean == "" {
		return "", nil
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
	if clean[0] != '/' || path.Clean(clean) != clean || strings.Trim(clean, plain) != "" {
		return "", fmt.Errorf("serve: the prefix %q is no path; give one such as /recs, of letters, digits and - . _ ~", prefix)
	}
	return clean, nil
}

// at is where a path of the service is.
func (s *Service) at(path string) string { return s.o.Prefix + path }

// nodeAt is where a node's page is.
func (s *Service) nodeAt(id string) string { return s.at("/node/" + url.PathEscape(id)) }

// route puts the prefix into a pattern, such as "GET /docs".
func (s *Service) route(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	return method + " " + s.at(path)
}

// prefixed leads who asks for the prefix itself to the first page below it.
func (s *Service) redirectPrefix(mux *http.ServeMux) {
	if s.o.Prefix != "" {
		mux.Handle("GET "+s.o.Prefix, http.RedirectHandler(s.at("/"), http.StatusTemporaryRedirect))
	}
}
