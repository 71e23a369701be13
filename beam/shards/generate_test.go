package shards

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"unseen/fit"
	"unseen/model"
	"unseen/progress"
)

// TestGenerate checks that generated shards hold what was asked for, that the manifest's means are those of the pairs,
// and that threads change no byte.
func TestGenerate(t *testing.T) {
	ctx := context.Background()
	s := GenerateSettings{Nodes: 1001, Pairs: 20_003, PerLink: 4, Dimension: 24, Fields: 3, Blocks: 3, ShardSize: 1500,
		Seed: 7, Threads: 1}
	location := Location{filepath.Join(t.TempDir(), "one")}
	must(Generate(ctx, location, s))(t)
	m := must(location.Manifest(ctx))(t)
	if err := readWhole(ctx, location, m); err != nil {
		t.Fatal(err)
	}
	if m.Nodes != s.Nodes || len(m.Blocks) != 3 || m.Extent.Pairs != s.Pairs || len(m.Fields) != 4 {
		t.Errorf("%d nodes in %d blocks, %d pairs, %d fields", m.Nodes, len(m.Blocks), m.Extent.Pairs, len(m.Fields))
	}
	var pairs, links int64
	var weight, square float64
	for _, shard := range m.Train {
		part := must(location.Load(ctx, m.Layout(), shard, nil, 1))(t)
		link := must(model.NewLink("diagonal", part.Nodes, model.LinkOptions{}))(t)
		square += fit.MeanSquare(link, part.Pairs) * float64(shard.Pairs)
		pairs += int64(part.Pairs.Len())
		for k, linked := range part.Pairs.Linked {
			if weight += part.Pairs.Weight[k]; linked {
				links++
			}
			if part.Pairs.Source[k] == part.Pairs.Target[k] {
				t.Fatalf("pair %d of %s is a node with itself", k, shard.File.Name)
			}
		}
		part.Close()
		if shard.Pairs > s.ShardSize {
			t.Errorf("a shard of %d pairs", shard.Pairs)
		}
	}
	weight, square = weight/float64(pairs), square/float64(pairs)
	if pairs != s.Pairs || links != m.Links || math.Abs(float64(links)/float64(pairs)-.2) > .001 {
		t.Errorf("%d pairs with %d links of %d", pairs, links, m.Links)
	}
	if math.Abs(weight/m.Extent.MeanWeight-1) > .01 || math.Abs(square/m.Extent.MeanSquare-1) > .05 {
		t.Errorf("mean weight %v, square %v; the manifest has %+v", weight, square, m.Extent)
	}
	for _, c := range []struct {
		threads int
		seed    uint64
		same    bool
	}{{4, 7, true}, {1, 8, false}} {
		s.Threads, s.Seed = c.threads, c.seed
		other := Location{filepath.Join(t.TempDir(), "other")}
		again := must(Generate(ctx, other, s))(t)
		for _, same := range []bool{again.Checksum() == m.Checksum(), reflect.DeepEqual(again.Train, m.Train),
			again.Blocks[0].Vectors == m.Blocks[0].Vectors} {
			if same != c.same {
				t.Errorf("%d threads, seed %d: the same bytes are %v", c.threads, c.seed, same)
			}
		}
	}
}

// TestGenerateRefuses gives settings that cannot be, and a place that is taken.
func TestGenerateRefuses(t *testing.T) {
	ctx := context.Background()
	fine := GenerateSettings{Nodes: 20, Pairs: 50, PerLink: 4, Dimension: 2, Fields: 1, Seed: 1}
	location := Location{filepath.Join(t.TempDir(), "shards")}
	var told []string
	fine.Progress = func(e progress.Event) { told = append(told, fmt.Sprint(e.Phase, e.Done, e.Of, e.Remaining >= 0)) }
	must(Generate(ctx, location, fine))(t)
	if want := []string{"writing blocks of nodes1 1 true", "writing shards of pairs1 1 true"}; !slices.Equal(told,
		want) {
		t.Errorf("told %q", told)
	}
	if _, err := Generate(ctx, location, fine); !errors.Is(err, ErrContent) {
		t.Errorf("over other shards: %v", err)
	}
	for name, change := range map[string]func(*GenerateSettings){
		"one node":    func(s *GenerateSettings) { s.Nodes = 1 },
		"no pairs":    func(s *GenerateSettings) { s.Pairs = 0 },
		"dimension":   func(s *GenerateSettings) { s.Dimension = 0 },
		"fields":      func(s *GenerateSettings) { s.Fields = 0 },
		"many blocks": func(s *GenerateSettings) { s.Blocks = 11 },
		"negatives":   func(s *GenerateSettings) { s.PerLink = -1 },
		"shard":       func(s *GenerateSettings) { s.ShardSize = -1 },
		"many pairs":  func(s *GenerateSettings) { s.Pairs = 20*19 + 1 },
		"many shards": func(s *GenerateSettings) { s.Nodes, s.Pairs, s.ShardSize = 1<<20, 1<<40, 1 },
	} {
		s, folder := fine, t.TempDir()
		change(&s)
		if _, err := Generate(ctx, Location{filepath.Join(folder, "shards")}, s); !errors.Is(err, ErrSetting) {
			t.Errorf("%s: %v", name, err)
		}
		if left := must(os.ReadDir(folder))(t); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
}
