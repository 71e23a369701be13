package onnx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unseen/encode"
	"unseen/internal/safetensors"
)

// Kind is this encoder's name in a dataset's manifest.
const Kind = "onnx"

// Errors of this package wrap one of these.
var (
	// ErrModel: model.onnx cannot be read or run, or is not of the BERT kind.
	ErrModel = errors.New("unusable ONNX model")
	// ErrTokenizer: tokenizer.json is missing, damaged or of another kind.
	ErrTokenizer = errors.New("unusable tokenizer")
	// ErrCheckpoint: the checkpoint belongs to another run.
	ErrCheckpoint = errors.New("unusable checkpoint")
	// ErrOption: an option is out of range.
	ErrOption = errors.New("bad option")
)

// Options are the settings of an encoder. The zero value has the defaults.
type Options struct {
	Pooling string // mean or cls; empty means mean
	// MaxTokens truncates longer texts; 0 means what the model allows.
	MaxTokens int
}

// SentenceEncoder is an open model. One goroutine may use it at a time; it uses all processors by itself.
type SentenceEncoder struct {
	folder    string
	pooling   string
	most      int // tokens
	dim       int
	tokenizer *wordPiece
	runner    runner
	sums      map[string]string // SHA-256 by file
}

// runner runs a model.
type runner interface {
	// inputs are the names of what the model takes.
	inputs() []string
	// run takes batch×length numbers per input, and returns batch×length×dim numbers, valid until the next call.
	run(values map[string][]int64, batch, length int) (tokens []float32, dim int, err error)
	close() error
}

const (
	modelFile     = "model.onnx"
	tokenizerFile = "tokenizer.json"
	defaultMost   = 512

	// windowSize texts are sorted by length, so that those of a batch need little padding.
	windowSize = 128
	batchSize  = 16
	// lengthStep is what lengths are rounded up to, since every new shape is compiled.
	lengthStep = 16
)

// Open reads the model in a folder and tries it on an empty text.
func Open(folder string, o Options) (*SentenceEncoder, error) {
	e := &SentenceEncoder{folder: folder, pooling: cmp.Or(o.Pooling, "mean"), sums: map[string]string{}}
	if e.pooling != "mean" && e.pooling != "cls" {
		return nil, fmt.Errorf("%w: pooling is %q; give mean or cls", ErrOption, o.Pooling)
	}
	raw, err := e.read(tokenizerFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; the folder needs the %s that is published with the model", ErrTokenizer, err,
			tokenizerFile)
	}
	if e.tokenizer, err = parseTokenizer(raw); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; choose a model of the BERT kind", ErrTokenizer, e.path(tokenizerFile), err)
	}
	if err := e.limit(o.MaxTokens); err != nil {
		return nil, err
	}
	if raw, err = e.read(modelFile); err != nil {
		return nil, fmt.Errorf("%w: %w; the folder needs a %s", ErrModel, err, modelFile)
	}
	if e.runner, err = newRunner(raw); err != nil {
		return nil, fmt.Errorf("%w: %s: %s; download it again, or choose another model of the BERT kind", ErrModel,
			e.path(modelFile), oneLine(err))
	}
	if err := e.try(); err != nil {
		e.runner.close()
		return nil, fmt.Errorf("%w: %s: %s; choose a model of the BERT kind", ErrModel, e.path(modelFile), oneLine(err))
	}
	return e, nil
}

// oneLine keeps the first line: some libraries print their stack after it.
func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if runes := []rune(text); len(runes) > 300 {
		text = string(runes[:300]) + "…"
	}
	return text
}

func (e *SentenceEncoder) path(name string) string { return filepath.Join(e.folder, name) }

func (e *SentenceEncoder) read(name string) ([]byte, error) {
	raw, err := os.ReadFile(e.path(name))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	e.sums[name] = hex.EncodeToString(sum[:])
	return raw, nil
}

// limit finds how many tokens the model takes: the least of what the files of the folder say.
func (e *SentenceEncoder) limit(asked int) error {
	e.most = defaultMost
	least := func(n int) {
		if n > 0 {
			e.most = min(e.most, n)
		}
	}
	for _, source := range [][2]string{{"config.json", "max_position_embeddings"},
		{"sentence_bert_config.json", "max_seq_length"}} {
		raw, err := e.read(source[0])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var config map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &config)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w; download it again", ErrModel, e.path(source[0]), err)
		}
		if n, ok := config[source[1]].(float64); ok && n < defaultMost {
			least(int(n))
		}
	}
	least(e.tokenizer.truncation)
	special := len(e.tokenizer.before) + len(e.tokenizer.after)
	switch {
	case asked < 0 || asked > 0 && asked <= special:
		return fmt.Errorf("%w: %d tokens; give more than %d", ErrOption, asked, special)
	case e.most <= special:
		return fmt.Errorf("%w: %s: it takes %d tokens, of which %d are special; choose another model", ErrModel,
			e.folder,
			e.most, special)
	}
	least(asked)
	return nil
}

// try runs the model once and finds its dimension.
func (e *SentenceEncoder) try() error {
	names := e.runner.inputs()
	if !slices.Contains(names, "input_ids") {
		return fmt.Errorf("its inputs are %q, without input_ids", names)
	}
	for _, name := range names {
		if name != "input_ids" && name != "attention_mask" && name != "token_type_ids" {
			return fmt.Errorf("it has the input %.40q, which no encoder of texts has", name)
		}
	}
	vectors, err := e.batch([][]int64{e.tokenizer.encode("", e.most), e.tokenizer.encode("a text", e.most)})
	if err != nil {
		return err
	}
	// A vocabulary larger than the model's table of words fails only with such a token.
	if _, err := e.batch([][]int64{append(slices.Clone(e.tokenizer.before), e.tokenizer.largestID())}); err != nil {
		return fmt.Errorf("the largest token of %s: %w", tokenizerFile, err)
	}
	e.dim = len(vectors[0])
	return nil
}

// Dim returns the number of components of a vector.
func (e *SentenceEncoder) Dim() int { return e.dim }

// Close frees the memory.
func (e *SentenceEncoder) Close() error { return e.runner.close() }

// textOf is title and body as two sentences.
func textOf(d encode.Text) string {
	switch title, text := strings.TrimSpace(d.Title), strings.TrimSpace(d.Body); {
	case title == "":
		return text
	case text == "":
		return title
	default:
		return title + ". " + text
	}
}

// Encode returns the vectors of texts, of length 1. An empty text has a vector of zeros, and one that is too long is
// truncated. The last bits of a vector depend on the texts it is encoded with.
func (e *SentenceEncoder) Encode(ctx context.Context, docs []encode.Text) ([][]float32, error) {
	vectors := make([][]float32, len(docs))
	tokens := make([][]int64, len(docs))
	order := make([]int, 0, len(docs))
	special := len(e.tokenizer.before) + len(e.tokenizer.after)
	for i, d := range docs {
		tokens[i] = e.tokenizer.encode(textOf(d), e.most)
		if len(tokens[i]) > special {
			order = append(order, i)
		} else {
			vectors[i] = make([]float32, e.dim)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(tokens[a]), len(tokens[b])) })
	for chunk := range slices.Chunk(order, batchSize) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows := make([][]int64, len(chunk))
		for k, i := range chunk {
			rows[k] = tokens[i]
		}
		found, err := e.batch(rows)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %s", ErrModel, e.path(modelFile), oneLine(err))
		}
		for k, i := range chunk {
			vectors[i] = found[k]
		}
	}
	return vectors, nil
}

// batch runs the model on sequences of tokens and pools its outputs.
func (e *SentenceEncoder) batch(rows [][]int64) ([][]float32, error) {
	longest := 0
	for _, row := range rows {
		longest = max(longest, len(row))
	}
	length := min((longest+lengthStep-1)/lengthStep*lengthStep, max(e.most, longest))
	values := map[string][]int64{}
	for _, name := range e.runner.inputs() {
		all := make([]int64, len(rows)*length)
		for k, row := range rows {
			part := all[k*length : (k+1)*length]
			switch name {
			case "input_ids":
				for j := copy(part, row); j < length; j++ {
					part[j] = e.tokenizer.padding
				}
			case "attention_mask":
				for j := range row {
					part[j] = 1
				}
			}
		}
		values[name] = all
	}
	tokens, dim, err := e.runner.run(values, len(rows), length)
	if err != nil {
		return nil, err
	}
	if dim < 1 || len(tokens) != len(rows)*length*dim {
		return nil, fmt.Errorf("it returns %d numbers for %d×%d tokens", len(tokens), len(rows), length)
	}
	vectors := make([][]float32, len(rows))
	for k, row := range rows {
		counted := len(row)
		if e.pooling == "cls" {
			counted = 1
		}
		sum := make([]float64, dim)
		for j := range counted {
			for c, x := range tokens[(k*length+j)*dim : (k*length+j+1)*dim] {
				sum[c] += float64(x)
			}
		}
		var squares float64
		for _, x := range sum {
			squares += x * x
		}
		if math.IsNaN(squares) || math.IsInf(squares, 0) {
			return nil, errors.New("it returns numbers that are not finite")
		}
		vectors[k] = make([]float32, dim)
		if squares > 0 {
			for c, x := range sum {
				vectors[k][c] = float32(x / math.Sqrt(squares))
			}
		}
	}
	return vectors, nil
}

// identity is what vectors depend on: two encoders with the same identity make the same vectors.
func (e *SentenceEncoder) identity() map[string]string {
	return map[string]string{
		encode.KeyFormat: encode.FormatName, encode.KeyVersion: encode.FormatVersion, encode.KeyKind: Kind,
		"folder": filepath.Base(filepath.Clean(e.folder)), "pooling": e.pooling, "max_tokens": strconv.Itoa(e.most),
		"dim":          strconv.Itoa(e.dim),
		"model_sha256": e.sums[modelFile], "tokenizer_sha256": e.sums[tokenizerFile], "runner": runnerName,
	}
}

// Write writes the encoder's identity: a safetensors file without tensors. The model itself, which may be large, stays
// in its folder.
func (e *SentenceEncoder) Write(w io.Writer) error {
	write, err := (&safetensors.Contents{Metadata: e.identity()}).Encode()
	if err != nil {
		return err
	}
	return write(w)
}
