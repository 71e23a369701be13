package columnar

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds is how much a file may expand to.
type Bounds struct {
	Bytes  int64 // of all pages of the columns that are read
	Values int64 // rows
	Page   int64 // values of one page, which are in memory together; 0 means 1<<24
}

// maxPageBytes is the size of the largest page, unpacked. Programs write about one MB.
const maxPageBytes = 128 << 20

// ErrExpands says that a file holds more than its limits allow.
var ErrExpands = errors.New("file expands too much")

// Check adds up what the pages of the columns with these indices expand to, before any of them is: the library would
// take as much memory as they need. Pages that expand to more than they claim are found too. Like Scan it may panic.
func Check(file *parquet.File, columns []int, limits Bounds) error {
	if limits.Page == 0 {
		limits.Page = 1 << 24
	}
	if rows := file.NumRows(); rows > limits.Values {
		return fmt.Errorf("%w: %d rows in %d bytes", ErrExpands, rows, file.Size())
	}
	var total int64
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer unpack.Close()
	for _, group := range file.Metadata().RowGroups {
		for _, index := range columns {
			if index < 0 || index >= len(group.Columns) {
				continue
			}
			p := pageCheck{file: file, chunk: &group.Columns[index].MetaData, limits: limits, total: &total,
				zstd: unpack}
			if err := p.run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pageCheck adds up the pages of one column chunk.
type pageCheck struct {
	file   *parquet.File
	chunk  *format.ColumnMetaData
	limits Bounds
	total  *int64 // bytes of all chunks so far
	values int64
	zstd   *zstd.Decoder
}

func (p *pageCheck) run() error {
	from := p.chunk.DataPageOffset
	if dictionary := p.chunk.DictionaryPageOffset; dictionary > 0 {
		from = dictionary
	}
	left := p.chunk.TotalCompressedSize
	if from < 0 || left < 0 || from > p.file.Size() || left > p.file.Size()-from {
		return fmt.Errorf("a column claims %d bytes at %d of %d", left, from, p.file.Size())
	}
	section := io.NewSectionReader(p.file, from, left)
	r := bufio.NewReaderSize(section, 1<<14)
	var protocol thrift.CompactProtocol
	for p.values < p.chunk.NumValues {
		var header format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(r)).Decode(&header); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // Scan says that the column ends early
			}
			return err
		}
		read, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		size := int64(header.CompressedPageSize)
		if size < 0 || header.UncompressedPageSize < 0 || size > left-read+int64(r.Buffered()) {
			return fmt.Errorf("a page claims %d bytes", size)
		}
		if err := p.page(&header, io.LimitReader(r, size)); err != nil {
			return err
		}
	}
	return nil
}

// page counts a page, and reads as much of it as tells how large it gets.
func (p *pageCheck) page(header *format.PageHeader, r io.Reader) error {
	values, packed, levels := int64(0), true, int64(0)
	switch {
	case header.DataPageHeader.Valid:
		values = int64(header.DataPageHeader.V.NumValues)
	case header.DataPageHeaderV2.Valid:
		v2 := &header.DataPageHeaderV2.V
		values, levels = int64(v2.NumValues), int64(v2.RepetitionLevelsByteLength)+int64(v2.DefinitionLevelsByteLength)
		packed = !v2.IsCompressed.Valid || v2.IsCompressed.V
	case header.DictionaryPageHeader.Valid:
		if n := int64(header.DictionaryPageHeader.V.NumValues); n < 0 || n > p.limits.Page {
			return fmt.Errorf("%w: a dictionary of %d values", ErrExpands, n)
		}
	}
	if p.values += values; values < 0 || values > p.limits.Page {
		return fmt.Errorf("%w: a page of %d values", ErrExpands, values)
	}
	claimed := int64(header.UncompressedPageSize)
	if *p.total += claimed; claimed > maxPageBytes {
		return fmt.Errorf("%w: a page of %d bytes", ErrExpands, claimed)
	} else if *p.total > p.limits.Bytes {
		return fmt.Errorf("%w: more than %d bytes out of %d", ErrExpands, p.limits.Bytes, p.file.Size())
	}
	if packed && levels >= 0 && levels <= int64(header.CompressedPageSize) {
		if _, err := io.CopyN(io.Discard, r, levels); err != nil {
			return err
		}
		if n, err := p.expandsTo(r, claimed); err != nil || n > claimed {
			return fmt.Errorf("%w: a page that claims %d bytes has more (%v)", ErrExpands, claimed, err)
		}
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// expandsTo returns how many bytes a page has, more than limit if there are more. What is damaged in other ways is left
// to Scan.
func (p *pageCheck) expandsTo(r io.Reader, limit int64) (int64, error) {
	var unpacked io.Reader
	switch p.chunk.Codec {
	case format.Snappy:
		var head [binary.MaxVarintLen64]byte
		n, _ := io.ReadFull(r, head[:])
		size, _ := binary.Uvarint(head[:n])
		return int64(min(size, 1<<62)), nil
	case format.Lz4Raw:
		raw, err := io.ReadAll(r)
		return lz4Size(raw), err
	case format.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return 0, nil
		}
		unpacked = z
	case format.Zstd:
		if err := p.zstd.Reset(r); err != nil {
			return 0, err
		}
		unpacked = p.zstd
	case format.Brotli:
		unpacked = brotli.NewReader(r)
	default:
		return 0, nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(unpacked, limit+1))
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return n, err
	}
	return n, nil
}

// lz4Size adds up the lengths in an LZ4 block.
func lz4Size(raw []byte) (size int64) {
	length := func(n int64) int64 {
		for more := n == 15; more && len(raw) > 0; raw = raw[1:] {
			n += int64(raw[0])
			more = raw[0] == 255
		}
		return n
	}
	for len(raw) > 0 {
		token := raw[0]
		raw = raw[1:]
		literals := length(int64(token >> 4))
		size += literals
		if literals+2 > int64(len(raw)) {
			return size
		}
		raw = raw[literals+2:] // and the offset of the match
		size += length(int64(token&15)) + 4
	}
	return size
}
