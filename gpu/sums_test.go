package gpu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// card opens the real one, or says what is not run.
func card(t testing.TB) *Device {
	t.Helper()
	d, err := Open(0)
	if errors.Is(err, ErrNoCard) && os.Getenv("UNSEEN_CARD") == "" {
		t.Skipf("%v: nothing was run on a card; gpu/prove runs it where there is one", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// terms is a propensity model of any terms.
type terms struct {
	model.PropensityModel
	of model.ExposureTerms
}

func (m terms) Terms([]float32) (model.ExposureTerms, bool) { return m.of, true }

// rectangle is something to sum.
type rectangle struct {
	name      string
	nodes     model.Nodes
	predictor engine.Predictor
	engine.Rectangle
}

func draw(rng *rand.Rand, n int, scale float64) []float32 {
	out := make([]float32, n)
	for k := range out {
		out[k] = float32(scale * rng.NormFloat64())
	}
	return out
}

// drawnGraph has nodes in fields of one and of many.
func drawnGraph(t testing.TB, rng *rand.Rand, nodes, dim int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for i := range nodes {
		field := fmt.Sprint("small ", i%40)
		if f := rng.IntN(6); f < 5 {
			field = fmt.Sprint("large ", f/3)
		}
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: field}))(t)
	}
	if nodes > 1 {
		if err := b.AddLinkIndex(0, 1); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	vectors := must(graph.NewVectors(nodes, dim))(t)
	for i := range int32(nodes) {
		if err := vectors.Set(i, draw(rng, dim, 1/math.Sqrt(float64(dim)))); err != nil {
			t.Fatal(err)
		}
	}
	return must(must(g, err)(t).WithVectors(vectors))(t)
}

// rectangles are drawn anew with every seed: all models and terms, sizes below a tile and with every remainder.
func rectangles(t testing.TB, seed uint64, rounds, most int) (out []rectangle) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for round := range rounds {
		nodes, dim := 2+rng.IntN(most), 1+rng.IntN(150)
		if round == 3 {
			nodes = 2
		}
		mirrored := round%6 == 0 // one product serves both directions
		if mirrored {
			nodes += 130
		}
		g := drawnGraph(t, rng, nodes, dim)
		n := model.NodesOf(g)
		kind := []string{"diagonal", "diagonal-field", "low-rank"}[round%3]
		link := must(model.NewLink(kind, n, model.LinkOptions{Rank: min(4, dim)}))(t)
		params := draw(rng, link.Size(), 2)
		if kind == "low-rank" {
			params = draw(rng, link.Size(), .5)
		}
		if kind != "low-rank" { // b: links are rare, or common
			params[dim] = []float32{-14, -3, 1, 5}[rng.IntN(4)]
		}
		propensity := must(model.NewPropensity("field-matrix", n, model.PropensityOptions{}))(t)
		e := model.ExposureTerms{Constant: float32(rng.NormFloat64()*3 - 2)}
		rare := round%24 == 0
		if rare {
			e.Constant -= 10
		}
		if rng.IntN(4) > 0 {
			e.Fields = draw(rng, n.FieldCount*n.FieldCount, 2)
		}
		if dense := rng.IntN(2) > 0; dense && !mirrored || round%12 == 6 {
			e.Link, e.Source, e.Target = float32(rng.NormFloat64()), draw(rng, nodes, 1), draw(rng, nodes, 1)
		}
		all := make([]int32, nodes)
		for i := range all {
			all[i] = int32(i)
		}
		some := func() []int32 {
			if round%2 == 0 || nodes < 3 {
				return all
			}
			var out []int32
			for i := range int32(nodes) {
				if rng.IntN(3) > 0 {
					out = append(out, i)
				}
			}
			return out
		}
		r := engine.Rectangle{Sources: some(), Targets: some()}
		if rng.IntN(3) == 0 && !mirrored {
			r.Rank = g.ShuffledOrder(rng).Rank
		}
		if rng.IntN(2) == 0 && !rare {
			r.Floor = .05
		}
		out = append(out, rectangle{fmt.Sprintf("%d: %s, %d nodes of %d numbers, ordered %v, dense %v", round, kind,
			nodes, dim, r.Rank != nil, e.Link != 0), n, engine.Predictor{Link: link, LinkParams: params,
			Propensity: terms{propensity, e}, PropensityParams: make([]float32, propensity.Size())}, r})
	}
	return out
}

// inFloat64 sums pair after pair, of rows as the card has them.
func (r *rectangle) inFloat64(t testing.TB, format RowFormat) (total engine.Sums) {
	for _, own := range r.byFieldInFloat64(t, format, false) {
		total.Add(own)
	}
	return total
}

// byFieldInFloat64 is the same by the fields of sources and targets, which may be summed apart.
func (r *rectangle) byFieldInFloat64(t testing.TB, format RowFormat, apart bool) []engine.Sums {
	p := must(newPlan(r.nodes, r.predictor, r.Rectangle))(t)
	dim := p.rows.Dim()
	rounded := func(row []float32) {
		for d, x := range row {
			switch format {
			case BFloat16:
				row[d] = math.Float32frombits(uint32(toBFloat16(x)) << 16)
			case Float16:
				half := make([]uint16, 1)
				kern.ToHalf(half, []float32{x})
				kern.FromHalf(row[d:d+1], half)
			}
		}
	}
	type scratch struct{ own, target, offsets []float32 }
	z := func(of *scratch, i, j int32) float64 {
		p.inner.Query(of.own, of.offsets, p.params, i)
		kern.MatrixOf(p.rows).Load(of.target, int(j))
		rounded(of.own)
		rounded(of.target)
		sum := float64(of.offsets[r.nodes.Fields[j]])
		for d, x := range of.own {
			sum += float64(x) * float64(of.target[d])
		}
		return sum
	}
	e, _ := model.TermsOf(r.predictor.Propensity, nil)
	s := func(i, j int32, z float64) float64 {
		sum := float64(e.Constant) + float64(e.Link)*z
		if e.Fields != nil {
			sum += float64(e.Fields[int(r.nodes.Fields[i])*r.nodes.FieldCount+int(r.nodes.Fields[j])])
		}
		if e.Source != nil {
			sum += float64(e.Source[i]) + float64(e.Target[j])
		}
		return sum
	}
	place := map[int32]int{}
	for k, i := range p.sources.nodes {
		place[i] = k
	}
	add := func(to []engine.Sums, of *scratch, i, j int32) {
		logit := 0.
		served := p.both != 0 && (!apart || r.nodes.Fields[i] == r.nodes.Fields[j])
		if served && place[j] > place[i] { // the product of the other direction serves
			logit = z(of, j, i)
		} else {
			logit = z(of, i, j)
		}
		own := &to[int(r.nodes.Fields[i])*r.nodes.FieldCount+int(r.nodes.Fields[j])]
		own.Add(ofPair(logit, s(i, j, logit), r.Floor))
	}
	bySource := make([][]engine.Sums, len(r.Sources))
	kern.Chunks(len(r.Sources), 1, runtime.GOMAXPROCS(0), func(_, k, _, _ int) {
		i, of := r.Sources[k], scratch{make([]float32, dim), make([]float32, dim), make([]float32, r.nodes.FieldCount)}
		bySource[k] = make([]engine.Sums, r.nodes.FieldCount*r.nodes.FieldCount)
		for _, j := range r.Targets {
			if i != j && (r.Rank == nil || r.Rank[j] < r.Rank[i]) {
				add(bySource[k], &of, i, j)
			}
		}
	})
	out := make([]engine.Sums, r.nodes.FieldCount*r.nodes.FieldCount)
	for _, own := range bySource {
		for cell := range out {
			out[cell].Add(own[cell])
		}
	}
	return out
}

// ofPair is what a pair with these logits of y and π adds to sums.
func ofPair(logit, exposure, floor float64) engine.Sums {
	pi, hidden := kern.Sigmoid64(exposure)
	if pi < floor {
		hidden = 1 - floor
	}
	sigma, other := kern.Sigmoid64(logit)
	no := math.Max(logit, 0) + math.Log1p(math.Exp(-math.Abs(logit)))
	yes := no - logit
	psi, tau := other/(other+hidden*sigma), hidden*sigma/(other+hidden*sigma)
	return engine.Sums{Pairs: 1, Link: sigma, Propensity: pi, Likelihood: -math.Log1p(-pi * sigma), Naive: no,
		W: psi * no, PU: no, AP: psi*no + tau*yes}
}

// off is the largest relative error of sums.
func off(got, want engine.Sums) float64 {
	if got.Pairs != want.Pairs {
		return math.Inf(1)
	}
	most := 0.
	for _, p := range [][2]float64{{got.Link, want.Link}, {got.Likelihood, want.Likelihood}, {got.Naive, want.Naive},
		{got.W, want.W}, {got.PU, want.PU}, {got.AP, want.AP}, {got.Propensity, want.Propensity}} {
		if p[0] != p[0] {
			return math.Inf(1)
		}
		if p[1] != 0 {
			most = max(most, math.Abs(p[0]-p[1])/math.Abs(p[1]))
		}
	}
	return most
}

// What the card is given, cut into tiles and put together again comes to what the processor sums: with a card that is
// not there, on both ways.
func TestSumsByAFakeCard(t *testing.T) {
	t.Parallel()
	rounds, most := 18, 260
	if testing.Short() {
		rounds, most = 6, 140
	}
	for _, r := range rectangles(t, 1, rounds, most) {
		want := must(engine.CPU{}.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
		for _, capability := range []int32{80, 90} {
			for _, format := range []RowFormat{Float32, Float16, BFloat16} {
				fake := newFakeCard(capability)
				d := must(open(&fake.driver, 0))(t)
				e := must(New(d, Settings{Format: format}))(t)
				got := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
				if format == Float32 {
					if x := off(got, want); x > 2e-5 {
						t.Errorf("%s: %+v; the processor has %+v", r.name, got, want)
					}
				}
				if x := off(got, r.inFloat64(t, format)); x > 3e-6 {
					t.Errorf("%s, %s, generation %d: %g off, %+v", r.name, format, capability, x, got)
				}
				if len(fake.memory) > 0 {
					t.Errorf("%s: %d pieces of memory are not given back", r.name, len(fake.memory))
				}
			}
		}
	}
}

// What the card has no room for at once is summed block by block: by a limit, or where less is free than it has. Every
// pair is in one block, whatever its size, and where the lists are one a block of two stretches serves both directions.
// The same holds by fields.
func TestSumsInBlocks(t *testing.T) {
	t.Parallel()
	rounds := 13
	if testing.Short() {
		rounds = 7
	}
	for round, r := range rectangles(t, 4, rounds, 200) {
		format := []RowFormat{BFloat16, Float32, Float16}[round%3]
		want, byField := r.inFloat64(t, format), r.byFieldInFloat64(t, format, true)
		for k, of := range []struct {
			memory, free uint64 // a limit, and what others have left
		}{{memory: 1}, {memory: 1}, {free: 180 << 10}, {memory: 1 << 20}} {
			capability := []int32{80, hopper}[k%2]
			fake := newFakeCard(capability)
			e := must(New(must(open(&fake.driver, 0))(t), Settings{Format: format, Memory: of.memory}))(t)
			if of.free > 0 {
				table := uint64(r.nodes.FieldCount*r.nodes.FieldCount) * 32
				fake.left = 4*fakeProcessors*256*perThread*8 + table + of.free
			}
			free := fake.left
			got := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
			if x := off(got, want); x > 3e-6 {
				t.Errorf("%s, %s, generation %d, %+v: %g off, %+v", r.name, format, capability, of, x, got)
			}
			if fake.left != free {
				t.Errorf("%s, %+v: memory is not given back", r.name, of)
			}
			blocks := max(len(r.Sources), len(r.Targets)) > 128 && of.memory == 1
			if blocks && fake.runs < 2 {
				t.Errorf("%s, %+v: %d launches", r.name, of, fake.runs)
			}
			if k%2 != round%2 {
				continue
			}
			for cell, own := range must(e.SumFields(t.Context(), r.nodes, r.predictor, r.Rectangle))(t) {
				if x := off(own, byField[cell]); x > 5e-6 {
					t.Errorf("%s, %s, generation %d, %+v, fields %d: %g off, %+v", r.name, format, capability, of, cell,
						x, own)
				}
			}
			if fake.left != free {
				t.Errorf("%s, %+v: memory is not given back after fields", r.name, of)
			}
		}
	}
	fake := newFakeCard(hopper)
	e := must(New(must(open(&fake.driver, 0))(t), Settings{}))(t)
	fake.left = 4*fakeProcessors*256*perThread*8 + 1<<10 // room for the sums, and for hardly a row
	r := rectangles(t, 4, 2, 200)[1]
	if got, err := e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle); !errors.Is(err, errFull) ||
		!strings.Contains(err.Error(), "use the processor") {
		t.Errorf("without room: %+v, %v", got, err)
	}
}

// The kernel for pairs that are unlikely to be linked is used where one product serves both directions, and given up
// after a look where pairs are likely; the sums are the same.
func TestUnlikelyPairsByAFakeCard(t *testing.T) {
	t.Parallel()
	r := rectangles(t, 1, 13, 140)[12]
	for _, likely := range []bool{false, true} {
		fake := newFakeCard(hopper)
		fake.likely = likely
		e := must(New(must(open(&fake.driver, 0))(t), Settings{Format: BFloat16, Memory: 1}))(t)
		got := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
		if x := off(got, r.inFloat64(t, BFloat16)); x > 3e-6 {
			t.Errorf("%s, likely %v: %g off, %+v", r.name, likely, x, got)
		}
		if few := fake.unlikely < fake.runs; few != likely || fake.unlikely == 0 {
			t.Errorf("%s, likely %v: %d of %d launches by powers", r.name, likely, fake.unlikely, fake.runs)
		}
	}
}

// What is embedded was made from the source that lies beside it. That the compiler makes the same bytes of it again is
// for gpu/make-kernels --verify.
func TestKernelsAreOfTheirSource(t *testing.T) {
	t.Parallel()
	sum := func(patterns ...string) string {
		hash := sha256.New()
		for _, pattern := range patterns {
			files := must(filepath.Glob(pattern))(t)
			if len(files) == 0 {
				t.Fatalf("no %s", pattern)
			}
			for _, file := range files {
				hash.Write(must(os.ReadFile(file))(t))
			}
		}
		return hex.EncodeToString(hash.Sum(nil))
	}
	want := strings.Fields(string(must(os.ReadFile("kernels/source.sum"))(t)))
	if len(want) != 2 {
		t.Fatalf("kernels/source.sum has %d sums", len(want))
	}
	if sum("kernels/*.cu", "kernels/*.cuh", "requirements.txt") != want[0] {
		t.Errorf("the source of the kernels has changed: run gpu/make-kernels")
	}
	if sum("kernels/*.gz") != want[1] {
		t.Errorf("the kernels that are embedded are not those that were made with this source: run gpu/make-kernels")
	}
}

// Engines on one card do not get in each other's way; and a card that was closed is an error, not sums of nothing.
func TestEnginesShareACard(t *testing.T) {
	t.Parallel()
	r := rectangles(t, 3, 1, 40)[0]
	fake := newFakeCard(hopper)
	d := must(open(&fake.driver, 0))(t)
	narrow, wide := must(New(d, Settings{Format: BFloat16}))(t), must(New(d, Settings{}))(t)
	for _, e := range []*OnCard{narrow, wide, narrow, wide} {
		got := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
		if x := off(got, r.inFloat64(t, e.format)); x > 1e-5 {
			t.Errorf("%s: %g off", e.format, x)
		}
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if got, err := narrow.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %+v, %v", got, err)
	}
}

// All tiles have numbers, each one.
func TestEveryTileHasANumber(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		j := job{m: 1 + rng.Uint32N(3000), n: 1 + rng.Uint32N(3000)}
		if rng.IntN(2) == 0 {
			j.n, j.triangle = j.m, 1
		}
		cut := []tiling{{512, 64, 64}, {1024, 128, 128}, {3072, 256, 192}}[rng.IntN(3)]
		found := map[[2]uint32]int{}
		for number := range cut.tiles(j.m, j.n, j.triangle != 0) {
			if row, column, ok := tileAt(&j, number, cut); ok {
				found[[2]uint32{row, column}]++
			}
		}
		for i := uint64(0); i < uint64(j.m); i += cut.rows {
			for k := uint64(0); k < uint64(j.n) && (j.triangle == 0 || k < i+cut.rows); k += cut.columns {
				at := [2]uint32{uint32(i / cut.rows), uint32(k / cut.columns)}
				if found[at] != 1 {
					t.Fatalf("%+v: tile %v has %d numbers", j, at, found[at])
				}
				delete(found, at)
			}
		}
		if len(found) > 0 {
			t.Fatalf("%+v: tiles that are not there: %v", j, found)
		}
	}
}

// A driver that fails is an error that names the call, and nothing is left behind.
func TestFailingCard(t *testing.T) {
	t.Parallel()
	r := rectangles(t, 2, 1, 50)[0]
	for _, call := range []string{"cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuLaunchKernel", "cuCtxSynchronize",
		"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuTensorMapEncodeTiled", "cuCtxSetCurrent"} {
		fake := newFakeCard(90)
		e := must(New(must(open(&fake.driver, 0))(t), Settings{Format: BFloat16}))(t)
		fake.fails[call] = 700
		_, err := e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle)
		if err == nil || !strings.Contains(err.Error(), "700") {
			t.Errorf("%s: %v", call, err)
		}
		if call != "cuMemAlloc" && len(fake.memory) > 0 {
			t.Errorf("%s: memory is not given back", call)
		}
	}
	old := newFakeCard(75)
	if _, err := open(&old.driver, 0); !errors.Is(err, ErrNoCard) || !strings.Contains(err.Error(), "7.5") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := must(New(must(open(&newFakeCard(90).driver, 0))(t), Settings{}))(t)
	if _, err := e.SumRectangle(ctx, r.nodes, r.predictor, r.Rectangle); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	link := must(model.NewLink("mlp", r.nodes, model.LinkOptions{Rank: 2}))(t)
	p := r.predictor
	p.Link, p.LinkParams = link, make([]float32, link.Size())
	if _, err := e.SumRectangle(t.Context(), r.nodes, p, r.Rectangle); !errors.Is(err, engine.ErrUnsupported) ||
		!strings.Contains(err.Error(), "mlp") {
		t.Error(err)
	}
}

// On a card: float32 within 1e-5 of float64, and 16 bits within 1e-6 beyond the rounding of the rows themselves; the
// same bits on every run. A logit of 16 is rounded by 1e-6 in float32, which cancels over many pairs but not over few,
// and not at all where all pairs share it, as those of a tiny π do.
func TestSumsOnACard(t *testing.T) {
	d := card(t)
	seed := rand.Uint64()
	t.Logf("%s, generation %d, CUDA %s, seed %d", d.Name, d.Capability, d.Driver, seed)
	worst := map[RowFormat]float64{} // of those with more than a few pairs
	for _, r := range rectangles(t, seed, 60, 700) {
		for format, most := range map[RowFormat]float64{Float32: 1e-5, Float16: 1e-6, BFloat16: 1e-6} {
			e := must(New(d, Settings{Format: format}))(t)
			got := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
			again := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
			if got != again {
				t.Errorf("%s, %s: %+v, then %+v", r.name, format, got, again)
			}
			want := r.inFloat64(t, format)
			x, pairs := off(got, want), max(float64(want.Pairs), 1)
			if want.Pairs > 1000 {
				worst[format] = max(worst[format], x)
			}
			most += 3e-6/math.Sqrt(pairs) + 0x1p-24*math.Abs(math.Log(want.Propensity/pairs))
			if !(x <= most) {
				t.Errorf("%s, %s: %g off: %+v, in float64 %+v", r.name, format, x, got, want)
			}
			byField := r.byFieldInFloat64(t, format, true)
			for cell, own := range must(e.SumFields(t.Context(), r.nodes, r.predictor, r.Rectangle))(t) {
				if x := off(own, byField[cell]); !(x <= most+1e-5/math.Sqrt(float64(own.Pairs))) {
					t.Errorf("%s, %s, fields %d: %g off: %+v, in float64 %+v", r.name, format, cell, x, own,
						byField[cell])
				}
			}
			e.memory = 1 // the smallest blocks
			blocks := must(e.SumRectangle(t.Context(), r.nodes, r.predictor, r.Rectangle))(t)
			if x := off(blocks, want); !(x <= most) {
				t.Errorf("%s, %s, in blocks: %g off: %+v, in float64 %+v", r.name, format, x, blocks, want)
			}
		}
	}
	t.Logf("largest relative errors: %v", worst)
}
