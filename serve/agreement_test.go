package serve

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/fit"
	"unseen/model"
	"unseen/recommend"
)

// Ranked lists say how far assumptions agree, in the API and on the page, which also says that lists are naive's.
func TestAgreement(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { addMembers(t, filepath.Join(o.Folder, "model.safetensors")) })
	c := client{t: t, h: s.Handler()}
	want := recommend.Agreement{Members: 2, Of: 5, Agreed: 5}
	if a := c.list("node=p100&k=5&explore=0").Agreement; a == nil || *a != want {
		t.Errorf("the assumptions, which are the same, agree on %+v", a)
	}
	if a := c.list("node=p100&k=5&seed=1").Agreement; a != nil {
		t.Errorf("of a list that is drawn, the assumptions agree on %+v", a)
	}
	page := c.do("GET", "/node/p100?k=5", nil).Body.String()
	for _, says := range []string{want.String(), "as a naive recommender would order them (9.5 of the first 10"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
}

// addMembers gives a model file two members, which are the published model, and what the doctor would have found.
func addMembers(t testing.TB, path string) {
	t.Helper()
	f, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]any
	if err := json.Unmarshal([]byte(f.Metadata[model.KeyFindings]), &found); err != nil {
		t.Fatal(err)
	}
	same := 9.5
	found["lists"] = fit.ListFindings{Members: 2, Sources: 64, K: 10, Agreed: 10, Naive: &same}
	text, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	f.Metadata[model.KeyFindings] = string(text)
	f.Metadata[model.KeyMembers] = `[{"name":"one"},{"name":"other"}]`
	for _, tensor := range slices.Clone(f.Tensors) {
		if part, ok := strings.CutPrefix(tensor.Name, "link."); ok {
			for _, prefix := range []string{"member1.", "member2."} {
				tensor.Name = prefix + part
				f.Tensors = append(f.Tensors, tensor)
			}
		}
	}
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
}
