package dataset

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// goodManifest is a small one by hand.
const goodManifest = `{"format":"unseen dataset","version":1,"nodes":3,"links":2,"exposures":0,"fields":["a","b"],
"vectors":{"dimension":4,"kind":"float16","zero":1},
"files":{"nodes.parquet":{"bytes":1,"sha256":"` + zeros + `"},"links.parquet":{"bytes":1,"sha256":"` + zeros +
	`"},"vectors.npy":{"bytes":1,"sha256":"` + zeros + `"}},
"provenance":{"made":"2021-07-18T12:00:00Z","seed":18446744073709551615},"something new":[1,2]}`

func TestManifest(t *testing.T) {
	t.Parallel()
	m, err := parseManifest(strings.NewReader(goodManifest))
	must(t, err)
	if m.Nodes != 3 || m.Fields[1] != "b" || m.Vectors.Kind != "float16" || *m.Provenance.Seed != 1<<64-1 ||
		!m.Provenance.Made.Equal(someday) {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct {
		old, new string
		kind     error
		says     string
	}{
		{`"format":"unseen dataset"`, `"format":"other"`, ErrNotDataset, `"other"`},
		{`"version":1`, `"version":2`, ErrVersion, "version 2"},
		{`"version":1`, `"version":0`, ErrFormat, "version 0"},
		{`"nodes":3`, `"nodes":-3`, ErrFormat, "nodes is -3"},
		{`"nodes":3`, `"nodes":3000000000`, ErrFormat, "3000000000"},
		{`"nodes":3`, `"nodes":"3"`, ErrFormat, "nodes"},
		{`"nodes":3`, `"nodes":1e99`, ErrFormat, "nodes"},
		{`"exposures":0`, `"exposures":5`, ErrFormat, "no file exposures.parquet"},
		{`["a","b"]`, `["a","a"]`, ErrFormat, "field 2"},
		{`["a","b"]`, `["unknown"]`, ErrFormat, "field 1"},
		{`"dimension":4`, `"dimension":0`, ErrFormat, "dimension 0"},
		{`"float16"`, `"float64"`, ErrFormat, "float64"},
		{`"zero":1`, `"zero":4`, ErrFormat, "4 of 3"},
		{`"vectors.npy"`, `"../vectors.npy"`, ErrFormat, "none of a dataset's"},
		{`"vectors.npy"`, `"exposures.parquet"`, ErrFormat, "do not go together"},
		{`"nodes.parquet"`, `"exposures.parquet"`, ErrFormat, "files lack"},
		{`"bytes":1`, `"bytes":-1`, ErrFormat, "-1 bytes"},
		{zeros, zeros[1:], ErrFormat, "SHA-256"},
		{goodManifest, goodManifest[:99], ErrFormat, "JSON"},
		{goodManifest, goodManifest + "{}", ErrFormat, "after top-level"},
		{goodManifest, "[]", ErrFormat, "array"},
		{goodManifest, "", ErrFormat, "JSON"},
	} {
		_, err := parseManifest(strings.NewReader(strings.Replace(goodManifest, c.old, c.new, 1)))
		wantError(t, err, c.kind, c.says)
		if manifestFix(err) == "" {
			t.Errorf("nothing fixes %v", err)
		}
	}
	_, err = parseManifest(bytes.NewReader(make([]byte, largestManifest+1)))
	wantError(t, err, ErrFormat, "longer than")
}

// A key that was renamed is read under its old name.
func TestManifestOldKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"made_by", "madeBy"} {
		m, err := parseManifest(strings.NewReader(strings.Replace(goodManifest, `"provenance":{`,
			`"provenance":{"`+key+`":"unseen 0.1",`, 1)))
		must(t, err)
		if m.Provenance.MadeBy != "unseen 0.1" || *m.Provenance.Seed != 1<<64-1 {
			t.Errorf("%s: %+v", key, m.Provenance)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte(`{"format":"unseen dataset","version":1,"files":{}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(bytes.NewReader(raw))
		if err != nil {
			return
		}
		first, err := m.bytes()
		if err != nil {
			t.Fatalf("%q cannot be written: %v", raw, err)
		}
		again, err := parseManifest(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("%q was written as %q: %v", raw, first, err)
		}
		second, err := again.bytes()
		if err != nil || !bytes.Equal(first, second) || again.Nodes != m.Nodes ||
			!reflect.DeepEqual(again.Files, m.Files) {
			t.Errorf("%q became %q (%v)", first, second, err)
		}
	})
}

// Of many faults the same one is always named.
func TestManifestNamesTheFirstFault(t *testing.T) {
	t.Parallel()
	m := Manifest{Files: map[string]FileManifest{}}
	for k := range 20 {
		m.Files[fmt.Sprintf("%02d.csv", k)] = FileManifest{}
	}
	if err := m.check(); err == nil || !strings.Contains(err.Error(), `"00.csv"`) {
		t.Error(err)
	}
}
