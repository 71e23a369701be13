package gpu

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// paperNodes are those of the paper's first dataset.
const paperNodes = 2_442_008

// manyVectors are different ones, made fast.
func manyVectors(t testing.TB, nodes, dim int) *graph.Vectors {
	t.Helper()
	vectors := must(graph.NewVectors(nodes, dim))(t)
	noise := draw(rand.New(rand.NewPCG(1, 2)), 1<<22, 1/math.Sqrt(float64(dim)))
	for i := range int32(nodes) {
		at := int(uint64(i) * 7919 * 64 % uint64(len(noise)-dim))
		row := slices.Clone(noise[at : at+dim])
		row[int(i)%dim] += .1
		if err := vectors.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	return vectors
}

// measuredNodes are as many as UNSEEN_CARD says, with a card to measure them on.
func measuredNodes(t *testing.T, dim, fields int) (*Device, model.Nodes, []int32) {
	t.Helper()
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_CARD"))
	if err != nil {
		t.Skip("UNSEEN_CARD does not say of how many nodes: no speed was measured; gpu/prove does")
	}
	d, vectors := card(t), manyVectors(t, nodes, dim)
	t.Cleanup(func() { vectors.Close() })
	n, all := model.Nodes{Vectors: vectors, Fields: make([]uint16, nodes), FieldCount: fields}, make([]int32, nodes)
	for i := range all {
		all[i], n.Fields[i] = int32(i), uint16(i%fields)
	}
	return d, n, all
}

// TestSpeedOnACard measures sums over all pairs, warm, the median of five, or of three where nodes are many. It takes
// minutes and gigabytes: gpu/prove runs it, with UNSEEN_CARD naming how many nodes there are.
//
// Long because it is one measurement.
func TestSpeedOnACard(t *testing.T) {
	const dim, fields = 768, 20
	d, n, all := measuredNodes(t, dim, fields)
	nodes := len(all)
	link := must(model.NewLink("diagonal", n, model.LinkOptions{}))(t)
	params := draw(rand.New(rand.NewPCG(3, 4)), link.Size(), 1)
	for k := range params {
		params[k] += 4
	}
	params[dim] = -6
	propensity := must(model.NewPropensity("field-matrix", n, model.PropensityOptions{}))(t)
	byFields := model.ExposureTerms{Constant: -1, Fields: draw(rand.New(rand.NewPCG(5, 6)), fields*fields, 1)}
	rarely := byFields
	rarely.Constant = -12
	dense := byFields
	dense.Link, dense.Source, dense.Target = .3, draw(rand.New(rand.NewPCG(7, 8)), nodes, .5),
		draw(rand.New(rand.NewPCG(9, 10)), nodes, .5)
	half, rounds := all[:nodes/2], 5
	if nodes > 1<<20 {
		rounds = 3
	}
	pairs := float64(nodes) * float64(nodes-1)
	for _, of := range []struct {
		name  string
		terms model.ExposureTerms
		r     engine.Rectangle
		parts float64 // of all pairs
	}{
		{"panel, exposure by field pairs", byFields, engine.Rectangle{Sources: all, Targets: all}, 1},
		{"panel, rare exposure", rarely, engine.Rectangle{Sources: all, Targets: all}, 1},
		{"panel, exposure of all terms", dense, engine.Rectangle{Sources: all, Targets: all}, 1},
		{"rectangle, exposure by field pairs", byFields, engine.Rectangle{Sources: half, Targets: all}, .5},
	} {
		for _, format := range []RowFormat{BFloat16, Float16, Float32} {
			if format == Float32 && nodes > 1<<18 || format == Float16 && nodes > 1<<20 {
				continue
			}
			e := must(New(d, Settings{Format: format}))(t)
			plan := must(newPlan(n, engine.Predictor{Link: link, LinkParams: params, Propensity: terms{propensity,
				of.terms}, PropensityParams: make([]float32, propensity.Size())}, of.r))(t)
			if err := d.do(func() error {
				ready, err := e.prepare(plan)
				if err != nil {
					return err
				}
				defer ready.free()
				if err := ready.place(stretch{0, uint32(len(of.r.Sources))}, stretch{0, uint32(nodes)}); err != nil {
					return err
				}
				var took []float64
				for range rounds + 1 {
					began := time.Now()
					if _, err := ready.run(t.Context()); err != nil {
						return err
					}
					took = append(took, time.Since(began).Seconds())
				}
				took = took[1:]
				slices.Sort(took)
				products := pairs * of.parts * 2 * dim
				if plan.both != 0 {
					products /= 2
				}
				t.Logf("%-36s %-9s %8.3f s (%.0f TFLOP/s; %.3f to %.3f); all pairs of %d nodes: %.2f s",
					of.name, format, took[rounds/2], products/took[rounds/2]/1e12, took[0], took[rounds-1], paperNodes,
					took[rounds/2]/pairs*float64(paperNodes)*float64(paperNodes-1))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBlockSpeedOnACard measures the whole of a sum over all pairs, from vectors in memory on, where the card has room
// for the rows, there also by fields, and where it may take a part of what they need.
func TestBlockSpeedOnACard(t *testing.T) {
	const dim, fields = 768, 20
	d, n, all := measuredNodes(t, dim, fields)
	nodes := len(all)
	link := must(model.NewLink("diagonal", n, model.LinkOptions{}))(t)
	params := draw(rand.New(rand.NewPCG(3, 4)), link.Size(), 1)
	params[dim] = -6
	propensity := must(model.NewPropensity("field-matrix", n, model.PropensityOptions{}))(t)
	by := engine.Predictor{Link: link, LinkParams: params, Propensity: terms{propensity, model.ExposureTerms{
		Constant: -1, Fields: draw(rand.New(rand.NewPCG(5, 6)), fields*fields, 1)}},
		PropensityParams: make([]float32, propensity.Size())}
	need := uint64(nodes) * dim * 2 * 2
	var whole engine.Sums
	for _, parts := range []uint64{1, 4, 10} {
		e := must(New(d, Settings{Format: BFloat16}))(t)
		if parts > 1 {
			e.memory = need / parts
		}
		began := time.Now()
		got := must(e.SumRectangle(t.Context(), n, by, engine.Rectangle{Sources: all, Targets: all}))(t)
		t.Logf("sums over all pairs of %d nodes with room for one in %d of their rows: %.2f s", nodes, parts,
			time.Since(began).Seconds())
		if parts == 1 {
			whole = got
			began = time.Now()
			var together engine.Sums
			for _, own := range must(e.SumFields(t.Context(), n, by, engine.Rectangle{Sources: all, Targets: all}))(t) {
				together.Add(own)
			}
			t.Logf("the same by pairs of %d fields: %.2f s", fields, time.Since(began).Seconds())
			if x := off(together, whole); x > 1e-6 {
				t.Errorf("by fields %g off: %+v, at once %+v", x, together, whole)
			}
		} else if x := off(got, whole); x > 1e-6 {
			t.Errorf("in blocks %g off: %+v, at once %+v", x, got, whole)
		}
	}
}

// TestGradientSpeedOnACard measures the likelihood over all pairs with its gradient, warm, the median of three or of
// one where nodes are many, and what the two halves take: slopes of all pairs, and their product with the rows.
func TestGradientSpeedOnACard(t *testing.T) {
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_CARD"))
	if err != nil {
		t.Skip("UNSEEN_CARD does not say of how many nodes: no speed was measured; gpu/prove does")
	}
	d := card(t)
	const dim, fields = 768, 20
	var b graph.Builder
	for i := range nodes {
		must(b.AddNode(graph.Node{ID: strconv.Itoa(i), Field: strconv.Itoa(i % fields)}))(t)
	}
	if err := b.AddLinkIndex(0, 1); err != nil {
		t.Fatal(err)
	}
	g, _, err := b.Build()
	vectors := manyVectors(t, nodes, dim)
	defer vectors.Close()
	g = must(must(g, err)(t).WithVectors(vectors))(t)
	n := model.NodesOf(g)
	o := &engine.Objective{Link: must(model.NewLink("diagonal", n, model.LinkOptions{}))(t), Graph: g, LambdaL: 1,
		Propensity: must(model.NewPropensity("field-matrix", n, model.PropensityOptions{}))(t)}
	params := draw(rand.New(rand.NewPCG(3, 4)), o.Size(), 1)
	for k := range dim {
		params[k] += 4
	}
	params[dim] = -6
	link, propensity := o.Split(params)
	e := must(New(d, Settings{Format: BFloat16}))(t)
	rounds := 3
	if nodes > 1<<20 {
		rounds = 1
	}
	all := model.ExposureTerms{Link: .3, Source: draw(rand.New(rand.NewPCG(7, 8)), nodes, .5),
		Target: draw(rand.New(rand.NewPCG(9, 10)), nodes, .5)}
	for _, of := range []struct {
		name  string
		terms model.ExposureTerms
		less  float32
	}{{"rare", model.ExposureTerms{}, 10}, {"one half", model.ExposureTerms{}, 0}, {"of all terms", all, 3}} {
		of.terms.Fields = slices.Clone(propensity)
		for k := range of.terms.Fields {
			of.terms.Fields[k] -= of.less
		}
		if err := e.turn(func() error {
			ready, err := e.prepareSlopes(o, engine.Rectangle{Sources: g.Sources(), Targets: g.Targets()},
				!of.terms.ByFields())
			if err != nil {
				return err
			}
			defer ready.free()
			for _, wanted := range []bool{false, true} {
				var took []float64
				for range rounds + 1 {
					began := time.Now()
					if _, err := ready.run(t.Context(), link, of.terms, wanted); err != nil {
						return err
					}
					took = append(took, time.Since(began).Seconds())
				}
				took = took[1:]
				slices.Sort(took)
				scale := float64(paperNodes) / float64(nodes)
				t.Logf("likelihood of all pairs, exposure %-12s gradient %-5v %8.3f s (%.3f to %.3f); "+
					"all pairs of %d nodes: %.2f s", of.name, wanted, took[rounds/2], took[0], took[rounds-1],
					paperNodes, took[rounds/2]*scale*scale)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	gradientSpeedInBlocks(t, d, e, o, params)
}

// gradientSpeedInBlocks measures the whole of it, from vectors in memory on, with all rows on the card and in a quarter
// of the room that they need.
func gradientSpeedInBlocks(t *testing.T, d *Device, e *OnCard, o *engine.Objective, params []float32) {
	t.Helper()
	dim := o.Graph.Vectors().Dim() // the intercept's place
	blocks := must(New(d, Settings{Format: BFloat16, Memory: uint64(o.Graph.Len()*dim) * 2 * 3 * 3 / 2 / 4}))(t)
	var whole []float64
	for k, of := range []string{"at once", "in a quarter of the room that rows need"} {
		e, grad := []*OnCard{e, blocks}[k], make([]float64, o.Size())
		for range 2 {
			began := time.Now()
			if _, _, err := e.SumLikelihood(t.Context(), o, params, engine.Rectangle{Sources: o.Graph.Sources(),
				Targets: o.Graph.Targets()}, grad); err != nil {
				t.Fatal(err)
			}
			t.Logf("the same, one half, %s, from vectors in memory on: %.2f s", of, time.Since(began).Seconds())
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			whole = grad
		}
		for k, x := range grad {
			if math.Abs(x-whole[k]) > 1e-5*math.Abs(whole[dim]) {
				t.Fatalf("%s slope %d is %v, at once %v", of, k, x, whole[k])
			}
		}
	}
}
