package columnar

import (
	"bytes"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Pages that hold more than they claim are found whatever they are packed with, before they are unpacked in memory.
func TestAttackPagesThatLie(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	content := make([]byte, size)
	var zipped, browned bytes.Buffer
	z := gzip.NewWriter(&zipped)
	b := brotli.NewWriter(&browned)
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{z, b} {
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	coder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	packed := map[format.CompressionCodec][]byte{format.Gzip: zipped.Bytes(), format.Brotli: browned.Bytes(),
		format.Zstd: coder.EncodeAll(content, nil)}
	for _, codec := range []format.CompressionCodec{format.Snappy, format.Lz4Raw} {
		if packed[codec], err = parquet.LookupCompressionCodec(codec).Encode(nil, content); err != nil {
			t.Fatal(err)
		}
	}
	for codec, raw := range packed {
		p := pageCheck{chunk: &format.ColumnMetaData{Codec: codec}, zstd: decoder}
		for _, claim := range []int64{1, 1000, size - 1, size, size + 1} {
			n := int64(0)
			r, err := p.unpack(bytes.NewReader(raw), claim)
			if err == nil {
				n, err = io.Copy(io.Discard, io.LimitReader(r, claim+1))
			}
			if (err != nil || n > claim) != (claim < size) {
				t.Errorf("%v that claims %d: %d, %v", codec, claim, n, err)
			}
		}
	}
}
