package columnar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// attackBytes is what opening and reading a small file may allocate.
const attackBytes = 64 << 20

// craftedPage is a page whose header says what it likes.
type craftedPage struct {
	header format.PageHeader
	body   []byte
}

// crafted is a file of one column, named x, whose parts need not agree.
type crafted struct {
	column format.SchemaElement
	pages  []craftedPage
	rows   int64
	groups int // that share the pages; 0 means 1
}

func (c crafted) bytes(t *testing.T) []byte {
	t.Helper()
	var compact thrift.CompactProtocol
	file := []byte("PAR1")
	for _, p := range c.pages {
		p.header.CompressedPageSize = int32(len(p.body))
		raw, err := thrift.Marshal(&compact, &p.header)
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, raw...), p.body...)
	}
	c.column.Name = "x"
	meta := format.FileMetaData{Version: 1, NumRows: c.rows, Schema: thrift.Slice[format.SchemaElement]{
		{Name: "root", NumChildren: thrift.New[int32](1)}, c.column}}
	for range max(c.groups, 1) {
		meta.RowGroups = append(meta.RowGroups, format.RowGroup{NumRows: c.rows,
			Columns: thrift.Slice[format.ColumnChunk]{{MetaData: format.ColumnMetaData{Type: c.column.Type.V,
				PathInSchema: thrift.Slice[string]{"x"}, NumValues: 1, DataPageOffset: 4,
				TotalCompressedSize: int64(len(file) - 4), TotalUncompressedSize: 1}}}})
	}
	footer, err := thrift.Marshal(&compact, &meta)
	if err != nil {
		t.Fatal(err)
	}
	return withFooter(file, footer)
}

func withFooter(file, footer []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(append(file, footer...), uint32(len(footer))), "PAR1"...)
}

// dataPage is a data page of version 1.
func dataPage(encoding format.Encoding, values, claimed int, body []byte) craftedPage {
	return craftedPage{format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(claimed),
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: int32(values), Encoding: encoding,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}, body}
}

func plainDictionary(values int, body []byte) craftedPage {
	return craftedPage{format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(body)),
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(values)})}, body}
}

// uvarints writes numbers as Parquet's encodings do.
func uvarints(numbers ...uint64) (raw []byte) {
	for _, n := range numbers {
		raw = binary.AppendUvarint(raw, n)
	}
	return raw
}

// readAll does with a file what every reader of tables does, and says what it allocated.
func readAll(t *testing.T, raw []byte) (allocated uint64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p) // callers recover
		}
		runtime.ReadMemStats(&after)
		allocated = after.TotalAlloc - before.TotalAlloc
	}()
	file, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return 0, err
	}
	if err := Check(file, []int{0}, Bounds{Bytes: 32 << 20, Values: 1 << 20}); err != nil {
		return 0, err
	}
	return 0, Scan(t.Context(), file, []int{0}, func(int64, int, [][]parquet.Value) error { return nil })
}

// Whatever pages and footers claim, a small file takes little memory. Each of these took gigabytes, or ended the
// process.
func TestAttackClaims(t *testing.T) {
	text := format.SchemaElement{Type: thrift.New(format.ByteArray)}
	maybe := format.SchemaElement{Type: thrift.New(format.ByteArray), RepetitionType: thrift.New(format.Optional)}
	number := format.SchemaElement{Type: thrift.New(format.Int64)}
	fixed := format.SchemaElement{Type: thrift.New(format.FixedLenByteArray), TypeLength: thrift.New[int32](30_000)}
	const huge = 1 << 28
	oneText := []byte("\x01\x00\x00\x00a")
	run := uvarints(huge<<1, 0) // one value over and over
	delta := func(total, first uint64) []byte { return uvarints(128, 4, total, first) }
	// Each text is the one before it and one letter more: 20,000 letters become 200 MB.
	const texts = 20_000
	growing := delta(texts, 0)
	for range texts/128 + 1 {
		growing = append(binary.AppendVarint(growing, 1), 0, 0, 0, 0)
	}
	growing = append(growing, delta(texts, 2)...)
	for range texts/128 + 1 {
		growing = append(binary.AppendVarint(growing, 0), 0, 0, 0, 0)
	}
	growing = append(growing, strings.Repeat("w", texts)...)
	two := dataPage(format.Plain, 1, 5, oneText)
	two.header.DictionaryPageHeader = thrift.New(format.DictionaryPageHeader{NumValues: math.MaxInt32})
	second := craftedPage{format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: 16,
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: 2, NumRows: 2,
			DefinitionLevelsByteLength: int32(len(run))})}, append(bytes.Clone(run), oneText...)}
	statistics := dataPage(format.Plain, 1, 5, oneText)
	statistics.header.DataPageHeader.V.Statistics.MinValue = []byte("min")
	lying := crafted{column: text, rows: 1, pages: []craftedPage{statistics}}.bytes(t)
	lying = bytes.Replace(lying, []byte("\x03min"), []byte("\xff\xff\xff\xff\x07min"), 1)
	pages := func(column format.SchemaElement, rows int64, pages ...craftedPage) []byte {
		return crafted{column: column, rows: rows, pages: pages}.bytes(t)
	}
	two100 := func(encoding format.Encoding, body []byte) craftedPage { return dataPage(encoding, 2, 100, body) }
	footer := func(start []byte, size uint64, more int) []byte {
		return withFooter([]byte("PAR1"), append(append(start, uvarints(size)...), make([]byte, more)...))
	}
	for name, raw := range map[string][]byte{
		"indices that repeat": pages(text, 2, plainDictionary(1, oneText),
			two100(format.RLEDictionary, append([]byte{1}, run...))),
		"levels that repeat": pages(maybe, 2, two100(format.Plain,
			append(binary.LittleEndian.AppendUint32(nil, uint32(len(run))), run...))),
		"levels of version 2": pages(maybe, 2, second),
		"runs of numbers":     pages(number, 2, two100(format.RLE, run)),
		"differences":         pages(number, 2, two100(format.DeltaBinaryPacked, delta(huge, 0))),
		"lengths":             pages(text, 2, two100(format.DeltaLengthByteArray, delta(huge, 0))),
		"beginnings":          pages(text, 2, two100(format.DeltaByteArray, append(delta(1, 0), delta(huge, 0)...))),
		"growing texts":       pages(text, texts, dataPage(format.DeltaByteArray, texts, len(growing), growing)),
		"length of one text": pages(text, 1, dataPage(format.DeltaByteArray, 1, 100,
			append(delta(1, 0), delta(1, 4*huge)...))),
		"fixed texts": pages(fixed, 1<<20, dataPage(format.DeltaByteArray, 1<<20, 100,
			append(delta(0, 0), delta(0, 0)...))),
		"split bytes":         pages(fixed, 1<<20, dataPage(format.ByteStreamSplit, 1<<20, 0, nil)),
		"a page of two kinds": pages(text, 2, two, dataPage(format.RLEDictionary, 1, 2, []byte{1, 2})),
		"a dictionary":        pages(text, 1, plainDictionary(math.MaxInt32, oneText)),
		"groups beyond the file": crafted{column: text, rows: 1 << 20, groups: 1000,
			pages: []craftedPage{dataPage(format.Plain, 1, 5, oneText)}}.bytes(t),
		"statistics":      lying,
		"columns":         footer([]byte{0x15, 2, 0x19, 0xfc}, math.MaxInt32, 0),
		"as many columns": footer([]byte{0x15, 2, 0x19, 0xfc}, 8<<20, 9<<20),
		"groups":          footer([]byte{0x15, 2, 0x49, 0xfc}, math.MaxInt32, 0),
		"deep metadata":   withFooter([]byte("PAR1"), bytes.Repeat([]byte{0x1c}, 9<<20)),
		"deep lists":      withFooter([]byte("PAR1"), bytes.Repeat([]byte{0x19}, 9<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			allocated, err := readAll(t, raw)
			if err == nil || allocated > attackBytes {
				t.Errorf("%d bytes allocated %d MB: %v", len(raw), allocated>>20, err)
			}
			t.Logf("%d bytes, %d kB: %v", len(raw), allocated>>10, err)
		})
	}
}

// Columns within columns are refused before a path is made for each.
func TestAttackDeepColumns(t *testing.T) {
	var meta format.FileMetaData
	for range maxPath + 10 {
		meta.Schema = append(meta.Schema, format.SchemaElement{Name: "x", NumChildren: thrift.New[int32](1)})
	}
	meta.Schema = append(meta.Schema, format.SchemaElement{Name: "leaf", Type: thrift.New(format.Int32)})
	var compact thrift.CompactProtocol
	footer, err := thrift.Marshal(&compact, &meta)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t, withFooter([]byte("PAR1"), footer)); !errors.Is(err, ErrExpands) {
		t.Error(err)
	}
}

// Honest pages of every encoding and packing pass the check, and are read.
func TestHonestPagesPass(t *testing.T) {
	t.Parallel()
	const rows = 3000
	same := func(n parquet.Node) parquet.Node { return n }
	encoded := func(text, number, yes encoding.Encoding) map[string]parquet.Node {
		return map[string]parquet.Node{"text": parquet.Encoded(parquet.String(), text),
			"number": parquet.Encoded(parquet.Int(64), number),
			"yes":    parquet.Encoded(parquet.Leaf(parquet.BooleanType), yes)}
	}
	for name, nodes := range map[string]map[string]parquet.Node{
		"plain":      encoded(&parquet.Plain, &parquet.Plain, &parquet.Plain),
		"dictionary": encoded(&parquet.RLEDictionary, &parquet.RLEDictionary, &parquet.RLE),
		"delta":      encoded(&parquet.DeltaByteArray, &parquet.DeltaBinaryPacked, &parquet.Plain),
		"lengths":    encoded(&parquet.DeltaLengthByteArray, &parquet.Plain, &parquet.RLE),
	} {
		for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli,
			&parquet.Zstd, &parquet.Lz4Raw} {
			for version, optional := range []func(parquet.Node) parquet.Node{same, parquet.Optional, same,
				parquet.Optional} {
				version = version/2 + 1
				group := parquet.Group{}
				for column, node := range nodes {
					group[column] = optional(parquet.Compressed(node, codec))
				}
				var b bytes.Buffer
				w := parquet.NewGenericWriter[any](&b, parquet.NewSchema("row", group),
					parquet.DataPageVersion(version), parquet.PageBufferSize(2000))
				for k := range rows {
					row := map[string]any{"text": fmt.Sprint("a text number ", k/3), "number": int64(k * k % 977),
						"yes": k/100%2 == 0}
					if _, err := w.Write([]any{row}); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				file, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
				if err != nil {
					t.Fatal(err)
				}
				bounds := Bounds{Bytes: 1 << 20, Values: rows, Page: rows, Memory: 1 << 20}
				if err := Check(file, []int{0, 1, 2}, bounds); err != nil {
					t.Errorf("%s, %v, version %d: %v", name, codec, version, err)
				}
				n := 0
				err = Scan(t.Context(), file, []int{0, 1, 2}, func(_ int64, k int, _ [][]parquet.Value) error {
					n += k
					return nil
				})
				if err != nil || n != rows {
					t.Errorf("%s, %v, version %d: %v, %d rows", name, codec, version, err, n)
				}
			}
		}
	}
}

// FuzzPages puts any bytes into a page of any encoding, behind headers that fit.
func FuzzPages(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint16(1), uint32(5), []byte("\x01\x00\x00\x00a"))
	for encoding := range uint8(10) {
		f.Add(encoding, encoding, uint16(2), uint32(100), uvarints(1<<29, 0, 128, 4, 1<<28, 0))
		f.Add(encoding, encoding+1, uint16(200), uint32(100),
			uvarints(128, 4, 200, 0, 2, 0, 0, 0, 0, 128, 4, 200, 2, 0))
	}
	types := []format.Type{format.Boolean, format.Int32, format.Int64, format.Float, format.Double, format.ByteArray,
		format.FixedLenByteArray}
	f.Fuzz(func(t *testing.T, encoding, kind uint8, values uint16, claimed uint32, body []byte) {
		column := format.SchemaElement{Type: thrift.New(types[int(kind/2)%len(types)])}
		if kind%2 == 0 {
			column.RepetitionType = thrift.New(format.Optional)
		}
		if column.Type.V == format.FixedLenByteArray {
			column.TypeLength = thrift.New(int32(claimed % 40_000))
		}
		page := dataPage(format.Encoding(encoding%11), int(values), int(claimed%(1<<24)), body)
		raw := crafted{column: column, rows: int64(values), pages: []craftedPage{
			plainDictionary(1, []byte("\x01\x00\x00\x00a\x00\x00\x00")), page}}.bytes(t)
		if allocated, err := readAll(t, raw); allocated > 4*attackBytes {
			t.Errorf("%d bytes allocated %d MB: %v", len(raw), allocated>>20, err)
		}
	})
}
