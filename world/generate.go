package world

import (
	"context"
	"math"
	"math/rand/v2"

	"unseen/graph"
	"unseen/internal/kern"
)

// New generates a world: nodes with fields, texts in the shape of vectors, titles and times, the
// oldest first; then w, b and π. Graph().Vectors().Close() frees the memory of the
// vectors; so does the garbage collector when the world is no longer reachable.
func New(ctx context.Context, s Settings) (*World, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.WithDefaults()
	texts := drawTexts(s)
	vectors, err := drawVectors(ctx, s, texts)
	if err != nil {
		return nil, err
	}
	lexicons, titles := lexiconsOf(s.Fields), rand.New(newStream(s.Seed, titleStream, 0))
	g, err := buildNodes(s, texts, func(t text) string { return lexicons[t.area].title(int(t.topic), titles) })
	if err == nil {
		g, err = g.WithVectors(vectors)
	}
	if err != nil {
		return nil, err
	}
	// Random pairs have scores of variance Σ c_k² = 1/d, with c_k the coordinates' mean squares and d
	// their effective number. A mean of m in w adds m·⟨h_i, h_j⟩, which is m·FieldShare in the mean
	// where the area is shared, and m·TopicShare more where the topic is.
	alike := s.FieldShare + s.TopicShare/float64(s.Topics)
	mean := s.Homophily / (alike * math.Sqrt(newSpectrum(s).effective()))
	return settle(ctx, g, drawWeights(s.Seed, s.Dim, mean), s.Scenario)
}

// text is what a node is about.
type text struct{ field, area, topic int32 }

// drawTexts divides the nodes among fields and areas in the shares asked for. The first nodes are
// one of each field, so that field k has index k+1 in the graph whatever the seed.
func drawTexts(s Settings) []text {
	texts := make([]text, s.Nodes)
	counts := apportion(s.Fields, s.Nodes)
	for k := range counts {
		counts[k]--
		texts[k].field = int32(k)
	}
	fields := shuffled(counts, newStream(s.Seed, fieldStream, 0))
	for i, f := range fields {
		texts[len(counts)+i].field = f
	}
	if s.RandomFields {
		for i, area := range shuffled(apportion(s.Fields, s.Nodes), newStream(s.Seed, areaStream, 0)) {
			texts[i].area = area
		}
	} else {
		for i := range texts {
			texts[i].area = texts[i].field
		}
	}
	src := rand.New(newStream(s.Seed, topicStream, 0))
	for i := range texts {
		texts[i].topic = src.Int32N(int32(s.Topics))
	}
	return texts
}

// shuffled returns counts[k] times k for every k, in random order.
func shuffled(counts []int, src rand.Source) []int32 {
	var list []int32
	for k, count := range counts {
		for range count {
			list = append(list, int32(k))
		}
	}
	rand.New(src).Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list
}

// drawVectors draws a direction for every area and topic, and then every node's vector from a
// generator of its own.
func drawVectors(ctx context.Context, s Settings, texts []text) (*graph.Vectors, error) {
	vectors, err := graph.NewVectors(s.Nodes, s.Dim)
	if err != nil {
		return nil, err
	}
	areas := drawDirections(s, len(s.Fields), s.FieldShare, 0)
	topics := drawDirections(s, len(s.Fields)*s.Topics, s.TopicShare, 1)
	noise := newSpectrum(s).sizes(max(0, 1-s.FieldShare-s.TopicShare))
	rows := kern.MatrixOf(vectors)
	return vectors, kern.ChunksErr(ctx, s.Nodes, 64, s.Threads, func(_, _, from, to int) error {
		var pcg rand.PCG
		src := rand.New(&pcg)
		for i := from; i < to; i++ {
			pcg.Seed(streamSeeds(s.Seed, vectorStream, uint64(i)))
			t := texts[i]
			row, area, topic := rows.Row(i), areas[t.area], topics[int(t.area)*s.Topics+int(t.topic)]
			for d := range row[:s.Dim] {
				row[d] = area[d] + topic[d] + float32(noise[d]*src.NormFloat64())
			}
		}
		return nil
	})
}

// drawDirections returns random vectors whose squared length is share in the mean.
func drawDirections(s Settings, n int, share float64, group uint64) [][]float32 {
	src := rand.New(newStream(s.Seed, directionStream, group))
	sizes := newSpectrum(s).sizes(share)
	directions := make([][]float32, n)
	for k := range directions {
		directions[k] = make([]float32, s.Dim)
		for d := range directions[k] {
			directions[k][d] = float32(sizes[d] * src.NormFloat64())
		}
	}
	return directions
}
