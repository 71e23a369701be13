package columnar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// What a footer may hold. The library makes room for as many items as a list claims, some hundred bytes each, and a
// path for every column.
const (
	maxItems   = 1 << 17 // of all its lists: 1,000 groups of rows with 100 columns each
	maxNesting = 24      // of structures within structures
	maxColumns = 10_000  // groups of columns included
	maxPath    = 32      // of columns within columns
)

var errThrift = errors.New("its metadata are damaged")

// checkFooter walks over a footer and builds nothing of it but the tree of columns.
func checkFooter(raw []byte) error {
	if _, err := skim(raw); err != nil {
		return err
	}
	var of struct {
		Schema []struct {
			Children int32 `thrift:"5,optional"`
		} `thrift:"2,required"`
	}
	var compact thrift.CompactProtocol
	if err := thrift.NewDecoder(compact.NewReaderFromBytes(raw)).Decode(&of); err != nil {
		return fmt.Errorf("%w: %v", errThrift, err)
	}
	if len(of.Schema) > maxColumns {
		return fmt.Errorf("%w: %d columns", ErrExpands, len(of.Schema))
	}
	left := make([]int32, 0, maxPath) // children that are to come, of every column around
	for _, one := range of.Schema {
		for len(left) > 0 && left[len(left)-1] == 0 {
			left = left[:len(left)-1]
		}
		if len(left) > 0 {
			left[len(left)-1]--
		}
		if one.Children < 0 || int(one.Children) > len(of.Schema) {
			return fmt.Errorf("%w: a column of %d columns", errThrift, one.Children)
		}
		if left = append(left, one.Children); len(left) > maxPath {
			return fmt.Errorf("%w: columns within columns, more than %d deep", ErrExpands, maxPath)
		}
	}
	return nil
}

// skim walks over a structure of Thrift's compact protocol and returns how many bytes it has. It returns
// io.ErrUnexpectedEOF where the structure does not end.
func skim(raw []byte) (int, error) {
	s := skimmer{rest: raw}
	err := s.structure(0)
	return len(raw) - len(s.rest), err
}

type skimmer struct {
	rest  []byte
	items int // of all lists
}

func (s *skimmer) skip(n uint64) error {
	if n > uint64(len(s.rest)) {
		return io.ErrUnexpectedEOF
	}
	s.rest = s.rest[n:]
	return nil
}

func (s *skimmer) byte() (byte, error) {
	if len(s.rest) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b, nil
}

func (s *skimmer) varint() (uint64, error) {
	u, n := binary.Uvarint(s.rest)
	if n < 0 {
		return 0, errThrift
	}
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	s.rest = s.rest[n:]
	return u, nil
}

func (s *skimmer) structure(depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%w: they are nested more than %d deep", errThrift, maxNesting)
	}
	for {
		head, err := s.byte()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // the number of the field follows
			if _, err := s.varint(); err != nil {
				return err
			}
		}
		kind := thrift.Type(head & 15)
		if kind == thrift.TRUE || kind == thrift.FALSE {
			continue // the type is the value
		}
		if err := s.value(kind, depth); err != nil {
			return err
		}
	}
}

func (s *skimmer) value(kind thrift.Type, depth int) error {
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		return s.skip(1)
	case thrift.I16, thrift.I32, thrift.I64:
		_, err := s.varint()
		return err
	case thrift.DOUBLE:
		return s.skip(8)
	case thrift.UUID:
		return s.skip(16)
	case thrift.BINARY:
		n, err := s.varint()
		if err != nil {
			return err
		}
		return s.skip(n)
	case thrift.LIST, thrift.SET:
		return s.list(depth)
	case thrift.MAP:
		return s.dictionary(depth)
	case thrift.STRUCT:
		return s.structure(depth + 1)
	}
	return fmt.Errorf("%w: a value of type %d", errThrift, kind)
}

func (s *skimmer) list(depth int) error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = s.varint(); err != nil {
			return err
		}
	}
	return s.values(n, depth, thrift.Type(head&15))
}

func (s *skimmer) dictionary(depth int) error {
	n, err := s.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := s.byte()
	if err != nil {
		return err
	}
	return s.values(n, depth, thrift.Type(kinds>>4), thrift.Type(kinds&15))
}

// values walks over n items, each with a value of each kind.
func (s *skimmer) values(n uint64, depth int, kinds ...thrift.Type) error {
	if n > maxItems || s.items+int(n) > maxItems {
		return fmt.Errorf("%w: its metadata have more than %d entries", ErrExpands, maxItems)
	}
	s.items += int(n)
	if depth > maxNesting {
		return fmt.Errorf("%w: they are nested more than %d deep", errThrift, maxNesting)
	}
	for range n {
		for _, kind := range kinds {
			if err := s.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
