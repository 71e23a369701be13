package columnar

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

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
	Memory int64 // bytes that the largest page of every column needs; 0 means 1<<30
}

// maxPageBytes is the size of the largest page, unpacked. Programs write about one MB.
const maxPageBytes = 128 << 20

// maxPageHeader is the size of the largest header of a page, which may quote a text of the page twice.
const maxPageHeader = 32 << 20

// oldDictionary is the encoding that old files name where new ones say Plain and RLEDictionary.
const oldDictionary = format.Encoding(2)

// ErrExpands says that a file holds more than its limits allow.
var ErrExpands = errors.New("file expands too much")

// Check adds up what the pages of the columns with these indices expand to, before any of them is: the library would
// take as much memory as they claim to need. Pages that expand to more than they claim are found too. Like Scan it may
// panic.
func Check(file *parquet.File, columns []int, limits Bounds) error {
	rows, claimed := int64(0), file.NumRows()
	for _, group := range file.Metadata().RowGroups {
		if rows += group.NumRows; group.NumRows < 0 || rows < 0 || rows > limits.Values {
			claimed = max(rows, claimed)
			break
		}
	}
	if claimed > limits.Values {
		return fmt.Errorf("%w: %d rows in %d bytes", ErrExpands, claimed, file.Size())
	}
	return checkGroups(file, file.Metadata().RowGroups, columns, limits)
}

// CheckGroup is Check for one column of one group of rows.
func CheckGroup(file *parquet.File, group, column int, limits Bounds) error {
	return checkGroups(file, file.Metadata().RowGroups[group:group+1], []int{column}, limits)
}

func checkGroups(file *parquet.File, groups []format.RowGroup, columns []int, limits Bounds) error {
	if limits.Page == 0 {
		limits.Page = 1 << 24
	}
	if limits.Memory == 0 {
		limits.Memory = 1 << 30
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer unpack.Close()
	leaves := leavesOf(file.Root(), nil)
	var total, memory int64
	for _, index := range columns {
		if index < 0 || index >= len(leaves) {
			continue
		}
		p := pageCheck{file: file, leaf: leaves[index], limits: limits, total: &total, zstd: unpack}
		for _, group := range groups {
			if index >= len(group.Columns) {
				continue
			}
			p.chunk = &group.Columns[index].MetaData
			if err := p.run(); err != nil {
				return err
			}
		}
		if memory += p.largest; memory > limits.Memory {
			return fmt.Errorf("%w: its pages need more than %d bytes of memory at once", ErrExpands, limits.Memory)
		}
	}
	return nil
}

// leaf is a column that has values.
type leaf struct {
	repetition, definition int // largest levels
	kind                   parquet.Kind
	length                 int64 // of values of fixed length
}

// leavesOf appends the leaves below a column, in their order.
func leavesOf(c *parquet.Column, to []leaf) []leaf {
	type step struct {
		column *parquet.Column
		above  leaf
	}
	for steps := []step{{c, leaf{}}}; len(steps) > 0; {
		last := steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		children := last.column.Columns()
		for k := len(children) - 1; k >= 0; k-- {
			level := last.above
			if children[k].Repeated() {
				level.repetition++
			}
			if children[k].Repeated() || children[k].Optional() {
				level.definition++
			}
			steps = append(steps, step{children[k], level})
		}
		if last.column.Leaf() {
			one := last.above
			one.kind, one.length = last.column.Type().Kind(), int64(last.column.Type().Length())
			to = append(to, one)
		}
	}
	return to
}

// pageCheck adds up the pages of one column.
type pageCheck struct {
	file    *parquet.File
	leaf    leaf
	chunk   *format.ColumnMetaData
	limits  Bounds
	total   *int64 // bytes of all columns so far
	values  int64  // of the column
	largest int64  // bytes that a page needs in memory
	zstd    *zstd.Decoder
}

func (p *pageCheck) run() error {
	from := p.chunk.DataPageOffset
	if dictionary := p.chunk.DictionaryPageOffset; dictionary != 0 {
		from = dictionary
	}
	left := p.chunk.TotalCompressedSize
	if from < 0 || left < 0 || from > p.file.Size() || left > p.file.Size()-from {
		return fmt.Errorf("a column claims %d bytes at %d of %d", left, from, p.file.Size())
	}
	for end := from + left; from < end; {
		header, length, err := p.header(from, end)
		if err != nil {
			return err
		}
		from += length
		size := int64(header.CompressedPageSize)
		if size < 0 || header.UncompressedPageSize < 0 || size > end-from {
			return fmt.Errorf("a page claims %d bytes", size)
		}
		if err := p.page(header, io.NewSectionReader(p.file, from, size)); err != nil {
			return err
		}
		from += size
	}
	return nil
}

// header reads the header of a page, and says how long it is.
func (p *pageCheck) header(from, end int64) (*format.PageHeader, int64, error) {
	for size := int64(1 << 12); ; size *= 8 {
		size = min(size, end-from, maxPageHeader)
		raw := make([]byte, size)
		if _, err := p.file.ReadAt(raw, from); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		length, err := skim(raw)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			if size == end-from {
				return nil, 0, fmt.Errorf("%w, within the header of a page", errShort)
			}
			if size < maxPageHeader {
				continue
			}
			return nil, 0, fmt.Errorf("%w: the header of a page has more than %d bytes", ErrExpands, size)
		}
		if err != nil {
			return nil, 0, err
		}
		header := new(format.PageHeader)
		var compact thrift.CompactProtocol
		err = thrift.NewDecoder(compact.NewReaderFromBytes(raw[:length])).Decode(header)
		return header, int64(length), err
	}
}

// pageShape is what a header says of a page.
type pageShape struct {
	claimed  int64 // bytes, unpacked
	values   int64
	encoding format.Encoding
	packed   bool
	data     bool              // and no dictionary
	levels   [2]int64          // bytes of levels that are not packed; of version 2
	within   []format.Encoding // of levels that are packed with the values; of version 1
}

func (p *pageCheck) shape(header *format.PageHeader) (pageShape, error) {
	one, two, dictionary := header.DataPageHeader, header.DataPageHeaderV2, header.DictionaryPageHeader
	kinds := map[format.PageType]bool{format.DataPage: one.Valid, format.DataPageV2: two.Valid,
		format.DictionaryPage: dictionary.Valid}
	for kind, valid := range kinds { // the library may look at each
		if valid != (kind == header.Type) {
			return pageShape{}, fmt.Errorf("a page of type %v has the header of another", header.Type)
		}
	}
	s := pageShape{packed: true, claimed: int64(header.UncompressedPageSize)}
	switch header.Type {
	case format.DataPage:
		s.values, s.encoding, s.data = int64(one.V.NumValues), one.V.Encoding, true
		s.within = []format.Encoding{one.V.RepetitionLevelEncoding, one.V.DefinitionLevelEncoding}
	case format.DataPageV2:
		v := &two.V
		s.values, s.encoding, s.data = int64(v.NumValues), v.Encoding, true
		s.levels = [2]int64{int64(v.RepetitionLevelsByteLength), int64(v.DefinitionLevelsByteLength)}
		s.packed = !v.IsCompressed.Valid || v.IsCompressed.V
		if s.levels[0] < 0 || s.levels[1] < 0 || s.levels[0]+s.levels[1] > int64(header.CompressedPageSize) ||
			v.NumNulls < 0 {
			return s, fmt.Errorf("a page with levels of %d and %d bytes and %d nulls", s.levels[0], s.levels[1],
				v.NumNulls)
		}
	case format.DictionaryPage:
		s.values, s.encoding = int64(dictionary.V.NumValues), dictionary.V.Encoding
		if s.encoding != format.Plain && s.encoding != oldDictionary {
			return s, fmt.Errorf("a dictionary in the encoding %v", s.encoding)
		}
	default:
		return s, fmt.Errorf("a page of type %v", header.Type)
	}
	if s.values < 0 || s.values > p.limits.Page {
		return s, fmt.Errorf("%w: a page of %d values", ErrExpands, s.values)
	}
	if p.values += s.values; !s.data {
		p.values -= s.values
	} else if p.values > p.limits.Values {
		return s, fmt.Errorf("%w: a column of more than %d values", ErrExpands, p.limits.Values)
	}
	return s, nil
}

// page counts a page, and reads as much of it as tells how large it gets.
func (p *pageCheck) page(header *format.PageHeader, r io.Reader) error {
	s, err := p.shape(header)
	if err != nil {
		return err
	}
	claimed := s.claimed
	if err := p.add(claimed); err != nil {
		return err
	}
	for k, bytes := range s.levels {
		if most := p.levels()[k]; bytes > 0 && most > 0 {
			err = runs(bufio.NewReader(io.LimitReader(r, bytes)), uint(bits.Len(uint(most))), s.values)
		} else {
			_, err = io.CopyN(io.Discard, r, bytes)
		}
		if err != nil {
			return err
		}
	}
	rest := r
	if s.packed {
		if rest, err = p.unpack(r, claimed); err != nil {
			return err
		}
	}
	content := &content{r: io.LimitReader(rest, claimed+1)}
	more, err := p.walk(&s, bufio.NewReaderSize(content, 1<<14))
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if content.n > claimed {
		return fmt.Errorf("%w: a page that claims %d bytes has more", ErrExpands, claimed)
	}
	if err == nil {
		err = p.add(more)
	}
	each := int64(5) // a level, and where a value begins or which of the dictionary it is
	if s.encoding == format.DeltaBinaryPacked {
		each = 9
	}
	p.largest = max(p.largest, claimed+more+each*s.values)
	return err
}

// add counts bytes of a page.
func (p *pageCheck) add(size int64) error {
	if *p.total += size; size > maxPageBytes {
		return fmt.Errorf("%w: a page of %d bytes", ErrExpands, size)
	}
	if *p.total > p.limits.Bytes {
		return fmt.Errorf("%w: more than %d bytes out of %d", ErrExpands, p.limits.Bytes, p.file.Size())
	}
	return nil
}

// levels are the largest levels, of repetition and of definition.
func (p *pageCheck) levels() [2]int { return [2]int{p.leaf.repetition, p.leaf.definition} }

// walk walks over the content of a page, and returns how many bytes its values have beyond those of the page.
func (p *pageCheck) walk(s *pageShape, r *bufio.Reader) (more int64, err error) {
	if !s.data {
		return 0, nil
	}
	for k, encoding := range s.within {
		var head [4]byte
		most := p.levels()[k]
		if most == 0 {
			continue
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return 0, unlessEnd(err)
		}
		part := io.LimitReader(r, int64(binary.LittleEndian.Uint32(head[:])))
		if encoding != format.BitPacked {
			err = runs(bufio.NewReader(part), uint(bits.Len(uint(most))), s.values)
		} else { // eight levels a byte
			_, err = io.Copy(io.Discard, part)
		}
		if err != nil {
			return 0, err
		}
	}
	switch s.encoding {
	case format.RLEDictionary, oldDictionary:
		width, err := r.ReadByte()
		if err != nil {
			return 0, unlessEnd(err)
		}
		return 0, runs(r, uint(width), s.values)
	case format.RLE:
		if p.leaf.kind != parquet.Boolean {
			return 0, errors.New("a page of runs in a column that is not true or false")
		}
		if _, err := r.Discard(4); err != nil {
			return 0, unlessEnd(err)
		}
		return 0, runs(r, 1, s.values)
	case format.BitPacked:
		return 0, errors.New("a page in the encoding BIT_PACKED")
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		_, err := deltas(r, s.values)
		return 0, err
	case format.DeltaByteArray: // lengths of the beginnings that values share with those before, then of the rest
		shared, err := deltas(r, s.values)
		if err != nil {
			return 0, err
		}
		own, err := deltas(r, s.values)
		if err == nil && own > s.claimed {
			err = fmt.Errorf("%w: texts of %d bytes in a page of %d", ErrExpands, own, s.claimed)
		}
		more = shared
		if err != nil {
			return more, err
		}
	}
	if p.leaf.kind == parquet.FixedLenByteArray &&
		(s.encoding == format.DeltaByteArray || s.encoding == format.ByteStreamSplit) {
		more = max(more, s.values*p.leaf.length)
	}
	return more, nil
}

// content counts what is read of a page. What is damaged ends it, and is left to Scan.
type content struct {
	r io.Reader
	n int64
}

func (c *content) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = io.EOF
	}
	return n, err
}

// unpack returns a reader of a page's content, which may be longer than its limit.
func (p *pageCheck) unpack(r io.Reader, limit int64) (io.Reader, error) {
	none := bytes.NewReader(nil)
	switch p.chunk.Codec {
	case format.Uncompressed:
		return r, nil
	case format.Snappy, format.Lz4Raw: // they must be unpacked as a whole
		raw, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		size := lz4Size(raw)
		if p.chunk.Codec == format.Snappy {
			claimed, _ := binary.Uvarint(raw)
			size = int64(min(claimed, 1<<62))
		}
		if size > limit {
			return nil, fmt.Errorf("%w: a page that claims %d bytes has %d", ErrExpands, limit, size)
		}
		whole, err := parquet.LookupCompressionCodec(p.chunk.Codec).Decode(make([]byte, limit), raw)
		if err != nil {
			return none, nil
		}
		return bytes.NewReader(whole), nil
	case format.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return none, nil
		}
		return z, nil
	case format.Zstd:
		return p.zstd, p.zstd.Reset(r)
	case format.Brotli:
		return brotli.NewReader(r), nil
	}
	return nil, fmt.Errorf("pages packed with %v", p.chunk.Codec)
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
