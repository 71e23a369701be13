package encode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/internal/racetest"
	"unseen/internal/safetensors"
	"unseen/progress"
)

var background = context.Background()

// library is n documents on a number of subjects: document i is about subject i mod subjects, and most of its words
// are of that subject.
func library(seed uint64, n, subjects int) TextList {
	r := rand.New(rand.NewPCG(seed, 4))
	word := func(subject int) string { return fmt.Sprintf("s%dw%d", subject, int(30*r.Float64()*r.Float64())) }
	docs := make(TextList, n)
	for i := range docs {
		var title, text []string
		for k := range 40 {
			subject := i % subjects
			if r.IntN(3) == 0 {
				subject = r.IntN(subjects)
			}
			text = append(text, word(subject))
			if k < 4 {
				title = append(title, word(i%subjects))
			}
		}
		docs[i] = Text{strings.Join(title, " "), strings.Join(text, " ")}
	}
	return docs
}

// fitted learns from documents and encodes them.
func fitted(tb testing.TB, docs Texts, s Settings) (*LSA, *Summary, table) {
	tb.Helper()
	e, report, err := Fit(background, docs, s)
	ok(tb, err)
	tb.Cleanup(func() { e.Close() })
	vectors := make(table, docs.Len())
	_, err = e.EncodeAll(background, docs, vectors, s.Threads, nil)
	ok(tb, err)
	return e, report, vectors
}

func fileOf(tb testing.TB, e *LSA) []byte {
	tb.Helper()
	var b bytes.Buffer
	ok(tb, e.Write(&b))
	return b.Bytes()
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestThreadsDoNotMatter has the same goroutines")
	docs := library(1, 600, 6)
	_, report, vectors := fitted(t, docs, Settings{Dim: 6})
	var same, other float64
	for i := range 300 {
		same += vectors.cosine(i, i+6) / 300
		other += vectors.cosine(i, i+7) / 300
		if length := math.Sqrt(vectors.cosine(i, i)); math.Abs(length-1) > 1e-5 {
			t.Errorf("vector %d has length %v", i, length)
		}
	}
	if same < .9 || other > .6 {
		t.Errorf("documents on one subject have the mean cosine %.3f, on two %.3f", same, other)
	}
	if report.Documents != 600 || report.Dim != 6 || report.Empty != 0 || report.Terms == 0 ||
		report.Found < report.Terms || report.Explained <= 0 || report.Explained > 1 || len(report.Warnings) > 0 {
		t.Errorf("%+v", report)
	}
}

// The same bytes come out whatever the threads, and whatever was encoded before.
func TestThreadsDoNotMatter(t *testing.T) {
	t.Parallel()
	docs := library(2, 1000, 5)
	docs[17] = Text{}
	var want []byte
	var rows table
	for _, threads := range []int{1, 2, 3, 8} {
		e, report, vectors := fitted(t, docs, Settings{Dim: 20, Threads: threads, Bigrams: true, Seed: 9})
		got := fileOf(t, e)
		if want == nil {
			want, rows = got, vectors
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d threads make another encoder", threads)
		}
		for i := range vectors {
			if !slices.Equal(vectors[i], rows[i]) {
				t.Fatalf("%d threads make another vector %d", threads, i)
			}
		}
		if report.Empty != 1 {
			t.Errorf("%+v", report)
		}
	}
}

func TestFileRoundTrip(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestThreadsDoNotMatter has the same goroutines")
	docs := library(3, 300, 4)
	e, _, vectors := fitted(t, docs, Settings{Dim: 8, TitleWeight: .5, Bigrams: true, Buckets: 1 << 24})
	whole := fileOf(t, e)
	back, err := Read(bytes.NewReader(whole), int64(len(whole)))
	ok(t, err)
	defer back.Close()
	if !bytes.Equal(fileOf(t, back), whole) {
		t.Error("an encoder that was read writes another file")
	}
	for i, d := range docs {
		if x, known := back.Encode(d); !known || !slices.Equal(x, vectors[i]) {
			t.Fatalf("document %d has the vector %v, and had %v", i, x, vectors[i])
		}
	}
	if !slices.Equal(back.Component(2, 5), e.Component(2, 5)) || len(e.Component(0, 1<<30)) != len(e.terms) {
		t.Error("components differ")
	}
	if x, known := back.Encode(Text{Body: "never seen before"}); known ||
		slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
		t.Errorf("unknown words have the vector %v", x)
	}
}

// The names of terms are the words themselves, also where documents are only sampled.
func TestNamesAndSample(t *testing.T) {
	t.Parallel()
	docs := library(4, 900, 3)
	e, report, _ := fitted(t, docs, Settings{Dim: 5, Sample: 100})
	if report.Sample != 100 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "every 9th") {
		t.Errorf("%+v", report)
	}
	c := newCounter(e.buckets, false)
	for k, name := range e.names {
		if name != "" && c.bucket([]byte(name)) != e.terms[k] {
			t.Errorf("term %d is called %q, which is in another bucket", k, name)
		}
	}
	if !slices.Contains(e.names, "s1w0") {
		t.Errorf("no term is called s1w0: %q", e.names)
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	docs := library(5, 300, 3)
	e, _, _ := fitted(t, docs, Settings{Dim: 3, TitleWeight: -1})
	if _, known := e.Encode(Text{Title: docs[0].Title}); known {
		t.Error("a title counts although it should not")
	}
	light, _, _ := fitted(t, docs, Settings{Dim: 3, TitleWeight: .1})
	heavy, _, _ := fitted(t, docs, Settings{Dim: 3, TitleWeight: 10})
	share := func(e *LSA) float64 {
		d := Text{Title: "s0w0", Body: "s1w1 s1w2 s1w3"}
		for _, term := range e.Terms(d) {
			if term.Name == "s0w0" {
				return term.Weight
			}
		}
		return 0
	}
	if !(share(light) > 0 && share(light) < share(heavy)) {
		t.Errorf("a word of the title weighs %v and %v", share(light), share(heavy))
	}
}

// What an explanation names adds up to the score, which is that of the vectors, whatever the weights.
func TestExplanationsAddUp(t *testing.T) {
	t.Parallel()
	docs := library(6, 400, 4)
	e, _, vectors := fitted(t, docs, Settings{Dim: 12})
	r := rand.New(rand.NewPCG(6, 6))
	for trial := range 200 {
		i, j := r.IntN(len(docs)), r.IntN(len(docs))
		var w []float32
		if trial%3 > 0 {
			w = make([]float32, e.Dim())
			for k := range w {
				w[k] = float32(r.NormFloat64())
			}
		}
		why, err := e.Explain(docs[i], docs[j], w)
		ok(t, err)
		var want, sum, size float64
		for k := range vectors[i] {
			weight := 1.
			if w != nil {
				weight = float64(w[k])
			}
			want += weight * float64(vectors[i][k]) * float64(vectors[j][k])
		}
		in := [2]map[string]bool{{}, {}}
		for side, d := range []Text{docs[i], docs[j]} {
			for _, term := range e.Terms(d) {
				in[side][term.Name] = true
			}
		}
		for k, c := range why.Terms {
			sum += c.Score
			size += math.Abs(c.Score)
			if c.InA != in[0][c.Name] || c.InB != in[1][c.Name] || c.Shared() != (c.InA && c.InB) {
				t.Errorf("%+v, in the documents %t, %t", c, in[0][c.Name], in[1][c.Name])
			}
			if k > 0 && c.Score > why.Terms[k-1].Score {
				t.Error("contributions rise")
			}
		}
		if math.Abs(why.Score-want) > 1e-5 || math.Abs(sum-want) > 1e-4*(1+size) {
			t.Errorf("%d and %d: the score is %v, the terms add up to %v, and the vectors give %v", i, j, why.Score,
				sum, want)
		}
	}
	_, err := e.Explain(docs[0], docs[1], []float32{1})
	if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "12 components") {
		t.Error(err)
	}
	if why, err := e.Explain(docs[0], Text{}, nil); err != nil || why.Score != 0 {
		t.Errorf("%+v, %v", why, err)
	}
}

func TestTermsOfADocument(t *testing.T) {
	t.Parallel()
	e, _, _ := fitted(t, library(7, 300, 3), Settings{Dim: 3})
	terms := e.Terms(Text{Title: "S1W1", Body: "s1w1 s2w0 unheardof"})
	var squares float64
	for _, term := range terms {
		squares += term.Weight * term.Weight
	}
	if len(terms) != 2 || terms[0].Name != "s1w1" || math.Abs(squares-1) > 1e-5 {
		t.Errorf("%+v", terms)
	}
}

// broken fails at a document.
type broken struct {
	TextList
	at int
}

var errBroken = errors.New("page 3 is torn")

func (b broken) Text(i int) (Text, error) {
	if i == b.at {
		return Text{}, errBroken
	}
	return b.TextList[i], nil
}

func TestBadTexts(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestThreadsDoNotMatter has the same goroutines")
	same := make(TextList, 50)
	for i := range same {
		same[i] = Text{Body: "the very same words in every text"}
	}
	for name, c := range map[string]struct {
		docs Texts
		s    Settings
		kind error
		says string
	}{
		"none":  {TextList{}, Settings{}, ErrTexts, "none of the 0"},
		"empty": {make(TextList, 10), Settings{}, ErrTexts, "none of the 10"},
		"no words": {TextList{{Body: "..."}, {Body: "— the of —"}, {Title: "\xff\xfe"}}, Settings{}, ErrTexts,
			"give them titles or texts"},
		"one":          {TextList{{Body: "a single text"}}, Settings{}, ErrTexts, "only one of the 1 "},
		"one of three": {TextList{{}, {Body: "a single text"}, {}}, Settings{}, ErrTexts, "only one of the 3 "},
		"alike":        {same, Settings{}, ErrTexts, "identical"},
		"nothing twice": {TextList{{Body: "one two"}, {Body: "three four"}}, Settings{MinDocuments: 2}, ErrTexts,
			"no term is in 2 documents"},
		"dim > rank": {library(1, 20, 3), Settings{Dim: 21}, ErrDimension, "20 or less"},
		"dim > terms": {TextList{{Body: "red green"}, {Body: "red blue"}, {Body: "blue green"}, {Body: "blue blue"}},
			Settings{Dim: 4}, ErrDimension, "3 or less"},
		"dim < 0":      {same, Settings{Dim: -1}, ErrSettings, "Dim is -1"},
		"dim huge":     {same, Settings{Dim: 1 << 30}, ErrSettings, "Dim"},
		"buckets":      {same, Settings{Buckets: 1000}, ErrSettings, "power of 2"},
		"title weight": {same, Settings{TitleWeight: math.NaN()}, ErrSettings, "TitleWeight"},
		"threads":      {same, Settings{Threads: -1}, ErrSettings, "Threads -1"},
		"torn":         {broken{library(1, 500, 3), 300}, Settings{Threads: 3}, errBroken, "torn"},
	} {
		_, _, err := Fit(background, c.docs, c.s)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q of kind %v", name, err, c.says, c.kind)
		}
	}
	// with no dimension asked for, there are as many as can be, and a word about it
	_, report, vectors := fitted(t, library(1, 20, 3), Settings{})
	if report.Dim > 20 || report.Dim < 10 || len(vectors[0]) != report.Dim || len(report.Warnings) != 1 {
		t.Errorf("%+v", report)
	}
	// bytes that are not UTF-8 do not count
	e, _, _ := fitted(t, TextList{{Body: "red \xffgreen"}, {Body: "red blue"}, {Body: "blue green\xc3"}}, Settings{})
	a, _ := e.Encode(Text{Body: "green \xf0\x28 blue"})
	b, _ := e.Encode(Text{Body: "green blue"})
	if !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	e2, _, _ := fitted(t, library(1, 300, 3), Settings{Dim: 3})
	if _, err := e2.EncodeAll(background, broken{library(1, 500, 3), 300}, make(table, 500), 2, nil); !errors.Is(err,
		errBroken) {
		t.Error(err)
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"counting terms", "weighing terms", "finding components"} {
		ctx, stop := context.WithCancel(background)
		_, _, err := Fit(ctx, library(1, 2000, 3), Settings{Dim: 5, Threads: 2, Progress: func(e progress.Event) {
			if e.Done < 0 || e.Done > e.Of {
				t.Errorf("%+v", e)
			}
			if e.Phase == phase {
				stop()
			}
		}})
		stop()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", phase, err)
		}
	}
	e, _, _ := fitted(t, library(1, 300, 3), Settings{Dim: 5})
	ctx, stop := context.WithCancel(background)
	_, err := e.EncodeAll(ctx, library(1, 3000, 3), make(table, 3000), 2, func(progress.Event) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A text of 50 MB among others is a text.
func TestHugeText(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	docs := library(8, 30, 3)
	docs[3].Body = strings.Repeat(docs[3].Body+" ", 50_000_000/len(docs[3].Body))
	began := time.Now()
	_, report, vectors := fitted(t, docs, Settings{Dim: 3})
	t.Logf("%d bytes took %v", len(docs[3].Body), time.Since(began))
	if report.Empty != 0 || vectors.cosine(3, 0) < .5 {
		t.Errorf("%+v, cosine %v", report, vectors.cosine(3, 0))
	}
}

func FuzzRead(f *testing.F) {
	e, _, err := Fit(background, TextList{{Body: "red green"}, {Body: "red blue"}, {Body: "blue green"},
		{Body: "blue blue"}}, Settings{})
	ok(f, err)
	whole := fileOf(f, e)
	length := binary.LittleEndian.Uint64(whole)
	f.Add(whole[8:8+length], whole[8+length:])
	f.Add([]byte(`{"__metadata__":{"format":"unseen-encoder","format_version":"1","kind":"builtin"}}`), []byte{})
	f.Add(bytes.Replace(whole[8:8+length], []byte(`"1048576"`), []byte(`"1024"`), 1), whole[8+length:])
	f.Fuzz(func(t *testing.T, header, data []byte) {
		content := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
		// a change would not pass the digest, so what comes behind it is tried without
		file, _, err := safetensors.Decode(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		back, err := decode(file)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		defer back.Close()
		// whatever was read can encode, and comes back the same
		vector, _ := back.Encode(Text{Title: "red", Body: "green blue"})
		for _, x := range vector {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Errorf("the vector %v", vector)
			}
		}
		back.Component(0, 3)
		again := fileOf(t, back)
		twice, err := Read(bytes.NewReader(again), int64(len(again)))
		ok(t, err)
		defer twice.Close()
		if !bytes.Equal(fileOf(t, twice), again) {
			t.Error("it writes another file")
		}
	})
}

// Every kind of damage is one line that says what to do.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	e, _, _ := fitted(t, TextList{{Body: "red green"}, {Body: "red blue"}, {Body: "blue green"}}, Settings{})
	whole := fileOf(t, e)
	for name, c := range map[string]struct {
		spoil func(f *safetensors.Contents)
		says  string
	}{
		"format": {func(f *safetensors.Contents) { f.Metadata[KeyFormat] = "unseen-model" },
			`"unseen-model" and not "unseen-encoder"`},
		"kind":      {func(f *safetensors.Contents) { f.Metadata[KeyKind] = "onnx" }, `kind is "onnx"`},
		"tokeniser": {func(f *safetensors.Contents) { f.Metadata[keyTokeniser] = "2" }, "tokeniser"},
		"buckets":   {func(f *safetensors.Contents) { f.Metadata[keyBuckets] = "1000" }, "power of 2"},
		"bigrams":   {func(f *safetensors.Contents) { f.Metadata[keyBigrams] = "?" }, "bigrams"},
		"title":     {func(f *safetensors.Contents) { f.Metadata[keyTitleWeight] = "NaN" }, "title_weight"},
		"documents": {func(f *safetensors.Contents) { f.Metadata[keyDocuments] = "-1" }, "documents"},
		"gone":      {func(f *safetensors.Contents) { f.Tensors = f.Tensors[1:] }, "there is no tensor"},
		"type": {func(f *safetensors.Contents) { put(f, tensorRarities, []int{3}, []float64{1, 1, 1}) },
			"[]float64 and not a []float32"},
		"few": {func(f *safetensors.Contents) { put(f, tensorRarities, []int{1}, []float32{1}) },
			"1 numbers and not 3"},
		"infinite": {func(f *safetensors.Contents) {
			put(f, tensorRarities, []int{3},
				[]float32{1, float32(math.Inf(1)), 1})
		}, "number 1 is +Inf"},
		"order": {func(f *safetensors.Contents) { put(f, tensorTerms, []int{3}, []int32{5, 5, 6}) }, "out of order"},
		"range": {func(f *safetensors.Contents) { put(f, tensorTerms, []int{3}, []int32{5, 6, 1 << 25}) },
			"out of range"},
		"names": {func(f *safetensors.Contents) { put(f, tensorNames, []int{3}, []uint8("a\nb")) },
			"2 lines and not 3"},
		"not text": {func(f *safetensors.Contents) { put(f, tensorNames, []int{1}, []uint8{0xff}) }, "UTF-8"},
		"shape": {func(f *safetensors.Contents) { put(f, tensorProjection, []int{9}, make([]uint16, 9)) },
			"shape [9]"},
		"not finite": {func(f *safetensors.Contents) {
			put(f, tensorProjection, []int{3, e.Dim()}, slices.Repeat([]uint16{0x7e00}, 3*e.Dim()))
		}, "not finite"},
		"nothing": {func(f *safetensors.Contents) { put(f, tensorTerms, []int{0}, []int32{}) }, "0 terms"},
	} {
		file, err := safetensors.Read(bytes.NewReader(whole), int64(len(whole)))
		ok(t, err)
		c.spoil(file)
		write, err := file.Encode()
		ok(t, err)
		var b bytes.Buffer
		ok(t, write(&b))
		_, err = Read(&b, int64(b.Len()))
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "encode the texts again") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(bytes.NewReader(whole[:99]), 99); !errors.Is(err, ErrFile) {
		t.Error(err)
	}
}

// put replaces a tensor.
func put(f *safetensors.Contents, name string, shape []int, data any) {
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Array) bool { return t.Name == name })
	f.Tensors = append(f.Tensors, safetensors.Array{Name: name, Shape: shape, Data: data})
}

func BenchmarkEncode(b *testing.B) {
	n := openNetwork(b, "elife")
	e, _, err := Fit(background, n.docs, Settings{})
	ok(b, err)
	defer e.Close()
	size := 0
	b.ResetTimer()
	for k := range b.N {
		d := n.docs[k%len(n.docs)]
		size += len(d.Title) + len(d.Body)
		if _, known := e.Encode(d); !known {
			b.Fatal("unknown")
		}
	}
	b.SetBytes(int64(size / b.N))
}
