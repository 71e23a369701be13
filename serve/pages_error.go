package serve

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// showProblem shows a page where a browser meets an error.
func (p *site) showProblem(w http.ResponseWriter, r *http.Request, status int, document []byte) {
	var found problem
	if err := json.Unmarshal(document, &found); err != nil {
		found = *newProblem(status, errInternal)
	}
	name := "error"
	if status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusMisdirectedRequest {
		name = "refused" // who has no access learns nothing
	}
	detail := sentence(found.Detail)
	if strings.HasPrefix(found.Detail, "no such path;") && !strings.HasPrefix(r.URL.Path, p.s.at("/api/")) {
		detail = "There is no such page."
	}
	w.Header().Del("Content-Length")
	p.show(w, r, status, name, map[string]string{"Title": found.Title, "Detail": detail,
		"Request": requestID(r.Context())})
}

// sentence makes the text of an error, which begins small and ends without a point, a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}

// prefersHTML reports whether a request asks for HTML before JSON, as browsers do for what people open.
func prefersHTML(r *http.Request) bool {
	if r.Header.Get("HX-Request") != "" {
		return false // a part of a page
	}
	var html, data float64
	for _, list := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(list, ",") {
			kind, parameters, err := mime.ParseMediaType(one)
			if err != nil {
				continue
			}
			weight := 1.
			if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
				weight = q
			}
			switch {
			case kind == "text/html":
				html = max(html, weight)
			case kind == "application/json", strings.HasSuffix(kind, "+json"):
				data = max(data, weight)
			}
		}
	}
	return html > data
}
