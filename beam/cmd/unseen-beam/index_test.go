package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestIndexCommand makes indexes and lists by them, which say how many of the best they have.
func TestIndexCommand(t *testing.T) {
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"import", writeDataset(t, 1), "-o", at("shards"), "--split", "random"}, "200 nodes in 1"},
		{[]string{"fit", at("shards"), "-o", at("model"), "--method", "ap", "--iterations", "2", "--quiet"}, "ap"},
		{[]string{"index", at("shards")}, "Indexes of 0 blocks of 1"},
		{[]string{"index", at("shards"), "--fewest", "150"}, "Indexes of 1 blocks of 1, 1 of them new"},
		{[]string{"index", at("shards"), "--fewest", "150"}, "0 of them new"},
		{[]string{"recommend", at("model"), at("shards"), "-o", at("some"), "--recall", ".1"}, "by indexes: "},
		{[]string{"recommend", at("model"), at("shards"), "-o", at("all"), "--recall", "1"}, "exactly: indexes find "},
	} {
		if out, err := run(t, c.args...); err != nil || !strings.Contains(out, c.words) {
			t.Fatalf("%v: %q, %v", c.args, out, err)
		}
	}
	out, err := run(t, "recommend", at("model"), at("shards"), "-o", at("exact"), "--exact")
	if err != nil || strings.Contains(out, "indexes") {
		t.Errorf("exact lists: %q, %v", out, err)
	}
	for flag, args := range map[string][]string{"--fewest": {"index", at("shards"), "--fewest", "0"},
		"--recall": {"recommend", at("model"), at("shards"), "-o", at("never"), "--recall", "2"}} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
