package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"unseen/internal/browsertest"
)

// hostilePage is a page of another site that tries to change something at the service of its visitor. It says when its
// requests have been answered.
const hostilePage = `<!doctype html><title>working</title><body><script>
const at = %q, events = '{"events":[{"id":"x","kind":"shown","source":"p1","target":"p2"}]}'
const shown = at + '/api/v1/recommendations?node=p1&log=true'
const wait = []
const done = new Promise(resolve => setTimeout(resolve, 3000))
function settled(p) { wait.push(Promise.race([p.catch(() => 0), done])) }
function loads(tag, url) {
	const e = document.createElement(tag)
	settled(new Promise(resolve => { e.onload = e.onerror = resolve }))
	e[tag === 'link' ? 'href' : 'src'] = url
	if (tag === 'link') e.rel = 'stylesheet'
	document.body.append(e)
}
for (const tag of ['img', 'script', 'link', 'iframe']) loads(tag, shown + '&k=' + tag.length)
for (const [n, [path, type]] of [
	['/api/v1/events', 'text/plain'], ['/api/v1/jobs', 'text/plain'], ['/api/v1/models/rollback', 'text/plain'],
	['/api/v1/events', 'application/x-www-form-urlencoded'], ['/runs/rollback', 'application/x-www-form-urlencoded'],
	['/runs/jobs', 'multipart/form-data'], ['/api/v1/recommendations', 'text/plain'],
	['/data/remove', 'application/x-www-form-urlencoded'], ['/data/add', 'application/x-www-form-urlencoded'],
].entries()) {
	const frame = document.createElement('iframe'), form = document.createElement('form')
	frame.name = 'f' + n
	form.target = frame.name; form.method = 'post'; form.enctype = type; form.action = at + path
	const input = document.createElement('input')
	input.name = path.endsWith('events') ? events.slice(0, -2) + ',"z":"'
		: '{"kind":"retrain","node":"p1","log":true,"z":"'
	input.value = '"}'
	form.append(input); document.body.append(frame, form)
	const node = {id: path.endsWith('add') ? 'evil' : 'p1', confirm: 'yes', title: 'x'}
	for (const [name, value] of Object.entries(node)) {
		const field = document.createElement('input')
		field.name = name; field.value = value
		form.append(field)
	}
	settled(new Promise(resolve => { frame.onload = resolve }))
	form.submit()
}
for (const body of [events, new Blob([events]), new Blob([events], {type: 'text/plain'}),
	new URLSearchParams({a: 1})]) {
	settled(fetch(at + '/api/v1/events', {method: 'POST', mode: 'no-cors', body}))
	navigator.sendBeacon(at + '/api/v1/events', body)
}
for (const [method, path, body] of [['POST', '/api/v1/events', events], ['PUT', '/api/v1/ab-test', '{}'],
	['POST', '/api/v1/jobs', '{"kind":"retrain"}'], ['DELETE', '/api/v1/jobs/1', undefined],
	['PUT', '/api/v1/nodes/evil', '{"title":"x"}'], ['DELETE', '/api/v1/nodes?id=p1', undefined]]) {
	settled(fetch(at + path, {method, body, credentials: 'include', headers: {'Content-Type': 'application/json'}}))
}
settled(fetch(shown, {mode: 'no-cors'})); settled(fetch(shown))
settled(fetch(at + '/api/v1/models/rollback', {method: 'POST', mode: 'no-cors'}))
Promise.all(wait).then(() => { document.title = 'done' })
</script>`

// A page of another site changes nothing, through the browser of somebody who runs a service on this machine.
func TestAttackFromBrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, hostilePage, server.URL)
	}))
	defer evil.Close()
	ctx := browsertest.Start(t)
	before := s.models.snapshot()
	// another port, and another host
	for _, site := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		if err := chromedp.Run(ctx, chromedp.Navigate(site),
			chromedp.Poll(`document.title === 'done'`, nil)); err != nil {
			t.Fatal(err)
		}
	}
	checkUnchanged(t, s, before)
	// what the service's own pages do, and a person who follows a link, still works
	if err := chromedp.Run(ctx, chromedp.Navigate(server.URL+"/runs"), chromedp.WaitVisible("main"),
		chromedp.Navigate(server.URL+"/api/v1/models")); err != nil {
		t.Fatal(err)
	}
}

// checkUnchanged fails if there is an event, a job, another model or another node.
func checkUnchanged(t *testing.T, s *Service, before registryState) {
	t.Helper()
	totals, err := s.events.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after := s.models.snapshot()
	if totals.Events != 0 || len(s.jobs.list()) != 0 || after.Current != before.Current || after.ABTest != nil ||
		len(after.Models) != len(before.Models) {
		t.Errorf("%d events, %d jobs, models %+v", totals.Events, len(s.jobs.list()), after)
	}
	if seq := s.catalogue.state.Load().seq; seq != 0 {
		t.Errorf("%d changes of nodes", seq)
	}
	raw, err := os.ReadFile(filepath.Join(s.o.State, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `"status":2`) || strings.Contains(line, `"status":303`) {
			t.Errorf("done: %s", line)
		}
	}
}

// No GET changes anything, and no request that another site can send; what programs send is not touched by that.
func TestAttackCrossSite(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	before := s.models.snapshot()
	event := `{"events":[{"id":"x","kind":"shown","source":"p1","target":"p2"}]}`
	send := func(method, path, body string, headers ...string) int {
		r := fromHere(httptest.NewRequest(method, path, strings.NewReader(body)))
		for k := 0; k < len(headers); k += 2 {
			r.Header.Set(headers[k], headers[k+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	const json, plain = "application/json", "text/plain"
	for _, test := range []struct {
		status             int
		method, path, body string
		headers            []string
	}{
		{422, "GET", "/api/v1/recommendations?node=p1&log=true", "", nil},
		{422, "HEAD", "/api/v1/recommendations?node=p1&log=true", "", nil},
		{403, "GET", "/api/v1/recommendations?node=p1", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode",
			"no-cors"}},
		{403, "GET", "/api/v1/nodes", "", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}},
		{200, "GET", "/api/v1/nodes", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{200, "GET", "/api/v1/nodes", "", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}},
		{403, "POST", "/api/v1/events", event, []string{"Sec-Fetch-Site", "cross-site", "Content-Type", json}},
		{403, "POST", "/api/v1/events", event, []string{"Sec-Fetch-Site", "same-site", "Content-Type", json}},
		{403, "POST", "/api/v1/events", event, []string{"Origin", "http://evil.example", "Content-Type", json}},
		{403, "POST", "/api/v1/events", event, []string{"Origin", "null", "Content-Type", json}},
		{403, "POST", "/runs/jobs", "kind=retrain", []string{"Sec-Fetch-Site", "cross-site"}},
		{403, "POST", "/data/remove", "id=p1&confirm=yes", []string{"Sec-Fetch-Site", "cross-site", "Content-Type",
			"application/x-www-form-urlencoded"}},
		{415, "POST", "/api/v1/events", event, []string{"Content-Type", plain}},
		{415, "POST", "/api/v1/events", event, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{415, "POST", "/api/v1/events", event, []string{"Sec-Fetch-Site", "same-origin"}},
		{415, "POST", "/api/v1/models/rollback", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{415, "DELETE", "/api/v1/jobs/1", "a=b", []string{"Content-Type", plain}},
	} {
		if status := send(test.method, test.path, test.body, test.headers...); status != test.status {
			t.Errorf("%s %s %v: %d, want %d", test.method, test.path, test.headers, status, test.status)
		}
	}
	checkUnchanged(t, s, before)
	if status := send("POST", "/api/v1/events", event); status != 200 {
		t.Errorf("a program without a content type: %d", status)
	}
}
