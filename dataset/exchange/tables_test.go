package exchange

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestTablesOpenedByOthers reads tables that are in no folder, by what opens them: the path says the format, and is
// what errors name.
func TestTablesOpenedByOthers(t *testing.T) {
	type click struct {
		User string `parquet:"user_id"`
		Item string `parquet:"item_id"`
	}
	file := filepath.Join(t.TempDir(), "file")
	store := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var opened []string
	options := Options{Open: func(path string) (InputFile, error) {
		if opened = append(opened, path); strings.Contains(path, "gone") {
			return nil, errors.New("it is gone")
		}
		return os.Open(file)
	}}
	for _, c := range []struct{ path, text, want string }{
		{"s3://b/a.csv", "user_id,item_id\np1,i1\n", ""},
		{"s3://b/a.tsv", "user_id\titem_id\np1\t\n", "s3://b/a.tsv, line 2: bad record: the item is empty"},
		{"s3://b/a.jsonl", `{"user_id": "p1", "item_id": "i1"}`, ""},
		{"s3://b/a.parquet", "", ""},
		{"s3://b/a.parquet", "no table", "s3://b/a.parquet: bad record"},
		{"s3://b/gone.csv", "", "it is gone"},
		{"s3://b/gone.xlsx", "", "s3://b/gone.xlsx: cannot import: it is a spreadsheet"},
	} {
		if store(c.text); c.path == "s3://b/a.parquet" && c.text == "" {
			if err := parquet.WriteFile(file, []click{{"p1", "i1"}}); err != nil {
				t.Fatal(err)
			}
		}
		var found []string
		_, err := ReadClicks(t.Context(), c.path, options, func(c Click) error {
			found = append(found, c.Person+" "+c.Item)
			return nil
		}, nil)
		switch {
		case c.want == "" && (err != nil || strings.Join(found, ",") != "p1 i1"):
			t.Errorf("%s has %q: %v", c.path, found, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s gives %v", c.path, err)
		}
	}
	if len(opened) != 6 {
		t.Errorf("%q were opened", opened)
	}
}
