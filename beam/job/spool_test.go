package job

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"unseen/beam/shards"
)

// put copies the files of a folder to the store.
func (s *objectStore) put(t *testing.T, folder, prefix string) string {
	t.Helper()
	to, _ := s.at(prefix)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := filepath.ToSlash(must(filepath.Rel(folder, path))(t))
		_, err = to.WriteBytes(t.Context(), name, must(os.ReadFile(path))(t))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return to.Root
}

// newMixedShop is a shop whose clicks are in files of several formats, one of them in a folder of its own, whose name
// has characters that mean something in a URL.
func newMixedShop(t *testing.T) *shop {
	t.Helper()
	s := newShop(t, 160, 90, 1300, "user_id,item_id,timestamp", nil)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	must(w.Write(must(os.ReadFile(filepath.Join(s.parts, "part-1.csv")))(t)))(t)
	w.Close()
	s.write(t, "clicks/day=1 00%3A00/part-1.csv.gz", packed.String())
	type click struct {
		Person string `parquet:"user_id"`
		Item   string `parquet:"item_id"`
		Time   *int64 `parquet:"timestamp,optional"`
	}
	var clicks []click
	for _, line := range strings.Split(strings.TrimSpace(string(must(os.ReadFile(
		filepath.Join(s.parts, "part-2.csv")))(t))), "\n")[1:] {
		cells := strings.Split(line, ",")
		c := click{Person: cells[0], Item: cells[1]}
		if at, err := strconv.ParseInt(cells[2], 10, 64); err == nil {
			c.Time = &at
		}
		clicks = append(clicks, c)
	}
	if err := parquet.WriteFile(filepath.Join(s.parts, "part-2.parquet"), clicks); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"part-1.csv", "part-2.csv"} {
		if err := os.Remove(filepath.Join(s.parts, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// noSpooled fails where temporary files are left of tables.
func noSpooled(t *testing.T, folder string) {
	t.Helper()
	if left := must(filepath.Glob(filepath.Join(folder, "unseen-*")))(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestTablesInAnObjectStore imports tables from a store of objects: the same shards as from a folder, whether the
// address is of a folder, of a file or a pattern, and where connections are lost.
func TestTablesInAnObjectStore(t *testing.T) {
	store := openObjects(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s := newMixedShop(t)
	settings := s.settings(3)
	local := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
	want, _, err := ImportInteractions(t.Context(), Runner{}, local, settings)
	if err != nil {
		t.Fatal(err)
	}
	root := store.put(t, s.folder, "shop")
	settings.Items, settings.Users = []string{root + "/items.csv"}, []string{root + "/us*.csv"}
	settings.Encoder = root + "/encoder.safetensors"
	for name, clicks := range map[string][]string{"folder": {root + "/clicks"}, "slash": {root + "/clicks/"},
		"pattern": {root + "/cli*s/*", root + "/clicks/*/*.gz"}, "folders": {root + "/cl*ks"},
		"lost": {root + "/clicks"}} {
		settings.Clicks = clicks
		lost := int64(0)
		if name == "lost" {
			lost = 3
		}
		store.done.Store(0)
		store.cut.Store(lost)
		to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
		got, _, err := ImportInteractions(t.Context(), Runner{}, to, settings)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameShards(t, name, got, want)
		if done := store.done.Load(); done != lost {
			t.Errorf("%s: %d connections were cut, not %d", name, done, lost)
		}
	}
	noSpooled(t, temporary)
}

// TestBadTablesInAnObjectStore names the address and the line of what is wrong, and no temporary file.
func TestBadTablesInAnObjectStore(t *testing.T) {
	store := openObjects(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s := newShop(t, 40, 30, 200, "user_id,item_id,timestamp", nil)
	s.write(t, "clicks/part-1.csv", "user_id,item_id,timestamp\np1,i1,5\np2,,7\n")
	s.write(t, "broken.parquet", strings.Repeat("no table ", 99))
	s.write(t, "broken.csv.gz", "\x1f\x8bno gzip")
	s.write(t, "twice.csv", "item_id,category\ni1,one\ni2,two\ni1,again\n")
	s.write(t, "sheet.xlsx", "PK")
	s.write(t, "_hidden/_SUCCESS", "")
	root := store.put(t, s.folder, "shop")
	settings := func(clicks, items string) InteractionSettings {
		o := s.settings(3)
		o.Clicks, o.Items = []string{root + clicks}, []string{root + items}
		return o
	}
	for words, o := range map[string]InteractionSettings{
		root + "/clicks/part-1.csv, line 3: bad record: the item is empty": settings("/clicks", "/items.csv"),
		root + "/broken.parquet: bad record":                               settings("/broken.parquet", "/items.csv"),
		root + "/broken.csv.gz: file is truncated":                         settings("/broken.csv.gz", "/items.csv"),
		root + "/twice.csv, line 4: duplicate id":                          settings("/clicks.csv", "/twice.csv"),
		root + "/sheet.xlsx: cannot import: it is a spreadsheet":           settings("/sheet.xlsx", "/items.csv"),
		"no tables in " + root + "/nothing":                                settings("/nothing", "/items.csv"),
		"no tables in " + root + "/_hidden/":                               settings("/_hidden/", "/items.csv"),
	} {
		to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
		_, _, err := ImportInteractions(t.Context(), Runner{}, to, o)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), temporary) {
			t.Errorf("where %s: %v", words, err)
		}
	}
	o := settings("/clicks", "/items.csv")
	o.Lenient = true
	to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
	_, bad, err := ImportInteractions(t.Context(), Runner{}, to, o)
	if err != nil || !slices.Equal(bad.First, []BadRow{{root + "/clicks/part-1.csv", 3, 0,
		"bad record: the item is empty"}}) {
		t.Errorf("leniently: %+v, %v", bad, err)
	}
	noSpooled(t, temporary)
}

// TestTablesThatCannotBeCopied gives an error with the address of an object that is gone since it was listed, of one
// whose connections are all lost, and of one for which the machine has no room.
func TestTablesThatCannotBeCopied(t *testing.T) {
	store := openObjects(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	root, _ := store.at("shop")
	must(root.WriteBytes(t.Context(), "clicks.csv", bytes.Repeat([]byte("user_id,item_id\n"), 1000)))(t)
	p := &plan{Tables: &tablePlan{Settings: InteractionSettings{Buckets: 1}}}
	read := func(address string) string {
		err := p.readTable(t.Context(), &task{Path: address, Source: clicksTable}, func(int, []byte) {})
		return fmt.Sprint(err)
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s\nshould be\n%s", got, want)
		}
	}
	is(read(root.Root+"/gone.csv"), "shards: a file is missing: s3://unseen/shop/gone.csv: file does not exist")
	store.cut.Store(3)
	is(read(root.Root+"/clicks.csv"), "<nil>")
	store.cut.Store(1 << 30)
	is(read(root.Root+"/clicks.csv"),
		"shards: a file cannot be read: s3://unseen/shop/clicks.csv: unexpected EOF; try again")
	store.cut.Store(0)
	noSpooled(t, temporary)
	t.Setenv("TMPDIR", filepath.Join(temporary, "none"))
	is(read(root.Root+"/clicks.csv"), "s3://unseen/shop/clicks.csv needs a temporary file: "+temporary+
		"/none: no such file or directory; set TMPDIR to a folder with room for the table")
}
