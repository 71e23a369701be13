package serve

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"unseen/fit"
	"unseen/serve/store"
)

// dataForms sends forms of the data pages to a service with tokens.
type dataForms struct {
	t      testing.TB
	s      *Service
	h      http.Handler
	tokens map[Scope]string
}

// openData opens a service on texts, where nodes can be added.
func openData(t testing.TB) dataForms {
	t.Helper()
	o := Options{Folder: worded(t, fit.Settings{Replicates: 2, Doctor: fit.QuickDoctor}), Explore: -1}
	withAll, tokens := withTokens(t)
	withAll(&o)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return dataForms{t, s, s.Handler(), tokens}
}

func (d dataForms) send(path string, scope Scope, form url.Values, headers ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if scope != "" {
		r.Header.Set("Cookie", tokenCookie+"="+d.tokens[scope])
	}
	for k := 0; k < len(headers); k += 2 {
		r.Header.Set(headers[k], headers[k+1])
	}
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	return w
}

// form is what a node's page would send if nothing were typed.
func (d dataForms) form(id string) url.Values {
	d.t.Helper()
	page := d.client(ScopeWrite).do("GET", "/data/node?id="+url.QueryEscape(id), nil)
	if page.Code != 200 {
		d.t.Fatalf("%s: %d %s", id, page.Code, page.Body)
	}
	body := page.Body.String()
	body = body[strings.Index(body, `<form id="edit"`):]
	body = body[:strings.Index(body, "</form>")]
	out := url.Values{}
	for _, found := range regexp.MustCompile(`<input [^>]*name="([^"]*)" value="([^"]*)"`).
		FindAllStringSubmatch(body, -1) {
		out.Set(found[1], strings.ReplaceAll(html.UnescapeString(found[2]), "\n", ""))
	}
	for _, found := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>`).
		FindAllStringSubmatch(body, -1) {
		out.Set(found[1], strings.ReplaceAll(unixLines(html.UnescapeString(found[2])), "\n", "\r\n"))
	}
	if found := regexp.MustCompile(`<option value="([^"]*)" selected>`).FindStringSubmatch(body); found != nil {
		out.Set("field", html.UnescapeString(found[1]))
	}
	return out
}

func (d dataForms) client(scope Scope) client { return client{t: d.t, h: d.h, token: d.tokens[scope]} }

// A node is added, looked up, changed and removed by its forms, and the lists follow. What is refused leaves everything
// as it was and keeps what was typed. Long because it is one story.
func TestDataForms(t *testing.T) {
	t.Parallel()
	d := openData(t)
	c := d.client(ScopeWrite)
	g := d.s.Graph()
	list := func(node string) RecommendResponse {
		t.Helper()
		return want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?k=241&linked=true&node="+node, nil)
	}
	liked := list("p200").Items[0]
	title, field := liked.Title, "="+liked.Field
	// events that wait for a node name it where it is looked up, and go into the log with it
	want[EventResult](c, 200, "POST", "/api/v1/events", eventBatch{[]store.LogEvent{{ID: "e1", Kind: store.Clicked,
		Source: "p200", Target: "new <1>"}}})
	if body := c.do("GET", "/data?q=new+%3C1%3E", nil).Body.String(); !strings.Contains(body, "1 event about") ||
		!strings.Contains(body, `add=new%20%3c1%3e#add`) {
		t.Errorf("what waits is not named: %s", body)
	}
	if o := want[Overview](c, 200, "GET", "/api/v1/overview", nil); fmt.Sprint(o.Waiting) !=
		"[1 event about ids that are no nodes yet]" {
		t.Errorf("waiting: %q", o.Waiting)
	}
	fresh := url.Values{"id": {" new <1> "}, "title": {title}, "field": {field}, "time": {"2024"},
		"links": {"p3\r\n\r\np4"}}
	w := d.send("/data/add", ScopeWrite, fresh)
	if w.Code != 303 || w.Header().Get("Location") != "/data/node?did=added&id=new+%3C1%3E&events=1" {
		t.Fatalf("%d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	if o := want[Overview](c, 200, "GET", "/api/v1/overview", nil); fmt.Sprint(o.Waiting) !=
		"[1 node added or changed since the live model was trained]" {
		t.Errorf("waiting: %q", o.Waiting)
	}
	page := c.do("GET", w.Header().Get("Location"), nil).Body.String()
	for _, says := range []string{"Added. 1 event that waited for it went into the log.", "Lists can have it",
		"added since the live model", `value="2024-01-01"`, "p3\np4</textarea>", `value="new &lt;1&gt;"`} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
	if at := place(list("p200"), "new <1>"); at == 0 || at > 3 {
		t.Errorf("the twin of the first is at %d", at)
	}
	if w := d.send("/data/add", ScopeWrite, fresh); w.Code != 409 ||
		!strings.Contains(w.Body.String(), "is there already") ||
		!strings.Contains(w.Body.String(), `value="`+html.EscapeString(title)+`"`) {
		t.Errorf("twice: %d %s", w.Code, w.Body)
	}

	// nothing typed, nothing changed: also of texts with line breaks, of nodes of the dataset and of whatever they have
	strange := NodeInput{ID: "a/..", Title: ptr("two\nlines <script>alert(1)</script> \"'"),
		Text: ptr("\n\r\none\r\ntwo &amp; "), Time: ptr("2021-05-06T07:08:09Z"), Links: &[]string{"p1", "gone"}}
	want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes", nodeBatch{[]NodeInput{strange}})
	for _, id := range []string{"p17", "p200", "new <1>", "a/.."} {
		before, err := d.s.catalogue.find(id)
		if err != nil {
			t.Fatal(err)
		}
		if w := d.send("/data/save", ScopeWrite, d.form(id)); w.Code != 303 ||
			!strings.Contains(w.Header().Get("Location"), "did=same") {
			t.Errorf("%s: %d to %q: %s", id, w.Code, w.Header().Get("Location"), w.Body)
		}
		if after, err := d.s.catalogue.find(id); err != nil || !before.same(after) {
			t.Errorf("%s: %v %+v", id, err, after)
		}
	}
	if body := c.do("GET", "/data/node?id=a%2F..", nil).Body.String(); strings.Contains(body, "<script>alert") {
		t.Error("a title is markup")
	}

	// another title takes it elsewhere; what cannot be saved is said, and stays in the form
	least := list("p200").Items[238].ID
	i, _ := g.Index(least)
	change := d.form("new <1>")
	change.Set("title", g.Title(i))
	change.Set("time", "soon")
	change.Set("text", "typed with care")
	w = d.send("/data/save", ScopeWrite, change)
	if body := w.Body.String(); w.Code != 422 || !strings.Contains(body, "time is not a time; give one such as 2021") ||
		!strings.Contains(body, "typed with care") || !strings.Contains(body, `value="soon"`) ||
		!strings.Contains(body, html.EscapeString(g.Title(i))) || strings.Count(body, "aria-invalid") != 1 {
		t.Errorf("%d %s", w.Code, body)
	}
	change.Set("time", "")
	change.Set("text", "")
	if w = d.send("/data/save", ScopeWrite, change, "HX-Request", "true"); w.Code != 200 ||
		!strings.HasPrefix(w.Header().Get("HX-Redirect"), "/data/node?did=saved") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if at := place(list("p200"), "new <1>"); at < 100 {
		t.Errorf("with the title of the last it is at %d", at)
	}
	// somebody else was faster
	change.Set("title", "too late")
	w = d.send("/data/save", ScopeWrite, change)
	if w.Code != 409 || !strings.Contains(w.Body.String(), "changed by somebody else") ||
		!strings.Contains(w.Body.String(), `value="too late"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n, _ := d.s.catalogue.find("new <1>"); n.Title != g.Title(i) {
		t.Errorf("the other change is lost: %q", n.Title)
	}

	if w := d.send("/data/remove", ScopeWrite, url.Values{"id": {"new <1>"}}); w.Code != 422 ||
		!strings.Contains(w.Body.String(), "nothing was removed") || place(list("p200"), "new <1>") == 0 {
		t.Errorf("without a confirmation: %d %s", w.Code, w.Body)
	}
	yes := url.Values{"id": {"new <1>"}, "confirm": {"yes"}}
	for _, did := range []string{"removed", "gone"} {
		if w := d.send("/data/remove", ScopeWrite, yes); w.Header().Get("Location") != "/data?did="+did {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	if place(list("p200"), "new <1>") != 0 || c.do("GET", "/data/node?id=new+%3C1%3E", nil).Code != 404 {
		t.Error("a removed node is there")
	}
	change.Set("title", "typed before it was removed")
	if w := d.send("/data/save", ScopeWrite, change); w.Code != 404 || !strings.Contains(w.Body.String(),
		`value="typed before it was removed"`) || !strings.Contains(w.Body.String(), `action="/data/add"`) {
		t.Errorf("saving what was removed: %d %s", w.Code, w.Body)
	}
	raw, err := os.ReadFile(filepath.Join(d.s.o.State, "audit.log"))
	if err != nil || !strings.Contains(string(raw), `"token":"write","remote":"192.0.2.1:1234","method":"POST",`+
		`"path":"/data/remove","status":303`) || strings.Contains(string(raw), "new") {
		t.Errorf("%v, audit %s", err, raw)
	}
}

// Who may only read sees a node and no forms. Neither they nor pages of other sites change anything, nor does a form
// that is too large or damaged.
func TestAttackDataForms(t *testing.T) {
	t.Parallel()
	d := openData(t)
	before, err := d.s.catalogue.find("p17")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]url.Values{"/data/save": d.form("p17"), "/data/remove": {"id": {"p17"}, "confirm": {"yes"}},
		"/data/add": {"id": {"p17"}, "title": {"x"}}}
	forms["/data/save"].Set("title", "changed")
	for path, form := range forms {
		for _, refused := range []struct {
			scope   Scope
			headers []string
			status  int
		}{
			{"", nil, 303}, {"", []string{"HX-Request", "true"}, 401}, {ScopeRead, nil, 403},
			{ScopeRead, []string{"HX-Request", "true"}, 403},
			{ScopeAdmin, []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{ScopeWrite, []string{"Sec-Fetch-Site", "same-site"}, 403},
			{ScopeWrite, []string{"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, 403},
			{ScopeWrite, []string{"Origin", "null", "Sec-Fetch-Site", ""}, 403},
		} {
			if w := d.send(path, refused.scope, form, refused.headers...); w.Code != refused.status ||
				w.Code == 303 && w.Header().Get("Location") != "/login" {
				t.Errorf("%s, scope %q, %q: %d %v", path, refused.scope, refused.headers, w.Code, w.Header())
			}
		}
		large := url.Values{"id": {"p17"}, "text": {strings.Repeat("x", maxData)}}
		if w := d.send(path, ScopeWrite, large); w.Code != 413 {
			t.Errorf("%s, too large: %d", path, w.Code)
		}
		for _, id := range []string{"", "\x00", "\xff", strings.Repeat("x", 1025)} {
			form := url.Values{"id": {id}, "confirm": {"yes"}, "title": {"x"}, "role": {"both"}}
			if w := d.send(path, ScopeWrite, form); w.Code != 422 && w.Code != 404 {
				t.Errorf("%s of %q: %d", path, id, w.Code)
			}
		}
		r := httptest.NewRequest("GET", path+"?"+form.Encode(), nil)
		r.Header.Set("Cookie", tokenCookie+"="+d.tokens[ScopeAdmin])
		w := httptest.NewRecorder()
		if d.h.ServeHTTP(w, r); w.Code != 405 {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	for _, bad := range []url.Values{{"text": {strings.Repeat("ä", MaxText)}}, {"field": {"=nowhere"}},
		{"links": {strings.Repeat("p1\n", 1001)}}, {"time": {"2021-13-45"}}} {
		form := d.form("p17")
		for key, values := range bad {
			form[key] = values
		}
		if w := d.send("/data/save", ScopeWrite, form); w.Code != 422 ||
			!strings.Contains(w.Body.String(), "Nothing was changed:") {
			t.Errorf("%.40v: %d %.600s", bad, w.Code, w.Body)
		}
	}
	if after, err := d.s.catalogue.find("p17"); err != nil || !before.same(after) {
		t.Errorf("%v, %+v", err, after)
	}
	for _, path := range []string{"/", "/data", "/data?q=p17", "/data/node?id=p17"} {
		body := d.client(ScopeRead).do("GET", path, nil).Body.String()
		if strings.Contains(body, `method="post"`) || strings.Contains(body, `href="/data#add"`) ||
			path != "/" && !strings.Contains(body, "Your token is read-only") {
			t.Errorf("%s offers forms to who may only read", path)
		}
	}
	if body := d.client(ScopeRead).do("GET", "/data/node?id=p17", nil).Body.String(); !strings.Contains(body,
		html.EscapeString(before.Title)) || !strings.Contains(body, "Lists can have it") {
		t.Error("who may only read does not see the node")
	}
}

// Words of a title are found in any order, and an id comes first.
func TestDataLookup(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	found := func(q string) (ids []string) {
		body := c.do("GET", "/data?q="+url.QueryEscape(q), nil).Body.String()
		for _, one := range regexp.MustCompile(`href="/data/node\?id=([^"]*)"`).FindAllStringSubmatch(body, -1) {
			ids = append(ids, one[1])
		}
		return ids
	}
	if ids := found("p23"); len(ids) < 2 || ids[0] != "p23" || strings.Join(ids[1:], " ") == "p23" {
		t.Errorf("p23 finds %v", ids)
	}
	words := strings.Fields(s.Graph().Title(30))
	last, first := words[len(words)-1], words[0]
	if ids := found(strings.ToUpper(last) + "  " + first); len(ids) == 0 {
		t.Errorf("%s %s finds nothing", last, first)
	}
	if ids := found(first + " xyzzy"); len(ids) != 0 {
		t.Errorf("a word that is nowhere finds %v", ids)
	}
	if body := c.do("GET", "/data?q=p", nil).Body.String(); !strings.Contains(body, `?offset=20&amp;q=p"`) {
		t.Error("there is no way to further matches")
	}
}

// In a browser a node is found, changed, seen in a list and removed by who may, by keys alone; who may not sees it. A
// form that cannot be sent keeps what was typed. Long because it is one story.
func TestDataInBrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("once is enough; ./check runs it without -short")
	}
	d := openData(t)
	server := httptest.NewServer(d.h)
	defer server.Close()
	b := openTab(t, server.URL)
	signIn := func(scope Scope) {
		b.look("/login", 1000, "light")
		b.run("sign in", chromedp.SendKeys("input[name=token]", d.tokens[scope]+"\r", chromedp.ByQuery))
		b.until("the overview", "document.querySelector('#overview')")
	}
	signIn(ScopeRead)
	b.run("look up", chromedp.SendKeys("input[name=q]", "p17\r", chromedp.ByQuery))
	b.until("what is found", "document.querySelector('#found a')")
	b.click("#found a")
	b.until("the node", "document.querySelector('#state-title')")
	if ask[bool](b, "!!document.querySelector('form[method=post], #edit')") ||
		!ask[bool](b, "document.body.textContent.includes('Your token is read-only')") {
		t.Error("who may only read is offered a form")
	}
	b.picture("data-reader")
	b.quiet("a reader")

	signIn(ScopeWrite)
	b.look("/data/node?id=p17", 1000, "light")
	// what is stored as markup is text
	const hostile = `<img src=x onerror="document.title='owned'"><b>bold</b>`
	b.set("#title", hostile)
	b.set("#time", "")
	b.run("type", chromedp.SendKeys("#time", "someday\r", chromedp.ByQuery))
	b.until("the error", "document.querySelector('#error')?.textContent.includes('time is not a time')")
	if kept := ask[string](b, "document.querySelector('#title').value"); kept != hostile {
		t.Errorf("typed %q, kept %q", hostile, kept)
	}
	if kept := ask[string](b, "document.querySelector('#time').value"); kept != "someday" {
		t.Errorf("typed %q, kept %q", "someday", kept)
	}
	b.picture("data-error")
	// the service stops answering, and the form stays
	b.run("cut off", chromedp.Evaluate("window.fetched = window.fetch; window.fetch = () => Promise.reject("+
		"new TypeError('no network')); document.querySelector('#time').value = '2020-02-03'", nil),
		chromedp.SendKeys("#time", "\r", chromedp.ByQuery))
	b.until("the word", "!document.querySelector('#trouble').hidden")
	if kept := ask[string](b, "document.querySelector('#title').value"); kept != hostile {
		t.Errorf("cut off, %q is left", kept)
	}
	b.forgive() // the browser tells of the status 422 and of the lost network
	b.run("back", chromedp.Evaluate("window.fetch = window.fetched", nil), chromedp.SendKeys("#time", "\r",
		chromedp.ByQuery))
	b.until("the notice", "document.querySelector('.notice.good')?.textContent.includes('Saved')")
	if title := ask[string](b, "document.querySelector('h1').textContent + ' ' + document.title"); !strings.HasPrefix(
		title, hostile) || strings.HasPrefix(ask[string](b, "document.title"), "owned") ||
		ask[bool](b, "!!document.querySelector('main img, main b')") {
		t.Errorf("markup: %s", title)
	}
	b.picture("data-editor")
	reader := want[RecommendResponse](d.client(ScopeRead), 200, "GET", "/api/v1/recommendations?node=p200&k=1", nil)
	edit := "/data/node?id=" + reader.Items[0].ID
	b.look(edit, 1000, "light")
	b.run("type", chromedp.SendKeys("#title", "Again: \r", chromedp.ByQuery))
	b.until("the notice", "document.querySelector('.notice.good')?.textContent.includes('Saved')")
	b.look("/node/p200", 1000, "light")
	b.until("the change in a list", fmt.Sprintf("document.querySelector('[aria-labelledby=corrected-title]')?."+
		"textContent.includes(%q)", "Again: "+reader.Items[0].Title))
	b.look(edit, 1000, "light")
	b.run("remove", chromedp.Focus("details summary", chromedp.ByQuery), chromedp.KeyEvent("\r"))
	b.until("what removing means", "document.querySelector('input[name=confirm]').checkVisibility()")
	b.picture("data-remove")
	b.run("confirm", chromedp.Focus("input[name=confirm]", chromedp.ByQuery), chromedp.KeyEvent(" "),
		chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	b.until("the notice", "document.querySelector('.notice.good')?.textContent.includes('Removed')")
	b.look("/node/p200", 1000, "light")
	b.until("a list without it", fmt.Sprintf("document.querySelector('[aria-labelledby=corrected-title]') && "+
		"!document.querySelector('main').textContent.includes(%q)", "Again: "+reader.Items[0].Title))
	b.quiet("an editor")

	// the session ends while somebody types
	b.look("/data/node?id=p30", 1000, "light")
	b.run("sign out", chromedp.Evaluate("document.querySelector('#text').value = 'a long text'", nil))
	if err := os.WriteFile(d.s.o.Tokens.path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the tokens", func() bool { return len(*d.s.o.Tokens.list.Load()) == 0 })
	b.click("#edit button")
	b.until("the word", "document.querySelector('#trouble').textContent.includes('signed out')")
	if kept := ask[string](b, "document.querySelector('#text').value"); kept != "a long text" {
		t.Errorf("signed out, %q is left", kept)
	}
}
