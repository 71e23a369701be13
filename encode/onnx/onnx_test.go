package onnx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/encode"
	"unseen/internal/safetensors"
)

const tiny = "testdata/tiny"

var background = context.Background()

func ok(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, pooling string) *SentenceEncoder {
	tb.Helper()
	e, err := Open(tiny, Options{Pooling: pooling})
	ok(tb, err)
	tb.Cleanup(func() { e.Close() })
	return e
}

// reference is what testdata/make.py had ONNX Runtime and Hugging Face's tokenizers make of some texts.
type reference struct {
	Text      string
	IDs       []int64
	Mean, CLS []float64
}

func references(tb testing.TB) (all []reference) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join(tiny, "expected.json"))
	ok(tb, err)
	ok(tb, json.Unmarshal(raw, &all))
	return all
}

func TestTokensAreTheReferences(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(tiny, tokenizerFile))
	ok(t, err)
	tokenizer, err := parseTokenizer(raw)
	ok(t, err)
	for _, r := range references(t) {
		if got := tokenizer.encode(r.Text, tokenizer.truncation); !slices.Equal(got, r.IDs) {
			t.Errorf("%q gives %v, want %v", r.Text, got, r.IDs)
		}
	}
}

func TestVectorsAreTheReferences(t *testing.T) {
	t.Parallel()
	for _, pooling := range []string{"mean", "cls"} {
		e := open(t, pooling)
		if e.Dim() != 16 || e.most != 24 {
			t.Fatalf("%d dimensions, %d tokens", e.Dim(), e.most)
		}
		all := references(t)
		docs := make([]encode.Text, len(all))
		for k, r := range all {
			docs[k].Body = r.Text
		}
		vectors, err := e.Encode(background, docs) // batches, with padding
		ok(t, err)
		for k, r := range all {
			want := r.Mean
			if pooling == "cls" {
				want = r.CLS
			}
			alone, err := e.Encode(background, docs[k:k+1])
			ok(t, err)
			for c := range want {
				if len(r.IDs) == 2 { // only the special tokens: there is no text
					want[c] = 0
				}
				for _, got := range []float32{vectors[k][c], alone[0][c]} {
					if math.Abs(float64(got)-want[c]) > 1e-4 {
						t.Errorf("%s of %q: component %d is %v, want %v", pooling, r.Text, c, got, want[c])
					}
				}
			}
		}
	}
}

func TestTitlesAndTexts(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]encode.Text{"a. b": {Title: " a", Body: "b\n"}, "a": {Title: "a"},
		"b": {Body: "b"}, "": {}} {
		if got := textOf(d); got != want {
			t.Errorf("%+v is read as %q", d, got)
		}
	}
}

// a library of documents of all lengths, some without text
func library(n int) encode.TextList {
	docs := make(encode.TextList, n)
	words := strings.Fields("cell gene protein neuron brain link paper graph node vector bread dough boat sail wind")
	for i := range docs {
		if i%11 == 5 {
			continue
		}
		docs[i].Title = words[i%len(words)]
		for k := range i % 37 {
			docs[i].Body += words[(i*k+k*k)%len(words)] + " "
		}
	}
	return docs
}

type table [][]float32

func (t table) Set(i int32, vector []float32) error {
	t[i] = slices.Clone(vector)
	return nil
}

// failing ends after a number of documents were read.
type failing struct {
	encode.TextList
	left int
}

var errStopped = errors.New("stopped")

func (f *failing) Text(i int) (encode.Text, error) {
	if f.left--; f.left < 0 {
		return encode.Text{}, errStopped
	}
	return f.TextList[i], nil
}

// Stopped anywhere and resumed, it makes the same vectors as in one go.
func TestResume(t *testing.T) {
	t.Parallel()
	e := open(t, "mean")
	docs := library(200)
	whole := make(table, len(docs))
	empty, err := e.EncodeAll(background, docs, whole, Run{})
	ok(t, err)
	if empty != 18 {
		t.Errorf("%d without text", empty)
	}
	path := filepath.Join(t.TempDir(), "part")
	for _, left := range []int{0, 10, 150, 5, 1000} {
		f := &failing{docs, left}
		rows := make(table, len(docs))
		empty, err := e.EncodeAll(background, f, rows, Run{Checkpoint: path, Resume: true, Texts: "t"})
		if left < 1000 {
			if !errors.Is(err, errStopped) {
				t.Fatalf("%d: %v", left, err)
			}
			continue
		}
		ok(t, err)
		// what is done is not done again
		if read := left - f.left; read != 200-windowSize || empty != 18 {
			t.Errorf("%d documents were read; %d without text", read, empty)
		}
		for i := range whole {
			if !slices.Equal(whole[i], rows[i]) {
				t.Fatalf("vector %d is %v, and was %v", i, rows[i], whole[i])
			}
		}
	}

	// a damaged or cut end costs its window alone
	content, err := os.ReadFile(path)
	ok(t, err)
	for name, damaged := range map[string][]byte{
		"cut":     content[:len(content)-7],
		"flipped": append(slices.Clone(content[:len(content)-3]), 1, 2, 3),
		"line":    content[:20],
		"empty":   {},
		"longer":  append(slices.Clone(content), "more"...),
	} {
		ok(t, os.WriteFile(path, damaged, 0o666))
		rows := make(table, len(docs))
		_, err := e.EncodeAll(background, docs, rows, Run{Checkpoint: path, Resume: true, Texts: "t"})
		ok(t, err)
		again, err := os.ReadFile(path)
		ok(t, err)
		if !bytes.Equal(again, content) || !slices.Equal(rows[199], whole[199]) {
			t.Errorf("%s: the checkpoint has %d bytes, and had %d", name, len(again), len(content))
		}
	}

	for name, c := range map[string]struct {
		e    *SentenceEncoder
		docs encode.TextList
		run  Run
		says string
	}{
		"not resumed":   {e, docs, Run{Checkpoint: path, Texts: "t"}, "resume it"},
		"other texts":   {e, docs, Run{Checkpoint: path, Texts: "u", Resume: true}, "other texts"},
		"other pooling": {open(t, "cls"), docs, Run{Checkpoint: path, Texts: "t", Resume: true}, "another model"},
		"more texts":    {e, library(201), Run{Checkpoint: path, Texts: "t", Resume: true}, "other texts"},
		"no folder":     {e, docs, Run{Checkpoint: filepath.Join(path, "x"), Texts: "t"}, path},
	} {
		_, err := c.e.EncodeAll(background, c.docs, make(table, 201), c.run)
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stopped, stop := context.WithCancel(background)
	stop()
	if _, err := e.EncodeAll(stopped, docs, make(table, len(docs)), Run{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	ok(t, open(t, "cls").Write(&b))
	file, err := safetensors.Read(&b, int64(b.Len()))
	ok(t, err)
	if m := file.Metadata; m[encode.KeyKind] != Kind || m["pooling"] != "cls" || m["dim"] != "16" ||
		m["folder"] != "tiny" || len(m["model_sha256"]) != 64 {
		t.Errorf("%v", m)
	}
}

// folder copies the tiny model, without or with other files.
func folder(t *testing.T, change map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{modelFile, tokenizerFile, "config.json"} {
		content, err := os.ReadFile(filepath.Join(tiny, name))
		ok(t, err)
		other, changed := change[name]
		switch {
		case changed && other == "":
			continue
		case changed && strings.HasPrefix(other, "s/"):
			parts := strings.Split(other, "/")
			if !bytes.Contains(content, []byte(parts[1])) {
				t.Fatalf("%s has no %q", name, parts[1])
			}
			content = bytes.ReplaceAll(content, []byte(parts[1]), []byte(parts[2]))
		case changed:
			content = []byte(other)
		}
		ok(t, os.WriteFile(filepath.Join(dir, name), content, 0o666))
	}
	return dir
}

func TestBadModels(t *testing.T) {
	t.Parallel()
	model, err := os.ReadFile(filepath.Join(tiny, modelFile))
	ok(t, err)
	for name, c := range map[string]struct {
		change map[string]string
		kind   error
		says   string
	}{
		"no tokenizer": {map[string]string{tokenizerFile: ""}, ErrTokenizer, "tokenizer.json"},
		"not JSON":     {map[string]string{tokenizerFile: "hello"}, ErrTokenizer, "not the JSON"},
		"a list":       {map[string]string{tokenizerFile: "[]"}, ErrTokenizer, "not the JSON"},
		"BPE": {map[string]string{tokenizerFile: `{"model":{"type":"BPE","vocab":{},"merges":[]}}`},
			ErrTokenizer, `"BPE"`},
		"Unigram": {map[string]string{tokenizerFile: `{"model":{"type":"Unigram","vocab":[["<s>",0]]}}`},
			ErrTokenizer, `"Unigram"`},
		"other normalizer": {map[string]string{tokenizerFile: "s/BertNormalizer/NFC"}, ErrTokenizer, "normalizer"},
		"other words": {map[string]string{tokenizerFile: "s/BertPreTokenizer/Metaspace"}, ErrTokenizer,
			"pre_tokenizer"},
		"other frame": {map[string]string{tokenizerFile: "s/TemplateProcessing/ByteLevel"}, ErrTokenizer,
			"ByteLevel"},
		"nameless token": {map[string]string{tokenizerFile: `s/"special_tokens"/"special"`}, ErrTokenizer, "[CLS]"},
		"no unknown": {map[string]string{tokenizerFile: `s/"unk_token": "[UNK]"/"unk_token": "@"`},
			ErrTokenizer, "unknown token"},
		"no model":      {map[string]string{modelFile: ""}, ErrModel, "model.onnx"},
		"empty model":   {map[string]string{modelFile: " "}, ErrModel, "model.onnx"},
		"corrupt model": {map[string]string{modelFile: "this is no model"}, ErrModel, "model.onnx"},
		"cut model":     {map[string]string{modelFile: string(model[:len(model)/2])}, ErrModel, "model.onnx"},
		"other input": {map[string]string{modelFile: "s/attention_mask/attention_mist"}, ErrModel,
			"attention_mist"},
		"no input_ids":      {map[string]string{modelFile: "s/input_ids/input_idz"}, ErrModel, "input_ids"},
		"unknown operation": {map[string]string{modelFile: "s/Softmax/Softmix"}, ErrModel, "Softmix"},
		"bad config":        {map[string]string{"config.json": "{"}, ErrModel, "config.json"},
		"no room": {map[string]string{"config.json": `{"max_position_embeddings":2}`}, ErrModel,
			"2 are special"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.change)
			_, err := Open(dir, Options{})
			if !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.says) ||
				!strings.Contains(fmt.Sprint(err), dir) || strings.Contains(fmt.Sprint(err), "\n") ||
				!strings.Contains(fmt.Sprint(err), ";") {
				t.Errorf("error %v", err)
			}
		})
	}
	for _, o := range []Options{{Pooling: "max"}, {MaxTokens: -1}, {MaxTokens: 2}} {
		if _, err := Open(tiny, o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// without a config the tokenizer's own limit holds
	e, err := Open(folder(t, map[string]string{"config.json": ""}), Options{MaxTokens: 10})
	ok(t, err)
	defer e.Close()
	if got := e.tokenizer.encode(strings.Repeat("wind ", 100), e.most); len(got) != 10 ||
		got[9] != e.tokenizer.after[0] {
		t.Errorf("%v", got)
	}
}

func FuzzTokenizer(f *testing.F) {
	raw, err := os.ReadFile(filepath.Join(tiny, tokenizerFile))
	ok(f, err)
	f.Add(raw, "The cell, béla 日本")
	f.Add([]byte(`{"model":{"type":"WordPiece","unk_token":"a","vocab":{"a":1}},`+
		`"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},`+
		`"post_processor":{"type":"BertProcessing","cls":["c",2],"sep":["s",3]}}`), "\xff\x00 ?")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		tokenizer, err := parseTokenizer(raw)
		if err != nil {
			return
		}
		special := len(tokenizer.before) + len(tokenizer.after)
		for _, most := range []int{special + 1, special + 30} {
			ids := tokenizer.encode(text, most)
			if len(ids) > most || len(ids) < special {
				t.Errorf("%q gives %d tokens of %d", text, len(ids), most)
			}
			for _, id := range ids {
				if id > tokenizer.largestID() {
					t.Errorf("%q gives %d", text, id)
				}
			}
		}
	})
}

// FuzzSealedCheckpoint writes windows of any numbers with the right sum behind a first line that is right, flips a byte
// and appends others. Resuming takes whole windows of numbers and nothing else, and leaves the file as long as what it
// took.
func FuzzSealedCheckpoint(f *testing.F) {
	e := &SentenceEncoder{dim: 3}
	header, err := e.header(2*windowSize+5, "texts")
	ok(f, err)
	for _, bits := range []uint32{0, math.Float32bits(1), math.Float32bits(float32(math.NaN())),
		math.Float32bits(float32(math.Inf(-1))), math.MaxUint32} {
		for windows := range uint8(5) {
			f.Add(windows, uint16(17), bits, uint16(0), uint8(0), []byte("rest"))
		}
		f.Add(uint8(2), uint16(3), bits, uint16(900), uint8(1), []byte{})
	}
	f.Fuzz(func(t *testing.T, windows uint8, at uint16, bits uint32, place uint16, flip uint8, rest []byte) {
		documents := 2*windowSize + 5
		path := filepath.Join(t.TempDir(), "checkpoint")
		file, err := os.Create(path)
		ok(t, err)
		_, err = file.Write(header)
		ok(t, err)
		for n := range int(windows % 4) {
			vectors := make([][]float32, min(windowSize, documents-n*windowSize))
			for k := range vectors {
				vectors[k] = []float32{1, 2, float32(k)}
			}
			vectors[int(at)%len(vectors)][int(at)%3] = math.Float32frombits(bits)
			ok(t, appendWindow(file, vectors))
		}
		_, err = file.Write(rest)
		ok(t, err)
		ok(t, file.Close())
		content, err := os.ReadFile(path)
		ok(t, err)
		content[int(place)%len(content)] ^= flip
		ok(t, os.WriteFile(path, content, 0o644))

		next := 0
		resumed, first, err := e.open(Run{Checkpoint: path, Resume: true}, header, documents,
			func(i int, vector []float32) error {
				sum := float64(vector[0] + vector[1] + vector[2])
				if i != next || len(vector) != 3 || math.IsNaN(sum*0) {
					t.Errorf("vector %d, where %d comes next: %v", i, next, vector)
				}
				next++
				return nil
			})
		if err != nil {
			if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), path) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line that names the file: %q", err)
			}
			return
		}
		defer resumed.Close()
		info, err := resumed.Stat()
		ok(t, err)
		if whole := int64(len(header) + first*12 + (first+windowSize-1)/windowSize*4); first != next ||
			info.Size() != whole {
			t.Errorf("%d texts were taken, %d are said; the file has %d bytes, want %d", next, first, info.Size(),
				whole)
		}
	})
}
