package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A shop has the tables that the importer reads, and a truth that agrees with them.
func TestGenerate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	line := []string{"generate", raw, "--people", "60", "--items", "30", "--impressions", "50", "--pairs", "900",
		"--quiet"}
	page := well(t, line...)
	fits80(t, strings.ReplaceAll(page, raw, "raw"))
	read := func(folder, name string) [][]string {
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		rows, err := csv.NewReader(file).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows[1:]
	}
	var made writtenShop
	again := filepath.Join(dir, "again")
	line[1] = again
	decodeOne(t, well(t, append(line, "--json")...), &made)
	for _, name := range []string{"users.csv", "items.csv", "clicks.csv", "impressions.csv", "pairs.csv"} {
		a, err := os.ReadFile(filepath.Join(raw, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs between two runs: %v", name, err)
		}
	}
	shown := map[string]bool{}
	for _, row := range read(raw, "impressions.csv") {
		shown[row[0]+row[1]] = true
	}
	clicks := read(raw, "clicks.csv")
	if len(clicks) != made.Clicks || len(shown) != made.Shown || made.Clicks == 0 || made.Impressions < made.Shown {
		t.Errorf("%d clicks, %d pairs shown: %+v", len(clicks), len(shown), made)
	}
	clicked := map[string]bool{}
	for _, row := range clicks {
		if clicked[row[0]+row[1]] = true; !shown[row[0]+row[1]] {
			t.Errorf("%v was clicked, but not shown", row)
		}
	}
	for _, row := range read(raw, "pairs.csv") { // what is wanted is clicked where it was shown
		if pair := row[0] + row[1]; (row[2] == "1") != clicked[pair] && shown[pair] {
			t.Errorf("%v: clicked is %v", row, clicked[pair])
		}
		if y, err := strconv.ParseFloat(row[3], 64); err != nil || !(y > 0 && y < 1) {
			t.Errorf("%v: %v", row, err)
		}
	}
	well(t, "import", "interactions", "--clicks", filepath.Join(raw, "clicks.csv"), "--items",
		filepath.Join(raw, "items.csv"), "--users", filepath.Join(raw, "users.csv"), "--impressions",
		filepath.Join(raw, "impressions.csv"), "-o", filepath.Join(dir, "shop"), "--quiet")
}

// The shop beside the pages is what the command on its page writes.
func TestShopOfPages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/shop.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(page), "`unseen generate docs/shop ")
	line, _, found := strings.Cut(line, "`")
	if !found {
		t.Fatal("the page has no command that writes its shop")
	}
	shop := filepath.Join(t.TempDir(), "shop")
	well(t, append([]string{"generate", shop, "--quiet"}, strings.Fields(line)...)...)
	files, err := filepath.Glob("../../docs/shop/*")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(shop, filepath.Base(file))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the command writes: %v", file, err)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	well(t, "generate", full, "--people", "9", "--items", "9", "--quiet")

	for _, c := range []struct {
		line []string
		code int
		want string
	}{
		{[]string{"generate"}, 2, "name a folder"},
		{[]string{"generate", full}, 2, "not empty"},
		{[]string{"generate", filepath.Join(dir, "x"), "--people", "-1"}, 1, "at least one"},
		{[]string{"generate", filepath.Join(dir, "x"), "--segments", "5000"}, 1, "no more than there are"},
		{[]string{"generate", filepath.Join(dir, "x"), "--pairs", "0"}, 2, "--pairs"},
		{[]string{"generate", filepath.Join(dir, "x"), "--impressions", "NaN"}, 1, "impressions"},
		{[]string{"generate", filepath.Join(full, "users.csv", "x")}, 1, "users.csv"},
	} {
		code, stdout, stderr := invoke(c.line...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: %d, %q, %q", c.line, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a folder is left of a shop that was refused")
	}
}
