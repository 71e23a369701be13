package job

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/fit"
	"unseen/recommend"
)

// TestListsByIndexes holds lists by the indexes of blocks against exact ones: they have the share of the best that was
// measured, the same bytes with any number of threads, and are exact where too few would be found, or where that is
// asked for.
func TestListsByIndexes(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 800, 8)
	settings := settingsFor("naive")
	m := must(must(fit.Fit(ctx, s.Problem, settings))(t).Model())(t)
	cluster, manifest := s.cut(t, shards.CutSettings{Nodes: 390})
	lists := func(o ListSettings, threads int) (map[string][]string, string, *recommend.Recall) {
		t.Helper()
		to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
		o.K, o.Part = 10, 300
		cluster.Runner = Runner{Threads: threads}
		made := must(cluster.Recommend(ctx, m, to, o))(t)
		text := ""
		for _, name := range made.Parts {
			text += string(must(to.ReadAll(ctx, name))(t))
		}
		return readLists(t, to, made), text, made.Recall
	}
	exact, want, recall := lists(ListSettings{}, 2)
	if recall != nil {
		t.Errorf("a recall of %+v without indexes", recall)
	}
	for _, kind := range []string{"new", "kept"} {
		made := must(cluster.MakeIndexes(ctx, IndexSettings{Fewest: 100, Seed: 1}))(t)
		if len(made) != 2 || len(manifest.Blocks) != 3 || made[0].Made != kind || made[1].Made != kind {
			t.Fatalf("%s: %+v", kind, made)
		}
	}
	found, text, recall := lists(ListSettings{Recall: .2}, 2)
	if recall == nil || !recall.Used || !(recall.Share > .2 && recall.Share < 1) || recall.Queries != 200 {
		t.Fatalf("measured %+v", recall)
	}
	if share := shareFound(found, exact, slices.Collect(maps.Keys(exact))); math.Abs(share-recall.Share) > .05 {
		t.Errorf("lists have %v of the best, and %v was measured", share, recall.Share)
	}
	if _, again, _ := lists(ListSettings{Recall: .2}, 1); again != text {
		t.Error("other lists with one thread")
	}
	if _, again, all := lists(ListSettings{Recall: 1}, 2); all == nil || all.Used || again != want {
		t.Errorf("lists that are to have all of the best are not exact: %+v", all)
	}
	if _, again, none := lists(ListSettings{Recall: .2, Exact: true}, 2); none != nil || again != want {
		t.Errorf("lists that are to be exact are not: %+v", none)
	}
	// What was measured is what the lists of the drawn nodes have, node for node, where linked targets may be in them.
	exact, _, _ = lists(ListSettings{Exact: true, Linked: true}, 2)
	found, _, recall = lists(ListSettings{Recall: .2, Linked: true}, 2)
	var drawn []string
	for _, i := range cluster.drawSources(measuredSources) {
		drawn = append(drawn, s.Graph.ID(i))
	}
	if share := shareFound(found, exact, drawn); math.Abs(share-recall.Share) > .002 { // scores may be equal
		t.Errorf("lists of the drawn nodes have %v of the best, and %v was measured", share, recall.Share)
	}
	// An index of other vectors, or with a bit turned, is named, and made again.
	at := func(block int) string { return filepath.Join(cluster.Shards.Root, indexName(block)) }
	whole, other := must(os.ReadFile(at(0)))(t), must(os.ReadFile(at(1)))(t)
	turned := append([]byte(nil), whole...)
	turned[len(turned)/2] ^= 4
	for _, content := range [][]byte{other, turned, whole[:len(whole)/2]} {
		if err := os.WriteFile(at(0), content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := cluster.Recommend(ctx, m, shards.Location{Root: filepath.Join(t.TempDir(), "lists")},
			ListSettings{K: 10})
		if err == nil || !strings.Contains(err.Error(), indexName(0)) || !strings.Contains(err.Error(), "unseen-beam") {
			t.Errorf("an index that is none gives %v", err)
		}
		made := must(cluster.MakeIndexes(ctx, IndexSettings{Fewest: 100, Seed: 1}))(t)
		if made[0].Made != "new" || made[1].Made != "kept" || string(must(os.ReadFile(at(0)))(t)) != string(whole) {
			t.Errorf("it is made again as %+v", made)
		}
	}
}

// Indexes and lists by them have the same bytes on every runner.
func TestIndexesAreThoseOfEveryRunner(t *testing.T) {
	ctx := t.Context()
	s := newSetup(t, 500, 8)
	m := must(must(fit.Fit(ctx, s.Problem, settingsFor("naive")))(t).Model())(t)
	for _, cut := range []shards.CutSettings{{Nodes: 170}, {Nodes: 250}} {
		var first map[string]string // by file
		for name, runner := range runners() {
			cluster, manifest := s.cut(t, cut)
			cluster.Runner = runner
			made := must(cluster.MakeIndexes(ctx, IndexSettings{Fewest: 100, Seed: 1}))(t)
			if len(made) != len(manifest.Blocks) {
				t.Fatalf("%s: %d indexes of %d blocks", name, len(made), len(manifest.Blocks))
			}
			files := map[string]string{}
			for block := range made {
				files[indexName(block)] = string(must(cluster.Shards.ReadAll(ctx, indexName(block)))(t))
			}
			to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
			lists := must(cluster.Recommend(ctx, m, to, ListSettings{K: 10, Part: 200, Recall: .2}))(t)
			if lists.Recall == nil || !lists.Recall.Used {
				t.Fatalf("%s: lists without the indexes: %+v", name, lists.Recall)
			}
			for _, part := range lists.Parts {
				files[part] = string(must(to.ReadAll(ctx, part))(t))
			}
			if first != nil && !maps.Equal(files, first) {
				t.Errorf("%s has other indexes or lists in blocks of %d", name, cut.Nodes)
			}
			first = files
		}
	}
}

// shareFound is the share of the exact lists of some nodes that was found.
func shareFound(found, exact map[string][]string, nodes []string) float64 {
	all, hit := 0, 0
	for _, id := range nodes {
		all += len(exact[id])
		for _, j := range exact[id] {
			if slices.Contains(found[id], j) {
				hit++
			}
		}
	}
	return float64(hit) / float64(all)
}
